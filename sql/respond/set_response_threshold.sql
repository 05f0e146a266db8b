-- set_response_threshold: Sets how many shares complete a request that a worker checks; false once it has lost the
-- lease, or the check has passed.
--
-- For a threshold that is known at the check, instead of that of the kind. Call it before the check is settled. Raises
-- TG007 for a threshold below one.
create or replace function tidegate.set_response_threshold(lease tidegate.lease, threshold integer)
  returns boolean language plpgsql security definer
as $$
begin
  if (set_response_threshold.threshold > 0) is not true then
    raise exception using errcode = 'TG007',
      message = format('a response takes at least one share, not %L', set_response_threshold.threshold);
  end if;
  update tidegate.request as r
  set previous_status = r.req_status, response_threshold = set_response_threshold.threshold
  where r.id = (set_response_threshold.lease).id and r.lease = (set_response_threshold.lease).token
    and r.queue = (set_response_threshold.lease).queue and r.req_status = 'queued';
  return found;
end;
$$;
select tidegate_internal.allow('set_response_threshold', '{worker,admin}');
