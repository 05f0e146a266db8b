-- key_bucket: Under which key of its scope a made key is stored: the beginning of the time bucket, in UTC.
--
-- Without buckets always the same. Buckets are counted from 1970.
create or replace function tidegate_internal.key_bucket(p_bucket interval, p_now timestamptz)
  returns text language sql stable
return (
  select case
    when p_bucket is null then 'any time'
    else to_char(
      to_timestamp(floor(extract(epoch from p_now) / b.seconds) * b.seconds) at time zone 'UTC',
      'YYYY-MM-DD HH24:MI:SS.US'
    )
  end
  from (select extract(epoch from p_bucket) as seconds) as b
);
