-- submission_keys: The scopes of the keys of a submission, the keys that its kind derives, and the fingerprints that
-- keys are compared by, one of each for each request.
--
-- `derived` is null if the kind derives none, `prints` if no request has a key. A request without a key, or whose key
-- decides alone, has no fingerprint.
create or replace function tidegate_internal.submission_keys(
  p_kind tidegate.kind, p_payloads jsonb[], p_submitters text[], p_keys text[], p_same_key text,
  out scopes text[], out derived text[], out prints bytea[]
)
  language plpgsql stable as $$
begin
  scopes := array(
    select tidegate_internal.key_scope(p_kind.name, p_kind.key_scope, s) from unnest(p_submitters) as s
  );
  if p_kind.key_mode <> 'caller' then
    derived := tidegate_internal.derived_keys(p_kind, p_payloads, scopes, p_keys);
  end if;
  if derived is null and coalesce(array_remove(p_keys, null) = '{}', true) then
    return;
  end if;
  prints := array(
    select case when num_nonnulls(p.key, p.derived) > 0 and p_same_key = 'compare' and p_kind.key_compares = 'payload'
      then tidegate_internal.fingerprint(p.payload, p_kind.set_paths) end
    from unnest(p_payloads, p_keys, derived) with ordinality as p(payload, key, derived, place)
    order by p.place
  );
end;
$$;
