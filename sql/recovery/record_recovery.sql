-- record_recovery: Adds figures to the record of a run of `recover`, or stores them as a run of their own.
--
-- Figures of 0 are dropped.
create or replace function tidegate_internal.record_recovery(p_run bigint, p_figures jsonb)
  returns void language plpgsql as $$
declare
  v_figures jsonb;
begin
  select jsonb_object_agg(f.key, f.value) into v_figures from jsonb_each(p_figures) as f where f.value <> '0';
  if v_figures is null then
    return;
  end if;
  if p_run is null then
    insert into tidegate.recovery (ended_at, on_behalf_of, figures)
    values (tidegate.clock(), left(nullif(current_setting('tidegate.actor', true), ''), 200), v_figures);
    return;
  end if;
  update tidegate.recovery as r
  set
    last_at = tidegate.clock(),
    figures = (
      select jsonb_object_agg(f.key, f.total)
      from (
        select one.key, sum(one.value::numeric) as total
        from (select * from jsonb_each_text(r.figures) union all select * from jsonb_each_text(v_figures)) as one
        group by one.key
      ) as f
    )
  where r.id = p_run;
end;
$$;
