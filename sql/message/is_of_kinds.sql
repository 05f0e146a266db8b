-- is_of_kinds: Whether the request of a message is of one of these kinds; also true for a message without a request.
--
-- In PL/pgSQL: a subquery in its place would cost each statement that names it, also where no kinds are asked for.
create or replace function tidegate_internal.is_of_kinds(p_message jsonb, p_kinds text[])
  returns boolean language plpgsql stable as $$
begin
  return (
    select r.kind = any(p_kinds) from tidegate.request as r where r.id = tidegate.message_request_id(p_message)
  ) is not false;
end;
$$;
