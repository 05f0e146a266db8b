-- submit: (entry) → queued (decrypt) or processing (proof, direct), for one request; returns its id, outcome (accepted,
-- replayed or refused), position and when to come back.
--
-- Outcomes: `accepted`, `replayed` (same idempotency key, same payload), or `refused` (a gate is closed or full; id
-- null). Commits with the caller's transaction. `not_before` delays the start of the request. `same_key`: 'compare', or
-- 'replay' when the key decides alone, whatever the payload. With `key_patience_ms`, 55P03 when the key waits longer
-- for another transaction, and a replay has only id, status and queue. `traceparent` is the place of the submission in
-- a trace (W3C Trace Context); an invalid one is ignored. See `submit_batch` for `admission` and the errors.
--
-- Stores the common case (see `wanted_terms`) in few statements, because a caller waits for each. `submit_requests`
-- takes all other cases, by the same rules and in the same order of locks: other options and kinds, a closed gate, a
-- breaker that is not closed, a submitter's quota, a number that is not admitted, a key that is stored. It also refuses
-- invalid keys and raises all errors. Nothing is stored before it takes over. The number is drawn as in `enter_queue`.
--
-- Uses scalar variables and few expressions, because PL/pgSQL prepares each expression in each transaction.
create or replace function tidegate.submit(
  kind text, payload jsonb, idempotency_key text default null, submitter text default null,
  admission text default 'enforce', not_before timestamptz default null, same_key text default 'compare',
  key_patience_ms integer default null, traceparent text default null
)
  returns table (
    id uuid, outcome text, req_status tidegate.request_status, queue text, queue_position bigint,
    retry_after_seconds integer
  )
  language plpgsql security definer
  -- A plan that is kept may have been made for empty tables: along indexes it serves full ones, too.
  set enable_seqscan = off
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_now        timestamptz := tidegate.clock();
  v_flow       tidegate.flow;
  v_gate       text;
  v_high_water integer;
  v_deadline   interval;
  v_threshold  integer;
  v_has_more   boolean;
  v_scope      text;
  v_min        integer;
  v_max        integer;
  v_eta_first  bigint;
  v_eta_each   bigint;
  v_eta_below  bigint;
  v_p50_ms     bigint;
  v_p90_ms     bigint;
  v_first      boolean;
  v_timeout    text;
  v_last       bigint;
  v_to         bigint;
  v_head       bigint;
  v_surveyed   bigint;
  v_number     bigint;
  v_counted    text;
  v_done       text;
