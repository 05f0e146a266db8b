-- tidegate.message_request_id: the request a message stands for; null for a message that is none of ours
create or replace function tidegate.message_request_id(p_message jsonb)
  returns uuid
  language sql
  immutable
  parallel safe
as $$
  select case
    when p_message ->> 'id' ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then (p_message ->> 'id')::uuid
  end;
$$;
