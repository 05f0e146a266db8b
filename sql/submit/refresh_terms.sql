-- refresh_terms: Trigger on the configuration: brings submit_terms up to date at commit; one change at a time.
--
-- At commit, so that changes wait for each other when they need no more locks; the later one sees the earlier.
-- Submissions wait for none. The transaction of the change itself submits without the terms (see
-- `record_config_change`).
create or replace function tidegate_internal.refresh_terms()
  returns trigger language plpgsql security definer as $$
declare
  -- Null: the change may concern any kind.
  v_kind   constant text := to_jsonb(coalesce(new, old)) ->> case tg_table_name when 'kind' then 'name' else 'kind' end;
  v_wanted tidegate.submit_terms[];
begin
  perform pg_advisory_xact_lock(hashtextextended('tidegate.configuration', 0));
  v_wanted := array(select w from tidegate_internal.wanted_terms(v_kind) as w);
  delete from tidegate.submit_terms as t where t.kind = coalesce(v_kind, t.kind) and t <> all(v_wanted);
  insert into tidegate.submit_terms
  select w.* from unnest(v_wanted) as w
  where not exists (select from tidegate.submit_terms as t where t.kind = w.kind);
  return null;
end;
$$;

select tidegate_internal.constraint_trigger(
  'submit_terms', s.name, s.changes, 'execute function tidegate_internal.refresh_terms()'
)
from (values
  ('kind', 'insert or delete or update'), ('queue', 'insert or delete or update'),
  ('policy', 'insert or delete or update'),
  ('setting', 'update'), ('breaker', 'insert or delete'),
  -- Not when a gate closes or opens.
  ('gate', 'insert or delete or update of queue, kind, submitter, mode, high_water, forced')
) as s(name, changes);

-- `migrate` may have changed `wanted_terms`.
delete from tidegate.submit_terms;
insert into tidegate.submit_terms select * from tidegate_internal.wanted_terms(null);
