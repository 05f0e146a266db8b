-- resolution_of_failed: What `resolution` returns of a request that failed or timed out.
--
-- A share is no response, and of a verdict that rejects the kind's `reject_details` decides whether it is shown.
create or replace function tidegate.resolution_of_failed(request tidegate.request)
  returns jsonb language plpgsql stable parallel safe
  -- A plan that is kept may have been made for empty tables: along an index it serves full ones, too.
  set enable_seqscan = off
as $$
begin
  return (
    select jsonb_build_object('executed', o.executed, 'source', o.source, 'at', o.at)
      || case when i.accept is not null then jsonb_build_object('accept', i.accept) else '{}' end
      || case when i.response is not null and (i.accept is not false or k.reject_details)
        then jsonb_build_object('response', i.response) else '{}' end
    from tidegate.outcome as o
    join tidegate.kind as k on k.name = o.kind
    left join lateral (
      select l.accept, l.response
      from tidegate.response_inbox as l
      where l.request_id = o.request_id and l.late and l.part is null
      order by l.id
      limit 1
    ) as i on o.executed = 'yes'
    where o.request_id = request.id and o.executed <> 'unknown'
  );
end;
$$;
select tidegate_internal.allow('resolution_of_failed', '{reader,api,worker,admin}');
