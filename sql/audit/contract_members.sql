-- contract_members: The members that each type of assertion of a contract has.
--
-- `takes`: a `time` (see `contract_time`), a `share` (0 to 1), a `rate` (0 or more), a `latency` (milliseconds, or
-- slo_p99_ms for the target of the kind), `semantics`, or `true`. `about` is the one stage that the member is about,
-- null for both. Of the members that are not needed at least one is there. Source: the assertion templates of the
-- policies' seed, and `sli` for its gates.
create or replace function tidegate_internal.contract_members()
  returns table (type text, member text, takes text, about tidegate.stage, needed boolean) language sql immutable as $$
  values
    ('timeout_upper_bound', 'W_retry_le', 'time', null::tidegate.stage, true),
    ('retry_success_prob', 'p_ok_ge', 'share', null, true),
    ('idempotency', 'key_stability', 'true', 'tx', false),
    ('idempotency', 'window', 'time', 'tx', false),
    ('dedup_window', 'span_reorder_le', 'time', 'tx', true),
    ('semantics', 'sem', 'semantics', 'tx', true),
    ('semantics', 'no_side_effect_dup', 'true', 'tx', false),
    ('sli', 'timeout_rate_le', 'rate', null, false),
    ('sli', 'retry_rate_le', 'rate', null, false),
    ('sli', 'error_ratio_le', 'rate', null, false),
    ('sli', 'dup_drop_rate_le', 'rate', 'tx', false),
    ('sli', 'p99_ms_le', 'latency', null, false);
$$;
