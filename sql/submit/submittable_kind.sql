-- submittable_kind: The kind that requests are submitted to, else TG002 or TG003.
--
-- Raises TG002 for an unknown kind, TG003 for one whose nominal times are not set.
create or replace function tidegate_internal.submittable_kind(p_kind text)
  returns tidegate.kind language plpgsql stable as $$
declare
  v_kind tidegate.kind;
begin
  select * into v_kind from tidegate.kind as k where k.name = p_kind;
  if not found then
    raise exception using errcode = 'TG002', message = format('there is no kind "%s"', p_kind),
      hint = 'select name from tidegate.kind, or make one: `tidegate init --example relayer` makes four';
  end if;

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
