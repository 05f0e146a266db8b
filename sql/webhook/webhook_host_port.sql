-- webhook_host_port: Host and port that a callback URL names, in lower case, or null when it is not a plain one.
--
-- Plain: http or https, a host, perhaps a port, path and query; visible ASCII only, and no user name, password,
-- fragment or backslash, which programs read in different ways. The deliverer reads the URL with a parser of its own
-- and refuses it when that finds another host.
create or replace function tidegate_internal.webhook_host_port(p_url text)
  returns text language plpgsql immutable as $$
begin
  return (
    select lower(u.part[2]) || ':' || coalesce(u.part[3], case lower(u.part[1]) when 'https' then '443' else '80' end)
    from regexp_match(
      p_url,
      '^(https?)://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|[[][0-9a-f:.]+])(?::([1-9][0-9]{0,4}))?(?:[/?][]!-"$-[^-~]*)?$',
      'i'
    ) as u(part)
    where length(p_url) <= 2000
  );
end;
$$;
