-- take_unblocked: Takes messages as `take_messages` does, and puts back those of kinds that a breaker keeps from being
-- called (`p_breakers`, see `breaker_admission`).
--
-- Requests of blocked kinds, and of half-open kinds all but the free probes, are snoozed until their breaker may have
-- changed: no attempt counts, no position is lost. Many of them come due at random times, about two thousand a second,
-- within 30 seconds at most, or claims would do nothing but snooze them. While all messages that it has taken are
-- blocked, the claim takes more, at least 200 a round, so that kinds whose downstream works are reached behind those
-- whose downstream does not; 20 rounds are the most. From the second round on it may take more than `p_limit`. The rest
-- is put back with a time: only messages without one need the watermark's lock, and this transaction holds breakers.
create or replace function tidegate_internal.take_unblocked(
  p_queue text, p_limit integer, p_now timestamptz, p_kinds text[],
  p_breakers tidegate.breaker_limits
)
  returns tidegate.taken_messages language plpgsql as $$
declare
  v_at_once constant integer := 200;
  v_result  tidegate.taken_messages;
  v_taken   tidegate.taken_messages;
  v_back    record;
begin
  for v_round in 1 .. 20 loop
    v_taken := tidegate_internal.take_messages(
      p_queue, case v_round when 1 then p_limit else greatest(p_limit, v_at_once) end, p_now, p_kinds
    );
    -- The watermarks advance by the first round only: a rollback would bring the messages of later rounds back.
    if v_round = 1 then
      v_result := v_taken;
      v_result.msg_ids := null;
      v_result.ids := null;
    end if;
    v_result.reaped := v_taken.reaped;
    exit when v_taken.msg_ids is null;

    with judged as materialized (
      select
        m.msg_id, m.id, m.nth,
        case
          when m.kind = any(p_breakers.blocked)
            then p_breakers.blocked_until[array_position(p_breakers.blocked, m.kind)]
          when m.place > p_breakers.probes_free[array_position(p_breakers.probed, m.kind)]
            then p_now + interval '250 milliseconds'
        end + random() * least(greatest(c.requests - 200, 0) * interval '0.5 ms', interval '30 seconds') as until
      from (
        select
          t.msg_id, t.id, t.nth, r.kind, r.req_status, row_number() over (partition by r.kind order by t.nth) as place
        from unnest(v_taken.msg_ids, v_taken.ids) with ordinality as t(msg_id, id, nth)
        left join tidegate.request as r on r.id = t.id and r.queue = p_queue and r.msg_id = t.msg_id
      ) as m
      left join tidegate.request_count as c on c.kind = m.kind and c.req_status = m.req_status
    ), in_turn as materialized (
      select o.nth, o.place
      from (
        select array_agg(j.id order by j.nth) as ids, array_agg(j.until is null order by j.nth) as open from judged as j
      ) as a
      cross join lateral tidegate_internal.turn_places(p_queue, a.ids, a.open) as o
    ), placed as (
      select
        j.msg_id, j.id, coalesce(o.place, j.nth) as place, j.until,
        j.until is null and row_number() over (
          partition by j.until is null order by coalesce(o.place, j.nth)
        ) <= p_limit as is_kept
      from judged as j
      left join in_turn as o on o.nth = j.nth
    )
    select
      array_agg(p.msg_id order by p.place) filter (where p.is_kept) as kept,
      array_agg(p.id order by p.place) filter (where p.is_kept) as kept_ids,
      array_agg(p.msg_id order by p.msg_id) filter (where not p.is_kept) as msg_ids,
      array_agg(p.id order by p.msg_id) filter (where not p.is_kept) as ids,
      array_agg(coalesce(p.until, p_now) order by p.msg_id) filter (where not p.is_kept) as visible
    into v_back
    from placed as p;
    if v_back.msg_ids is not null then
      perform tidegate_internal.put_back(p_queue, v_back.msg_ids, v_back.ids, v_back.visible);
      perform tidegate_internal.refund_turns(p_queue, v_back.msg_ids, v_back.ids, v_back.visible, p_now);
    end if;
    v_result.msg_ids := v_back.kept;
    v_result.ids := v_back.kept_ids;
    -- Reaped requests come alone: such a claim locks no others.
    exit when v_result.msg_ids is not null or v_result.reaped;
  end loop;
  return v_result;
end;
$$;
