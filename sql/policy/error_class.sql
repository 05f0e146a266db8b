-- error_class: The class of an error code: timeout, connect, 5xx, throttled, unauthorized, 4xx or other.
--
-- `throttled` are the answers after which the same call may succeed later (408, 409, 425, 429); `unauthorized` refuse
-- the credential of the call (401, 403), not the request; every other 4xx is a refusal. `other` are codes of a stage's
-- own.
create or replace function tidegate.error_class(code text)
  returns text language sql immutable parallel safe
return (
  case
    when code in ('timeout', 'connect') then code
    when code = 'connection_lost' then 'connect'
    when code in ('http_408', 'http_409', 'http_425', 'http_429') then 'throttled'
    when code in ('http_401', 'http_403') then 'unauthorized'
    when code ~ '^http_5[0-9]{2}$' then '5xx'
    when code ~ '^http_4[0-9]{2}$' then '4xx'
    else 'other'
  end
);
select tidegate_internal.allow('error_class', '{reader,api,worker,admin}');
