-- fair_key_set: Gives a key of a fair queue a weight, or pauses or resumes it; returns whether anything changed.
--
-- `name` is the submitter, or the kind in a queue that is fair by kind; empty for requests without a submitter. Of a
-- key of weight 3, three requests are served for one of a key of weight 1. Null leaves a value as it is; a key without
-- settings has weight 1 and is not paused. Acts from the next service on; claims wait meanwhile. `actor` is recorded in
-- the history. Raises TG005 for an unknown queue, TG002 for an unknown kind, TG007 for a fifo queue and for a weight
-- outside 1 to 1000.
create or replace function tidegate.fair_key_set(
  queue text, name text, weight integer default null, paused boolean default null, actor text default null
)
  returns boolean language plpgsql security definer as $$
#variable_conflict use_column
declare
  v_actor_before constant text := tidegate_internal.set_actor(fair_key_set.actor);
  v_name         constant text := coalesce(fair_key_set.name, '');
  v_constraint   text;
  v_changed      boolean;
begin
  -- Before the row: two settings of two transactions would be a deadlock.
  perform tidegate_internal.key_of_name(fair_key_set.queue, v_name);
  perform pg_advisory_xact_lock(tidegate.queue_lock_key(fair_key_set.queue, 'turns'));
  begin
    insert into tidegate.fair_key as k (queue, name, weight, paused)
    values (
      fair_key_set.queue, v_name, coalesce(fair_key_set.weight, 1), coalesce(fair_key_set.paused, false)
    )
    on conflict (queue, name) do update
    set weight = coalesce(fair_key_set.weight, k.weight), paused = coalesce(fair_key_set.paused, k.paused)
    where (k.weight, k.paused) is distinct from (
      coalesce(fair_key_set.weight, k.weight), coalesce(fair_key_set.paused, k.paused)
    );
    v_changed := found;
  exception
    when check_violation then
      get stacked diagnostics v_constraint = constraint_name;
      raise exception using errcode = 'TG007', constraint = v_constraint,
        message = format('the weight of "%s" in the queue "%s" is refused: %s is not 1 to 1000', left(v_name, 300),
          fair_key_set.queue, fair_key_set.weight),
        hint = 'nothing has changed';
  end;
  perform set_config('tidegate.actor', v_actor_before, true);
  return v_changed;
end;
$$;
select tidegate_internal.allow('fair_key_set', '{admin}');
