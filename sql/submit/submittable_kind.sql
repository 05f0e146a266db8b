-- submittable_kind: The kind that requests are submitted to, else TG002 or TG003.
--
-- Raises TG002 for an unknown kind, TG003 for one whose nominal times are not set.
create or replace function tidegate_internal.submittable_kind(p_kind text)
  returns tidegate.kind language plpgsql stable as $$
declare
  v_kind constant tidegate.kind := tidegate_internal.require_kind(p_kind);
begin
  if v_kind.processing_ms is null or v_kind.tx_confirmation_ms is null
    or (v_kind.flow = 'decrypt' and v_kind.readiness_ms is null)
    or exists (select from tidegate.setting as s where s.safety_margin is null)
  then
    raise exception using errcode = 'TG003',
      message = format('kind "%s" has no nominal times yet, so no Retry-After can be computed', p_kind),
      hint = 'run `tidegate init` for a starter set, or set them with `tidegate config set`';
  end if;
  return v_kind;
end;
$$;
