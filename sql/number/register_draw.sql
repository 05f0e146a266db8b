-- register_draw: Registers how many numbers of a queue this transaction is about to draw, so that a refresh counts them
-- as open.
--
-- `nextval` locks its sequence until the top transaction ends, which stands for one number. That suffices for the only
-- draw of a transaction that has written nothing before. More numbers are registered before the draw by shared advisory
-- locks, one for each binary digit of their count: first key the sequence, second key the digit's place and a number
-- that grows from one registration of the transaction to the next (a lock that is taken twice counts once). Each
-- registration is at least as large as all before it: n draws take about log n locks. A setting of the transaction
-- records how much was registered and drawn, and how often; if it is lost, more is registered than necessary.
create or replace function tidegate_internal.register_draw(p_queue text, p_count integer, p_last bigint)
  returns void language plpgsql as $$
declare
  v_fresh      constant boolean := pg_current_xact_id_if_assigned() is null;
  v_key        integer;
  v_setting    text;
  v_before     text;
  v_registered bigint := v_fresh::integer;
  v_drawn      bigint := 0;
  v_times      bigint := 0;
  v_more       bigint;
begin
  if v_fresh and p_count = 1 then
    return;
  end if;
  v_setting := 'tidegate.drawn_' || p_queue;
  v_before := nullif(current_setting(v_setting, true), '');
  if not v_fresh and v_before is not null then
    v_registered := split_part(v_before, ' ', 1);
    v_drawn := split_part(v_before, ' ', 2);
    v_times := split_part(v_before, ' ', 3);
  end if;
  if v_drawn + p_count > v_registered then
    v_more := greatest(v_drawn + p_count - v_registered, v_registered);
    v_key := tidegate_internal.queue_sequence(p_queue)::oid::bigint::bit(32)::integer;
    for v_place in 0 .. 30 loop
      if v_more & (1 << v_place) <> 0 then
        perform pg_advisory_xact_lock_shared(
          v_key, ((v_place::bigint << 27) | ((p_last + 4099 * v_times) & 134217727))::bit(32)::integer
        );
      end if;
    end loop;
    v_registered := v_registered + v_more;
    v_times := v_times + 1;
  end if;
  perform set_config(v_setting, concat_ws(' ', v_registered, v_drawn + p_count, v_times), true);
end;
$$;
