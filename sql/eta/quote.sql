-- quote: What a submission would be told at this moment: whether the gates admit it, how many messages wait before it,
-- and when to come back. Stores and reserves nothing.
--
-- `outcome` is accepted or refused. Of an accepted one, `retry_after_seconds` and the ETAs are those that `submit`
-- computes; of a refused one, `retry_after_seconds` is when to submit again. An idempotency key is not looked at: a
-- replay would be answered by its request.
create or replace function tidegate.quote(kind text, submitter text default null)
  returns table (
    outcome text, queue text, queue_position bigint, retry_after_seconds integer, eta_p50_ms bigint, eta_p90_ms bigint
  )
  language plpgsql security definer as $$
declare
  v_now   constant timestamptz := tidegate.clock();
  v_kind  constant tidegate.kind := tidegate_internal.require_kind(quote.kind);
  v_queue constant text := coalesce(v_kind.readiness_queue, v_kind.tx_queue);
  v_eta   tidegate.retry_after;
  v_fair_by text;
begin
  perform tidegate_internal.require_times(quote.kind);
  queue := v_queue;
  if exists (
    select
    from tidegate.gate as g
    where case
      when g.queue is not null then g.queue in (v_queue, v_kind.tx_queue) and g.state <> 'accepting'
      else (g.kind = v_kind.name or g.submitter = quote.submitter)
        and (g.state <> 'accepting' or not g.forced and tidegate_internal.gate_depth(g) >= g.high_water)
    end
  ) then
    outcome := 'refused';
    retry_after_seconds := tidegate_internal.gate_wait(v_kind, quote.submitter, 1);
  else
    outcome := 'accepted';
    v_fair_by := (select q.fair_by from tidegate.queue as q where q.name = v_queue);
    queue_position := case
      when v_fair_by is null
        then tidegate_internal.entry_position(v_queue, (tidegate_internal.queue_numbers(v_queue)).last, v_now)
      else (tidegate_internal.entry_turns(
        v_queue, array[tidegate_internal.fair_key(v_fair_by, quote.submitter, quote.kind)], v_now
      ))[1]
    end;
    v_eta := (tidegate_internal.submit_etas(
      v_kind, v_queue, queue_position, null, array[tidegate_internal.uuid_v7(v_now)], null,
      tidegate_internal.eta_inputs(
        v_kind, v_queue,
        case when v_kind.flow = 'decrypt' then 'queued' else 'processing' end::tidegate.request_status, 1
      ), v_now
    ))[1];
    retry_after_seconds := v_eta.seconds;
    eta_p50_ms := v_eta.p50_ms;
    eta_p90_ms := v_eta.p90_ms;
  end if;
  return next;
end;
$$;
select tidegate_internal.allow('quote', '{api,admin}');
select tidegate_internal.plan_along_indexes('quote');
