-- invariants_of_schema: The invariants of transition rules, triggers, indexes and duties.
--
-- As `invariants`.
create or replace function tidegate_internal.invariants_of_schema()
  returns table (name text, rule text, subject text, query text) language sql immutable as $$
  values
    ('transition_rule_edited', 'the rules of the state machine are those that it was made with', null, $q$
select concat_ws(
  ' ', e.what || ':', e.flow, coalesce(e.from_status::text, '(entry)'), '→', e.to_status, e.cause
) as id
from (
  select 'missing' as what, m.*
  from (select * from tidegate.transition_rules() except table tidegate.transition_rule) as m
  union all
  select 'added', a.*
  from (table tidegate.transition_rule except select * from tidegate.transition_rules()) as a
) as e
     $q$),
    ('guard_switched_off',
     'Tidegate''s triggers are there, none of an earlier version is, and every trigger is switched on', null, $q$
select coalesce(m.name, t.name) as id
from (
  select o.key as name
  from tidegate.schema_state as s
  cross join lateral jsonb_each(s.objects) as o
  where s.schema = 'tidegate' and o.key like 'trigger %'
) as m
full join (
  select
    format('trigger %I on tidegate.%I', t.tgname, c.relname) as name, t.tgenabled in ('O', 'A') as is_on,
    p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace) as is_ours
  from pg_catalog.pg_trigger as t
  join pg_catalog.pg_class as c on c.oid = t.tgrelid
  join pg_catalog.pg_proc as p on p.oid = t.tgfoid
  where c.relnamespace = 'tidegate'::regnamespace and t.tgparentid = 0
) as t on t.name = m.name
where t.name is null or not t.is_on or m.name is null and t.is_ours
     $q$),
    ('schema_changed', 'functions, views, grants and roles are as this version of the schema has them', null, $q$
select concat_ws(' ', c.object, c.change) as id
from tidegate.schema_changes() as c
where c.object not like 'trigger %' or c.schema <> 'tidegate'
     $q$),
    ('queue_function_outdated',
     'each function that reads or writes queues'' tables has the same branch for every queue', null,
     $q$select f.signature::text as id from tidegate_internal.queue_functions() as f where f.body <> f.wanted$q$),
    ('submit_terms_outdated', 'plain submissions go by the configuration as it is', null, $q$
select coalesce(t.kind, w.kind) as id
from tidegate.submit_terms as t
full join tidegate_internal.wanted_terms(null) as w on w.kind = t.kind
where w is distinct from t
     $q$),
    ('session_holds_back_vacuum',
     'no session of Tidegate keeps its snapshot for more than a minute: vacuum removes nothing that was deleted since',
     null, $q$
select concat_ws(' ', 'process', a.pid, a.application_name, a.client_addr, a.wait_event) as id
from pg_catalog.pg_stat_activity as a
where a.datname = current_database() and a.application_name ~ '^tidegate' and a.backend_xmin is not null
  and least(a.xact_start, a.state_change) < tidegate.clock() - interval '1 minute'
     $q$),
    ('index_is_invalid', 'every index may be used', null, $q$
select i.indexrelid::regclass::text as id
from pg_catalog.pg_index as i
join pg_catalog.pg_class as c on c.oid = i.indexrelid
where c.relnamespace in ('tidegate'::regnamespace, 'pgmq'::regnamespace) and not (i.indisvalid and i.indisready)
     $q$),
    ('single_row_missing',
     'settings, the policy of webhooks, the quota round and the version of the schema have their one row', null, $q$
select s.name as id
from (
  select 'setting' as name, count(*) as number from tidegate.setting
  union all select 'webhook_policy', count(*) from tidegate.webhook_policy
  union all select 'gate_round', count(*) from tidegate.gate_round
  union all select 'schema_state', count(*) from tidegate.schema_state where schema = 'tidegate'
) as s
where s.number <> 1
     $q$),
    ('duty_fails', 'no duty of maintenance fails for a minute', null, $q$
select concat(m.duty, ': ', m.error) as id
from tidegate.maintenance as m
where m.failing_since < tidegate.clock() - interval '1 minute'
     $q$),
    ('request_passed_over', 'no duty has to pass over a request because it can neither end nor delete it', null, $q$
select concat(n.request_id, ' by ', n.duty, ': ', n.error) as id
from tidegate.passed_over as n
where n.retry_at > tidegate.clock() - interval '5 minutes'
     $q$),
    ('duty_missing', 'every duty of maintenance is on its list, and is done at least once a day', null, $q$
select d.name as id
from unnest(array[
  'adjust_policies', 'quota_reconcile', 'drop_partitions', 'expire_by_deadline', 'expire_by_readiness', 'expire_events',
  'expire_keys', 'expire_requests', 'expire_responses', 'expire_webhooks', 'fold_calls', 'fold_counts',
  'fold_turns', 'forget_workers', 'breakers_evaluate', 'gates_evaluate', 'make_partitions', 'record_minutes',
  'take_samples', 'rescan_queues', 'survey_queues', 'sweep_inbox'
]) as d(name)
left join tidegate.maintenance as m on m.duty = d.name
where m.period is null or m.period > interval '24 hours'
     $q$);
$$;
