-- valid_traceparent: A `traceparent` of W3C Trace Context as version 00 writes it; null: it is invalid.
--
-- An invalid one is ignored, because no request may fail for its trace. Of a later version only the fields of version
-- 00 are read.
create or replace function tidegate_internal.valid_traceparent(p_traceparent text)
  returns text language sql immutable parallel safe
return case
  when p_traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-|$)'
    and (length(p_traceparent) = 55 or left(p_traceparent, 2) <> '00') and left(p_traceparent, 2) <> 'ff'
    and substr(p_traceparent, 4, 32) <> repeat('0', 32) and substr(p_traceparent, 37, 16) <> repeat('0', 16)
  then '00' || substr(p_traceparent, 3, 53)
end;
