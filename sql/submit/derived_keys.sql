-- derived_keys: The idempotency keys that a kind derives for payloads that come without one.
--
-- In the order given; null for a payload with a caller's key, and null altogether when each has one. A natural key is
-- derived from the values at `key_paths`, a proxy key from the payload and the submitter; both include the kind. Each
-- is a scope of its own in `dedup` (`natural KIND:SUBMITTER HASH`), which no caller's key can be in: those begin with
-- the kind. Raises TG007 for a payload without one of the values; JSON null counts as none. Raises TG012 for a payload
-- without a caller's key if the kind derives none and requires one.
create or replace function tidegate_internal.derived_keys(p_kind tidegate.kind, p_payloads jsonb[], p_scopes text[],
  p_keys text[])
  returns text[] language plpgsql stable as $$
declare
  v_lacks   record;
  v_derived text[];
begin
  if p_kind.key_mode = 'required' then
    if p_keys is null or array_position(p_keys, null) is not null then
      raise exception using errcode = 'TG012',
        message = format('kind "%s" requires an idempotency key, and the request%s has none', p_kind.name,
          case when cardinality(p_payloads) > 1 then ' at place ' || coalesce(array_position(p_keys, null), 1)
            else '' end),
        hint = 'submit it with a key of your own, and repeat it under the same key';
    end if;
    return null;
  end if;
  if p_kind.key_mode = 'natural' then
    select p.place, k.path into v_lacks
    from unnest(p_payloads, p_keys) with ordinality as p(payload, key, place)
    cross join unnest(p_kind.key_paths) with ordinality as k(path, rank)
    where p.key is null and coalesce(jsonb_typeof(tidegate_internal.json_at(p.payload, k.path)), 'null') = 'null'
    order by p.place, k.rank
    limit 1;
    if found then
      raise exception using errcode = 'TG007',
        message = format('the payload%s has no "%s", of which kind "%s" makes its idempotency keys',
          case when cardinality(p_payloads) > 1 then ' at place ' || v_lacks.place else '' end, v_lacks.path,
          p_kind.name),
        hint = 'complete the payload, or submit it with a key of your own';
    end if;
  end if;

  select array_agg(
    case
      when p.key is null then p_kind.key_mode || ' ' || p.scope || ' ' || encode(sha256(convert_to(
        case p_kind.key_mode
          when 'natural' then (
            select tidegate_internal.canonical(jsonb_agg(tidegate_internal.json_at(s.payload, k.path) order by k.rank))
            from tidegate_internal.sort_sets(p.payload, coalesce(p_kind.set_paths, '{}')) as s(payload)
            cross join unnest(p_kind.key_paths) with ordinality as k(path, rank)
          )
          -- No canonical text has a line break.
          else tidegate_internal.canonical(p.payload, p_kind.set_paths) || E'\n'
            || substr(p.scope, length(p_kind.name) + 2)
        end, 'UTF8'
      )), 'hex')
    end
    order by p.place
  )
  into v_derived
  from unnest(p_payloads, p_scopes, p_keys) with ordinality as p(payload, scope, key, place);
  return case when array_remove(v_derived, null) <> '{}' then v_derived end;
end;
$$;
