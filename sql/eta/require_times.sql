-- require_times: Raises TG003 of a kind without nominal times, TG002 of an unknown one.
create or replace function tidegate_internal.require_times(p_kind text)
  returns void language plpgsql stable as $$
declare
  v_kind constant tidegate.kind := tidegate_internal.require_kind(p_kind);
begin
  if num_nulls(v_kind.processing_ms, v_kind.tx_confirmation_ms) > 0
    or (v_kind.flow = 'decrypt' and v_kind.readiness_ms is null)
    or not exists (select from tidegate.setting as s where s.safety_margin is not null)
  then
    raise exception using errcode = 'TG003',
      message = format('kind "%s" has no nominal times yet, so no Retry-After can be computed', p_kind),
      hint = 'run `tidegate init` for a starter set, or set them with `tidegate config set`';
  end if;
end;
$$;
