-- recovery_ends: Closes the record of a run of `recover`; returns what all of its batches have done.
create or replace function tidegate.recovery_ends(run bigint)
  returns jsonb language sql security definer as $$
  update tidegate.recovery as r
  set ended_at = tidegate.clock(), last_at = tidegate.clock()
  where r.id = recovery_ends.run
  returning r.figures;
$$;
select tidegate_internal.allow('recovery_ends', '{admin}');
