-- with_last_error: The error in which a request ends, and in it the error of its last check or send, if that has
-- failed.
--
-- An expression, which PostgreSQL inlines: only if it is declared stable, as `jsonb_build_object` is.
create or replace function tidegate_internal.with_last_error(p_error jsonb, p_last jsonb)
  returns jsonb language sql stable parallel safe
return case when p_last is null then p_error else p_error || jsonb_build_object('last_error', p_last) end;
