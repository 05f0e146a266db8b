-- webhook_secret_rotate: By an operator: a new signing secret, returned only here; the one before signs as well for a
-- while.
--
-- For one host of the allow-list, or for all that have none of their own. The secret before it signs as well for
-- `overlap`, so that receivers can change over in their own time; older ones end now.
-- Raises TG007 for a host that is not on the list.
create or replace function tidegate.webhook_secret_rotate(
  host text default null, overlap interval default '24 hours',
  out id bigint, out secret text
)
  language plpgsql security definer as $$
declare
  v_host text := lower(webhook_secret_rotate.host);
  v_last bigint;
  v_now  timestamptz;
begin
  if overlap is null or overlap < interval '0' then
    raise exception using errcode = 'TG007', message = 'the overlap of two secrets is a time of zero or more';
  end if;
  -- Locked, as the foreign key of the new secret would, before the secrets: a removal takes them in this order.
  perform from tidegate.webhook_host as h where h.host = v_host for key share;
  if v_host is not null and not found then
    raise exception using errcode = 'TG007', message = format('%s is not on the allow-list of callback hosts', v_host),
      hint = 'tidegate webhook hosts list';
  end if;

  -- One at a time: two would each leave the other's secret without an end.
  perform pg_advisory_xact_lock(hashtextextended('tidegate.webhook_secret', 0));
  v_now := tidegate.clock();
  select max(s.id) into v_last
  from tidegate.webhook_secret as s
  where s.host is not distinct from v_host and s.expires_at is null;
  update tidegate.webhook_secret as s
  set expires_at = case when s.id = v_last then v_now + overlap else v_now end
  where s.host is not distinct from v_host and (s.expires_at is null or s.expires_at > v_now);
  insert into tidegate.webhook_secret as s (host, secret) values (v_host, tidegate_internal.webhook_new_secret())
  returning s.id, s.secret into id, secret;
end;
$$;
select tidegate_internal.allow('webhook_secret_rotate', '{admin}');
