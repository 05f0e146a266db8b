-- config_name: The documented name of the setting that is in a column of a row.
create or replace function tidegate.config_name(p_table text, p_key text, p_column text)
  returns text language sql immutable parallel safe
return (
  case
    when p_table = 'response_backoff' then p_table
    when p_key = '' then p_column
    when p_table = 'kind' and p_column = 'processing_ms' then p_key || '_processing_seconds'
    when p_table = 'kind' and p_column = 'readiness_ms' then p_key || '.readiness_check_seconds'
    else p_key || '.' || p_column
  end
);
select tidegate_internal.allow('config_name', '{reader,api,worker,admin}');
