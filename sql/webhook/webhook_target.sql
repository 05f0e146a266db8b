-- webhook_target: The host and port of a callback URL, its entry in the allow-list, and why nothing may be delivered
-- there (`refusal`, null when it may).
--
-- `listed` is the allow-list's entry that covers it: the host itself before a wildcard, a longer wildcard before a
-- shorter one. `*.example.com` covers every name below example.com, at any depth, and not example.com.
create or replace function tidegate_internal.webhook_target(
  p_url text,
  out host_port text, out listed text, out allow_private boolean, out refusal text
)
  language plpgsql stable as $$
declare
  v_part  text[];
  v_names text[];
begin
  host_port := tidegate_internal.webhook_host_port(p_url);
  if host_port is null then
    refusal := 'a callback URL is http(s)://host[:port]/path?query, without user name, password or fragment, '
      'in at most 2000 visible ASCII characters';
    return;
  end if;

  v_part := regexp_match(host_port, '^(.*):([0-9]+)$');
  v_names := array[v_part[1]];
  -- Addresses have no wildcards.
  if v_part[1] ~ '[.][a-z][a-z0-9-]*$' then
    v_names := v_names || array(
      select '*.' || substr(v_part[1], dot.place + 1)
      from generate_series(1, length(v_part[1])) as dot(place)
      where substr(v_part[1], dot.place, 1) = '.'
    );
  end if;
  select h.host, h.allow_private into listed, allow_private
  from tidegate.webhook_host as h
  where h.host = any(
    array(select n.name || ':' || v_part[2] from unnest(v_names) as n(name))
    || case when v_part[2] = case lower(left(p_url, 6)) when 'https:' then '443' else '80' end then v_names end
  )
  order by left(h.host, 1) = '*', length(h.host) desc
  limit 1;
  if not found then
    refusal := format('%s is not on the allow-list of callback hosts', host_port);
  end if;
end;
$$;
