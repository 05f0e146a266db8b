-- webhook_new_secret: A signing secret of 244 random bits.
create or replace function tidegate_internal.webhook_new_secret()
  returns text language sql volatile
return 'whsec_' || replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
