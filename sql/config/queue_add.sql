-- queue_add: Makes a queue with its gate, to which kinds may be moved; returns the settings that it made, none if the
-- queue exists with this stage.
--
-- `stage` is readiness or tx. A queue of stage tx takes `per_seconds`, one of stage readiness `max_concurrency`, null
-- for no limit; the gate gets these marks. `fair_by`, submitter or kind, makes a fair queue (null: fifo). Raises TG007
-- for an invalid value, with the constraint that it breaks, and for an existing queue of the other stage. `actor` is
-- recorded in the history.
create or replace function tidegate.queue_add(
  queue text, stage text, per_seconds numeric default null, max_concurrency integer default null,
  high_water integer default 2000, low_water integer default null, actor text default null,
  fair_by text default null
)
  returns table (subject text, name text, value text) language plpgsql security definer as $$
#variable_conflict use_column
declare
  v_actor_before text := tidegate_internal.set_actor(queue_add.actor);
  v_made         boolean;
  v_stage        tidegate.stage;
  v_constraint   text;
begin
  begin
    v_stage := queue_add.stage::tidegate.stage;
    insert into tidegate.queue as q (name, stage, per_seconds, max_concurrency, fair_by)
    values (
      queue_add.queue, v_stage, queue_add.per_seconds, queue_add.max_concurrency, queue_add.fair_by
    )
    on conflict do nothing;
    v_made := found;
    update tidegate.gate as g
    set high_water = queue_add.high_water, low_water = coalesce(queue_add.low_water, queue_add.high_water / 2)
    where g.queue = queue_add.queue and v_made;
  exception when check_violation or not_null_violation or data_exception then
    get stacked diagnostics v_constraint = constraint_name;
    raise exception using errcode = 'TG007', constraint = coalesce(v_constraint, ''),
      message = format('queue "%s" is refused: %s', left(queue_add.queue, 100),
        coalesce(replace(nullif(v_constraint, ''), '_', ' '), sqlerrm)),
      hint = coalesce(tidegate_internal.constraint_hint(v_constraint), 'nothing has changed');
  end;
  if not v_made and not exists (
    select from tidegate.queue as q where q.name = queue_add.queue and q.stage = v_stage
  ) then
    raise exception using errcode = 'TG007', hint = 'a queue keeps its stage: give the new one another name',
      message = format('queue "%s" exists, and does not serve stage %s', queue_add.queue, queue_add.stage);
  end if;
  return query
    select 'queue ' || q.name, s.name, s.value
    from tidegate.queue as q
    join tidegate.gate as g on g.queue = q.name
    cross join lateral (values
      ('stage', q.stage::text), ('fair_by', q.fair_by), ('per_seconds', q.per_seconds::text),
      ('max_concurrency', q.max_concurrency::text),
      ('high_water/low_water', format('%s/%s', g.high_water, g.low_water))
    ) as s(name, value)
    where v_made and q.name = queue_add.queue and s.value is not null;
  perform set_config('tidegate.actor', v_actor_before, true);
end;
$$;
select tidegate_internal.allow('queue_add', '{admin}');
