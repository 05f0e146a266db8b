-- calls_since: The calls of a stage that were reported after `p_since`, in all; at most ten minutes back.
--
-- PL/pgSQL, because an SQL function with settings is planned at each call.
create or replace function tidegate.calls_since(
  p_kind text, p_stage tidegate.stage, p_since timestamptz,
  out requests bigint, out calls bigint, out failures bigint, out timeouts bigint, out retries bigint, out slow bigint,
  out hedges bigint
)
  language plpgsql stable as $$
begin
  select
    coalesce(sum(c.requests), 0), coalesce(sum(c.calls), 0), coalesce(sum(c.failures), 0), coalesce(sum(c.timeouts), 0),
    coalesce(sum(c.retries), 0), coalesce(sum(c.slow), 0), coalesce(sum(c.hedges), 0)
  into requests, calls, failures, timeouts, retries, slow, hedges
  from (table tidegate.call_second union all table tidegate.call_sample) as c
  where c.kind = p_kind and c.stage = p_stage and c.at >= p_since;
end;
$$;
select tidegate_internal.allow('calls_since', '{reader,api,worker,admin}');
