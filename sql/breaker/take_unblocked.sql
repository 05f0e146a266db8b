-- take_unblocked: `take_messages`, but for what a breaker keeps from being called.
--
-- What stands in front is put off, a bounded number of messages a claim, so that kinds whose downstream works are
-- reached through those whose does not. More than are wanted are only taken where nothing but such ones stood.
create or replace function tidegate_internal.take_unblocked(
  p_queue      text,
  p_limit      integer,
  p_now        timestamptz,
  p_kinds      text[],
  p_breakers   tidegate.breakers_seen,
  out msg_ids  bigint[],
  out ids      uuid[],
  out reaped   boolean,
  out mark     bigint,
  out start    bigint,
  out first    bigint,
  out due_from timestamptz,
  out due_to   timestamptz
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_at_once constant integer := 200;
  v_left    bigint[];
  v_taken   record;
begin
  for v_round in 1 .. 20 loop
    select * into v_taken
    from tidegate_internal.take_messages(
      p_queue, case v_round when 1 then p_limit else greatest(p_limit, v_at_once) end, p_now, p_kinds
    ) as t;
    reaped := v_taken.reaped;
    -- The marks pass nothing that this claim took, in any round: it may roll back.
    if v_round = 1 then
      mark := v_taken.mark;
      start := v_taken.start;
      first := v_taken.first;
      due_from := v_taken.due_from;
      due_to := v_taken.due_to;
    end if;
    if v_taken.msg_ids is null then
      return;
    end if;
    v_left := tidegate_internal.breaker_put_back(p_queue, v_taken.msg_ids, v_taken.ids, p_limit, p_breakers, p_now);
    if v_left is not null then
      select array_agg(t.msg_id order by t.msg_id), array_agg(t.id order by t.msg_id) into msg_ids, ids
      from unnest(v_taken.msg_ids, v_taken.ids) as t(msg_id, id)
      where t.msg_id = any(v_left);
    end if;
    if v_left is not null or reaped then
      return;
    end if;
  end loop;
end;
$$;
