-- Names say what they name: a delivery has a lease token, a kind derives keys, an invariant is a rule.

alter table tidegate.webhook_delivery rename column nonce to lease_token;
alter table tidegate.submit_terms rename column makes_keys to derives_keys;
alter table tidegate.kind
  rename constraint kind_key_bucket_is_a_positive_time_of_made_keys
  to kind_key_bucket_is_a_positive_time_of_derived_keys;

-- The checks of programs that embed Tidegate.
update tidegate.schema_state as s
set checks = (
  select jsonb_agg(c.value - 'says' || jsonb_build_object('rule', c.value -> 'says') order by c.ordinality)
  from jsonb_array_elements(s.checks) with ordinality as c
)
where s.checks <> '[]';

-- These have other parameters or columns now.
drop view if exists tidegate.invariant, tidegate.invariant_violation, tidegate.configuration_warning;
drop function if exists
  tidegate.check_invariants, tidegate.invariants, tidegate.webhook_claim, tidegate.webhook_settle,
  tidegate_internal.dedup_claim_all, tidegate_internal.dedup_find_all, tidegate_internal.dedup_link,
  tidegate_internal.dedup_return,
  tidegate_internal.invariants_of_configuration, tidegate_internal.invariants_of_history,
  tidegate_internal.invariants_of_queues, tidegate_internal.invariants_of_requests,
  tidegate_internal.invariants_of_schema, tidegate_internal.submission_keys;

update tidegate.maintenance set duty = 'record_minutes' where duty = 'note_minutes';
