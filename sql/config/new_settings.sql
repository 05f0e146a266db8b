-- new_settings: What `kind_add` says of a kind that it has made: its settings, without defaults.
create or replace function tidegate_internal.new_settings(p_kind tidegate.kind)
  returns table (subject text, name text, value text) language sql stable as $$
  select 'kind ' || p_kind.name, s.name, s.value
  from (values
    ('flow', p_kind.flow::text), ('readiness_queue', p_kind.readiness_queue), ('tx_queue', p_kind.tx_queue),
    ('response_threshold', case when p_kind.flow = 'decrypt' then p_kind.response_threshold::text end),
    ('retention', tidegate.config_value('interval', 1, p_kind.retention::text)),
    ('readiness_ms', p_kind.readiness_ms::text), ('processing_ms', p_kind.processing_ms::text),
    ('tx_confirmation_ms', p_kind.tx_confirmation_ms::text), ('eta', p_kind.eta),
    ('deadline', tidegate.config_value('interval', 1, nullif(p_kind.deadline, '1 hour')::text)),
    ('response_timeout', tidegate.config_value('interval', 1, nullif(p_kind.response_timeout, '30 minutes')::text)),
    ('key_scope', nullif(p_kind.key_scope, 'submitter'))
  ) as s(name, value)
  where s.value is not null;
$$;
