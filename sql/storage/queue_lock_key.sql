-- queue_lock_key: The advisory lock of one queue and purpose (such as `pacing` or `watermark`), or of one gate
-- (`admission`, `drain`).
create or replace function tidegate.queue_lock_key(p_queue text, p_purpose text)
  returns bigint language sql immutable parallel safe
return hashtextextended('tidegate.' || p_purpose || '.' || p_queue, 0);
select tidegate_internal.allow('queue_lock_key', '{reader,worker,admin}');
