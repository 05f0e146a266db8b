-- wanted_terms: The row of `submit_terms` that the configuration gives a kind, or each kind (null).
--
-- A kind has a row if `submit` serves it without `submit_requests`: no readiness check, no quota of its own, no fair
-- queue, no pause of it or its queue, whose gate is strict and not forced, and a nominal `eta_line` in millionths that
-- bigints hold up to a position of a billion, or an observed ETA and a limit that is not 0.
create or replace function tidegate_internal.wanted_terms(p_kind text)
  returns setof tidegate.submit_terms language sql stable as $$
  select
    k.name, k.flow, k.tx_queue, e.name, e.high_water, k.deadline, k.response_threshold, k.set_paths,
    k.key_mode <> 'caller', k.key_scope, p.dedup_window,
    exists (select from tidegate.breaker as b where b.kind = k.name and b.stage = 'tx'),
    exists (select from tidegate.gate as c where c.submitter is not null),
    s.min_seconds, s.max_seconds, m.first, m.each, m.below, k.key_compares = 'payload'
  from tidegate.kind as k
  join tidegate.queue as q on q.name = k.tx_queue
  join tidegate.gate as e on e.queue = k.tx_queue
  join tidegate.policy as p on p.kind = k.name and p.stage = 'tx'
  cross join tidegate.setting as s
  cross join lateral tidegate.eta_line(
    'tx_queue', null, q.per_seconds, null, null, k.processing_ms, k.tx_confirmation_ms, s.safety_margin
  ) as l
  left join lateral (
    select l.first * 1000000 as first, l.each * 1000000 as each, l.below * 1000000 as below
  ) as m on k.eta = 'nominal'
  where (p_kind is null or k.name = p_kind) and k.flow <> 'decrypt'
    and q.fair_by is null and not k.paused and not q.paused and e.mode <> 'soft' and not e.forced
    and case k.eta
      when 'nominal' then m.first % 1 + m.each % 1 + coalesce(m.below % 1, 0) = 0
        and m.first + m.each * 1000000000 + coalesce(m.below, 0) < 9000000000000000000
      else num_nulls(k.processing_ms, k.tx_confirmation_ms) = 0 and q.per_seconds is distinct from 0
    end
    and not exists (select from tidegate.gate as c where c.kind = k.name);
$$;
