-- error_json: The shape of every error that a request carries; those of stages may have `details`, too.
--
-- An expression, which PostgreSQL inlines: only if it is declared stable, as `jsonb_build_object` is.
create or replace function tidegate_internal.error_json(p_code text, p_message text, p_retryable boolean)
  returns jsonb language sql stable parallel safe
return jsonb_build_object('code', p_code, 'message', p_message, 'retryable', p_retryable);
