-- fingerprint: The SHA-256 of a payload's canonical text, which identifies the payload within its kind.
--
-- An expression, which PostgreSQL inlines: only if it is declared stable, as `convert_to` is. Text without a dot is
-- canonical already, unless it has sets.
create or replace function tidegate_internal.fingerprint(p_payload jsonb, p_set_paths text[])
  returns bytea language sql stable parallel safe
return sha256(
  convert_to(
    case
      when p_set_paths is null and strpos(p_payload::text, '.') = 0 then p_payload::text
      else tidegate_internal.canonical(p_payload, p_set_paths)
    end,
    'UTF8'
  )
);
