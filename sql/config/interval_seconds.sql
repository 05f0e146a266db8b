-- interval_seconds: An interval as its seconds, such as 60s: equal intervals have one text.
create or replace function tidegate.interval_seconds(p_interval interval)
  returns text language sql immutable parallel safe
return trim_scale(extract(epoch from p_interval)) || 's';
select tidegate_internal.allow('interval_seconds', '{reader,api,worker,admin}');
