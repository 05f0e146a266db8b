-- make_turns: Makes what a fair queue has beside the storage of any queue: the keys of its messages, its turns and its
-- journal, as far as they are missing.
--
-- The key has no default: an insert by a function that does not know it fails, instead of a message that no claim
-- finds.
create or replace function tidegate_internal.make_turns(p_queue text)
  returns void language plpgsql
  set client_min_messages = warning
  set standard_conforming_strings = on
as $$
declare
  v_table    constant text := tidegate_internal.queue_table(p_queue);
  v_turn     constant text := 'turn_' || p_queue;
  v_arrival  constant text := 'arrival_' || p_queue;
  v_short    constant text := 'autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000000';
begin
  if exists (
    select from pg_attribute as a where a.attrelid = v_table::regclass and a.attname = 'fair_key' and not a.attisdropped
  ) is false then
    execute format('alter table %s add column fair_key bigint not null', v_table);
    execute format('create index %I on %s (fair_key, msg_id)', 'q_' || p_queue || '_key_idx', v_table);
  end if;
  if to_regclass(format('tidegate.%I', v_turn)) is null then
    execute format(
      $sql$
        create table tidegate.%1$I (
          key bigint not null, tag bigint not null, no bigint not null, cost bigint not null, head bigint not null,
          waiting bigint not null, idle_at timestamptz
        ) with (fillfactor = 70, %2$s)
      $sql$, v_turn, v_short
    );
    execute format('create index %I on tidegate.%I (tag, no) where idle_at is null', v_turn || '_ready_idx', v_turn);
    execute format('create index %I on tidegate.%I (key, tag)', v_turn || '_key_idx', v_turn);
    execute format('create index %I on tidegate.%I (tag) where idle_at is not null', v_turn || '_idle_idx', v_turn);
  end if;
  if to_regclass(format('tidegate.%I', v_arrival)) is null then
    execute format(
      $sql$
        create table tidegate.%1$I (
          at timestamptz not null, key bigint not null, first bigint, n integer not null, urgent boolean not null
        ) with (%2$s)
      $sql$, v_arrival, v_short
    );
    execute format('create index %I on tidegate.%I (at) where urgent', v_arrival || '_urgent_idx', v_arrival);
    execute format('create index %I on tidegate.%I (at) where not urgent', v_arrival || '_quiet_idx', v_arrival);
  end if;
end;
$$;
