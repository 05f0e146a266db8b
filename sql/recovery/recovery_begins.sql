-- recovery_begins: Opens the record of a run of `recover`, to which its batches add what they do; returns its number.
--
-- `options` are those of the run. `recovery_ends` closes it; a run that died half-way stays open.
create or replace function tidegate.recovery_begins(options jsonb default null, actor text default null)
  returns bigint language sql security definer as $$
  insert into tidegate.recovery (on_behalf_of, options)
  values (
    left(coalesce(recovery_begins.actor, nullif(current_setting('tidegate.actor', true), '')), 200),
    recovery_begins.options
  )
  returning id;
$$;
select tidegate_internal.allow('recovery_begins', '{admin}');
