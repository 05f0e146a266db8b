-- adaptive_interval_ms: How long the intervals of a policy's adaptive timeout are, milliseconds.
--
-- As declared; else five seconds, or twice the longest timeout: an interval holds the calls that it judges.
create or replace function tidegate.adaptive_interval_ms(policy tidegate.policy)
  returns integer language sql immutable parallel safe
return (
  coalesce(policy.adaptive_interval_ms, least(greatest(5000, 2 * policy.timeout_ms::bigint), 2147483647)::integer)
);
select tidegate_internal.allow('adaptive_interval_ms', '{reader,api,worker,admin}');
