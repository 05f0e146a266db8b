-- breaker_put_back: Of messages just taken, gives back those that a breaker keeps from being called.
--
-- `p_breakers` is what `breaker_admission` said. Those of shut kinds, and of half-open ones all but the first few, are
-- put off until it may be worth another look: no attempt counts, no position is lost. Many of them come back one after
-- the other, two thousand a second, or claims would do nothing but put them off. At most `p_limit` are kept; what was
-- taken beyond that is given back, with a time, so that nobody who holds a breaker waits for the low-water mark.
-- Returns the numbers that are left.
create or replace function tidegate_internal.breaker_put_back(
  p_queue    text,
  p_msg_ids  bigint[],
  p_ids      uuid[],
  p_limit    integer,
  p_breakers tidegate.breakers_seen,
  p_now      timestamptz
)
  returns bigint[]
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_shut       text[] := p_breakers.shut;
  v_shut_until timestamptz[] := p_breakers.shut_until;
  v_probing    text[] := p_breakers.probing;
  v_free       integer[] := p_breakers.free;
  v_off        bigint[];
  v_off_ids    uuid[];
  v_until      timestamptz[];
  v_left       bigint[];
begin
  with judged as (
    select
      m.msg_id, m.id,
      case
        when m.kind = any(v_shut) then v_shut_until[array_position(v_shut, m.kind)]
        when m.kind = any(v_probing) and m.place > v_free[array_position(v_probing, m.kind)]
          then p_now + interval '250 milliseconds'
      end + random() * least(greatest(c.requests - 200, 0) * interval '0.5 ms', interval '30 seconds') as until
    from (
      select t.msg_id, t.id, r.kind, r.req_status, row_number() over (partition by r.kind order by t.msg_id) as place
      from unnest(p_msg_ids, p_ids) as t(msg_id, id)
      left join tidegate.request as r on r.id = t.id and r.queue = p_queue and r.msg_id = t.msg_id
    ) as m
    left join tidegate.request_count as c on c.kind = m.kind and c.req_status = m.req_status
  ), placed as (
    select j.msg_id, j.id, j.until, row_number() over (partition by j.until is null order by j.msg_id) as place
      from judged as j
  )
  select
    array_agg(p.msg_id order by p.msg_id) filter (where p.until is not null or p.place > p_limit),
    array_agg(p.id order by p.msg_id) filter (where p.until is not null or p.place > p_limit),
    array_agg(coalesce(p.until, p_now) order by p.msg_id) filter (where p.until is not null or p.place > p_limit),
    array_agg(p.msg_id order by p.msg_id) filter (where p.until is null and p.place <= p_limit)
  into v_off, v_off_ids, v_until, v_left
  from placed as p;
  if v_off is not null then
    perform tidegate_internal.put_back(p_queue, v_off, v_off_ids, v_until);
  end if;
  return v_left;
end;
$$;
