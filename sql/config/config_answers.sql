-- config_answers: Whether a name refers to a setting.
--
-- Its documented name; KIND.processing_seconds for KIND_processing_seconds; the nominal times that one name sets for
-- every kind; and those of a kind by their columns, KIND.processing_ms and KIND.readiness_ms, which are milliseconds.
-- With `p_whole`, also the name of the row, or the beginning of it: all settings of a queue or kind.
create or replace function tidegate_internal.config_answers(
  p_name text, p_table text, p_key text, p_column text, p_whole boolean default false
)
  returns boolean language sql immutable parallel safe
return (
  p_name = tidegate.config_name(p_table, p_key, p_column)
    or (p_table = 'kind' and case p_column
      when 'processing_ms' then p_name in (p_key || '.processing_seconds', p_key || '.processing_ms')
      when 'readiness_ms' then p_name in ('readiness_check_seconds', p_key || '.readiness_ms')
      when 'tx_confirmation_ms' then p_name = 'tx_confirmation_ms'
      else false
    end)
    or (p_whole and p_key <> '' and (p_key = p_name or starts_with(p_key, p_name || '.')))
);
