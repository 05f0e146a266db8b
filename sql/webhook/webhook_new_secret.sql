-- webhook_new_secret: a signing secret of 244 random bits
create or replace function tidegate_internal.webhook_new_secret()
  returns text
  language sql
  volatile
return 'whsec_' || replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');

comment on function tidegate_internal.webhook_new_secret is 'A random signing secret.';