begin
  <<plain>>
  begin
    select
      tidegate_internal.uuid_v7(v_now), 'accepted', 'processing'::tidegate.request_status, t.queue, t.flow, t.gate,
      t.high_water, t.deadline, t.response_threshold, t.has_breaker or t.has_quotas, t.min_seconds, t.max_seconds,
      t.eta_first, t.eta_each, t.eta_below, current_setting('tidegate.counted', true)
    into
      id, outcome, req_status, queue, v_flow, v_gate, v_high_water, v_deadline, v_threshold, v_has_more, v_min, v_max,
      v_eta_first, v_eta_each, v_eta_below, v_counted
    from tidegate.submit_terms as t
    where t.kind = submit.kind and (select e.state from tidegate.gate as e where e.name = t.gate) = 'accepting'
      and submit.not_before is null and submit.admission = 'enforce' and submit.payload is not null
      and submit.same_key in ('compare', 'replay')
      and (submit.idempotency_key is null and not t.derives_keys or length(submit.idempotency_key) between 1 and 255)
      and current_setting('transaction_isolation') = 'read committed'
      and current_setting('tidegate.config_changed', true) is distinct from 'on';
    exit plain when not found;
    if v_has_more then
      exit plain when exists (
        select from tidegate.breaker as b where b.kind = submit.kind and b.stage = 'tx' and b.state <> 'closed'
      ) or exists (select from tidegate.gate as c where c.submitter = submit.submitter);
    end if;
    if idempotency_key is not null then
      -- Read before the insert of the key assigns a transaction id: a transaction's first draw needs no registration.
      v_first := pg_current_xact_id_if_assigned() is null;
      if key_patience_ms is not null then
        v_timeout := current_setting('lock_timeout');
        v_done := set_config('lock_timeout', key_patience_ms::text, true);
      end if;
      insert into tidegate.dedup as d (scope, key, fingerprint, request_id, first_seen, dedup_window, expires_at)
      select
        tidegate_internal.key_scope(t.kind, t.key_scope, submit.submitter), idempotency_key,
        case when same_key = 'compare' and t.compares_payloads
          then tidegate_internal.fingerprint(submit.payload, t.set_paths) else '' end,
        submit.id, v_now, t.dedup_window, tidegate_internal.window_end(v_now, t.dedup_window)
      from tidegate.submit_terms as t
      where t.kind = submit.kind
      on conflict on constraint dedup_pkey do nothing
      returning d.scope into v_scope;
      if key_patience_ms is not null then
        v_done := set_config('lock_timeout', v_timeout, true);
      end if;
      exit plain when not found;
      v_now := tidegate.clock();
    end if;
    <<entry>>
    begin
      case queue
        -- each fifo queue
        when 'QUEUE' then
          select
            s.last_value - (not s.is_called)::integer,
            coalesce(pg_sequence_last_value('tidegate.offset_QUEUE'), 0) + v_high_water,
            coalesce(pg_sequence_last_value('tidegate.first_waiting_QUEUE'), 0),
            pg_sequence_last_value('tidegate.not_waiting_QUEUE')
          into v_last, v_to, v_head, v_surveyed
          from pgmq.q_QUEUE_msg_id_seq as s;
          -- Without room, or with the offset of a sequence that has been set back.
          exit entry when v_last not between v_to - v_high_water and v_to - 1;
          if v_last - v_head >= 8192 or v_surveyed > 0 and v_last - v_head >= 256 then
            queue_position := greatest(0, v_last + 1 - greatest(v_head, v_surveyed));
          else
            queue_position := tidegate_internal.entry_position(queue, v_last, v_now);
          end if;
          if v_first is not true and pg_current_xact_id_if_assigned() is not null then
            perform tidegate_internal.register_draw(queue, 1, v_last);
          end if;
          v_number := nextval('pgmq.q_QUEUE_msg_id_seq');
          exit entry when v_number > v_to;
          insert into pgmq.q_QUEUE (msg_id, vt, message)
          overriding system value
          values (v_number, '-infinity', jsonb_build_object('id', id));
        -- end of each queue
        else perform tidegate_internal.refuse_queue(queue);
      end case;
      if v_eta_first is null then
        select e.seconds, e.p50_ms, e.p90_ms into retry_after_seconds, v_p50_ms, v_p90_ms
        from tidegate_internal.entry_eta(submit.kind, queue_position, id, v_now) as e;
      else
        retry_after_seconds := greatest(
          v_min, least(v_max, (v_eta_first + v_eta_each * queue_position + v_eta_below - 1) / v_eta_below)
        );
      end if;
      v_done := set_config('tidegate.counted', pg_current_xact_id()::text, true);
      with counted as (
        insert into tidegate.request_count_delta (kind, req_status, delta, submitted)
        values (submit.kind, 'processing', 1, 1)
      )
      insert into tidegate.request (
        id, kind, flow, req_status, cause, response_threshold, queue, msg_id, submitted_at, processing_at, deadline_at,
        submitter, eta_seconds, eta_p50_ms, eta_p90_ms, payload, traceparent
      ) values (
        submit.id, submit.kind, v_flow, 'processing', 'submitted', v_threshold, submit.queue, v_number, v_now, v_now,
        v_now + v_deadline, submit.submitter, submit.retry_after_seconds, v_p50_ms, v_p90_ms, submit.payload,
        tidegate_internal.valid_traceparent(submit.traceparent)
      );
      v_done := set_config('tidegate.counted', v_counted, true);
      if queue_position = 0 then
        perform pg_notify('tidegate_queue', queue);
      end if;
      if v_number >= v_to - v_high_water / 8 then
        if v_number = v_to then
          perform tidegate_internal.gate_evaluate(v_gate, 'accepting');
        elsif v_number = v_to - v_high_water / 8 then
          -- One submission refreshes the offset, before all that are under way run out of numbers.
          perform tidegate_internal.refresh_offset(queue, false);
        end if;
      end if;
      return next;
      return;
    end;
    -- The number is void, or none was drawn: the key stands for no request.
    if idempotency_key is not null then
      delete from tidegate.dedup as d where d.scope = v_scope and d.key = idempotency_key;
    end if;
  end;

  return query select
    s.id, s.outcome, s.req_status, s.queue, s.queue_position, s.retry_after_seconds
  from tidegate_internal.submit_requests(
    submit.kind, array[submit.payload], array[submit.idempotency_key], array[submit.submitter], submit.admission,
    submit.not_before, submit.key_patience_ms is not null, submit.key_patience_ms, p_same_key => submit.same_key,
    p_traceparents => array[submit.traceparent]
  ) as s;
end;
$$;
select tidegate_internal.allow('submit', '{api,admin}');
