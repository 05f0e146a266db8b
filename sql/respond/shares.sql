-- shares: The response of a request that is answered in shares: all that it has.
create or replace function tidegate_internal.shares(p_id uuid)
  returns jsonb language plpgsql stable
  -- A plan that is kept may have been made for empty tables: along an index it serves full ones, too.
  set enable_seqscan = off
as $$
begin
  return (
    select jsonb_build_object('shares', jsonb_object_agg(p.part, p.response))
    from tidegate.response_part as p
    where p.request_id = p_id
  );
end;
$$;
