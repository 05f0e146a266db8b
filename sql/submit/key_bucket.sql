-- key_bucket: Under which key of its scope a derived key is stored: the beginning of the time bucket, in UTC.
--
-- Without buckets always the same. Buckets are counted from 1970.
create or replace function tidegate_internal.key_bucket(p_bucket interval, p_now timestamptz)
  returns text language sql stable
return coalesce(
  to_char(
    to_timestamp(floor(extract(epoch from p_now) / extract(epoch from p_bucket)) * extract(epoch from p_bucket))
      at time zone 'UTC',
    'YYYY-MM-DD HH24:MI:SS.US'
  ),
  'any time'
);
