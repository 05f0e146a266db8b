-- error_json: the shape of every error a request carries
create or replace function tidegate_internal.error_json(p_code text, p_message text, p_retryable boolean)
  returns jsonb
  language sql
  immutable
  parallel safe
return jsonb_build_object('code', p_code, 'message', p_message, 'retryable', p_retryable);

comment on function tidegate_internal.error_json is 'The shape of every error that a request carries.';
