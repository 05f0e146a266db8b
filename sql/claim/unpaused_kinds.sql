-- unpaused_kinds: Those of a queue's kinds that a claim for `p_kinds` (null: all) may take while some are paused.
create or replace function tidegate_internal.unpaused_kinds(p_queue_kinds text[], p_paused text[], p_kinds text[])
  returns text[] language sql immutable as $$
  select array(
    select k.name
    from unnest(p_queue_kinds) as k(name)
    where k.name <> all(p_paused) and coalesce(k.name = any(p_kinds), true)
  );
$$;
