-- require_callback: Raises TG009 for a callback URL that is not allowed; null is none.
create or replace function tidegate_internal.require_callback(p_url text)
  returns void language plpgsql stable as $$
declare
  v_target record;
begin
  if p_url is null then
    return;
  end if;
  select * into v_target from tidegate_internal.webhook_target(p_url);
  if v_target.refusal is not null then
    raise exception using errcode = 'TG009', message = format('the callback URL is refused: %s', v_target.refusal),
      hint = case
        when v_target.host_port is null then 'such as https://hooks.example.com/done'
        else 'an operator allows hosts: `tidegate webhook hosts add HOST`'
      end;
  end if;
end;
$$;
