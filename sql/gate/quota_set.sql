-- quota_set: Limits how many requests of a kind, or of a submitter, may be in queues; returns whether anything changed.
--
-- Makes the quota, or changes the existing one: null leaves a value as it is, and for a new one `low_water` is half of
-- `high_water` and `mode` strict. It is a gate like a queue's, with the name 'kind direct' or 'submitter ann'; requests
-- in queues already count. `actor` is recorded in the history. Raises TG002 for an unknown kind, TG007 for invalid
-- values, with the constraint that they break.
create or replace function tidegate.quota_set(
  kind text default null, submitter text default null, high_water integer default null,
  low_water integer default null, mode text default null, actor text default null
)
  returns boolean language plpgsql security definer as $$
#variable_conflict use_column
declare
  v_actor_before text := tidegate_internal.set_actor(quota_set.actor);
  v_name         text := coalesce('kind ' || quota_set.kind, 'submitter ' || quota_set.submitter);
  v_changed      boolean := false;
  v_constraint   text;
begin
  if num_nonnulls(quota_set.kind, quota_set.submitter) <> 1 then
    raise exception using errcode = 'TG007', message = 'a quota is for a kind or for a submitter: name one of them';
  end if;
  perform tidegate_internal.require_kind(quota_set.kind) where quota_set.kind is not null;
  begin
    if not exists (select from tidegate.gate as g where g.name = v_name) then
      if quota_set.high_water is null then
        raise exception using errcode = 'TG007', message = 'a new quota needs a high_water mark';
      end if;
      -- Events outlive their gate: one of the same name goes on counting where the earlier one stopped.
      insert into tidegate.gate as g (kind, submitter, high_water, low_water, mode, epoch)
      values (
        quota_set.kind, quota_set.submitter, quota_set.high_water,
        coalesce(quota_set.low_water, quota_set.high_water / 2), coalesce(quota_set.mode, 'strict'),
        coalesce((select max(e.epoch) from tidegate.gate_event as e where e.gate = v_name), 0)
      )
      on conflict do nothing;
      v_changed := found;
    end if;
    if not v_changed then
      update tidegate.gate as g
      set
        high_water = coalesce(quota_set.high_water, g.high_water),
        low_water = coalesce(quota_set.low_water, g.low_water), mode = coalesce(quota_set.mode, g.mode)
      where g.name = v_name
        and (g.high_water, g.low_water, g.mode) is distinct from (
          coalesce(quota_set.high_water, g.high_water), coalesce(quota_set.low_water, g.low_water),
          coalesce(quota_set.mode, g.mode)
        );
      v_changed := found;
      if v_changed then
        perform tidegate_internal.gate_evaluate(v_name);
      end if;
    end if;
  exception
    when check_violation then
      get stacked diagnostics v_constraint = constraint_name;
      raise exception using errcode = 'TG007',
        constraint = v_constraint,
        message = format(
          'the quota "%s" is refused: %s (high_water %s, low_water %s, mode %s)', left(v_name, 300),
          replace(v_constraint, '_', ' '), coalesce(quota_set.high_water::text, 'as it is'),
          coalesce(quota_set.low_water::text, 'as it is, or half of high_water'),
          coalesce(left(quota_set.mode, 100), 'as it is')
        ),
        hint = 'nothing has changed';
  end;
  perform set_config('tidegate.actor', v_actor_before, true);
  return v_changed;
end;
$$;
select tidegate_internal.allow('quota_set', '{admin}');
