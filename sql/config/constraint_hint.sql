-- constraint_hint: What a constraint of Tidegate's tables allows, as the hint of an error; null for another constraint.
create or replace function tidegate_internal.constraint_hint(p_constraint text)
  returns text language sql stable as $$
  select 'allowed: ' || regexp_replace(substring(pg_get_constraintdef(c.oid, true) from '^CHECK [(](.*)[)]$'),
    '::(text|numeric|integer|interval)([[]])?', '', 'g')
  from pg_constraint as c
  where c.conname = p_constraint and c.connamespace = 'tidegate'::regnamespace;
$$;
