-- recovery_ends: closes the record of a run of `recover`; returns what all of its batches have done
create or replace function tidegate.recovery_ends(run bigint)
  returns jsonb
  language sql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
  update tidegate.recovery as r
  set ended_at = tidegate.clock(), last_at = tidegate.clock()
  where r.id = recovery_ends.run
  returning r.figures;
$$;

comment on function tidegate.recovery_ends is 'Closes the record of a run of recover; returns what it did.';
select tidegate_internal.allow('recovery_ends', '{admin}');
