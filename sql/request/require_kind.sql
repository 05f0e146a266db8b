-- require_kind: The row of a kind, else TG002.
create or replace function tidegate_internal.require_kind(p_kind text)
  returns tidegate.kind language plpgsql stable as $$
declare
  v_kind tidegate.kind;
begin
  select * into v_kind from tidegate.kind as k where k.name = p_kind;
  if not found then
    raise exception using errcode = 'TG002', message = format('there is no kind "%s"', p_kind),
      hint = tidegate_internal.did_you_mean(p_kind, array(select k.name from tidegate.kind as k order by k.name))
        || 'select name from tidegate.kind; make one with tidegate.kind_add, or `tidegate kind add`';
  end if;
  return v_kind;
end;
$$;
