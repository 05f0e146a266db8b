-- key_scope: The scope of a submitter's idempotency keys in `dedup`.
--
-- `p_scope` is the kind's `key_scope`: with 'kind', all submitters have the same. An expression, which PostgreSQL
-- inlines.
create or replace function tidegate_internal.key_scope(p_kind text, p_scope text, p_submitter text)
  returns text language sql immutable parallel safe
return p_kind || ':' || case p_scope when 'submitter' then coalesce(p_submitter, '') else '' end;
