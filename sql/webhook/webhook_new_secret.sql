-- tidegate.webhook_new_secret: a signing secret of 244 random bits
create or replace function tidegate.webhook_new_secret()
  returns text
  language sql
  volatile
return 'whsec_' || replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');

comment on function tidegate.webhook_new_secret is 'Internal: a random signing secret.';
