-- dedup_claim: Makes an idempotency key stand for `p_id`, unless it stands for a request already.
--
-- `target` is the id that the key stands for: `p_id` when this submission is the first (or the first again, because the
-- key is free), else the earlier request's. Of two concurrent first submissions one waits for the other here and then
-- finds its request. A null fingerprint: the key stands for any payload. Without `p_key` the scope is a derived key, to
-- be stored in buckets of `p_bucket`, and then under its lock (see `lock_names`).
--
-- `stored_key` is the key of its row, which was `seen` before. `earlier` are the ended requests that the key stood for,
-- null if for none: it may still be established that one of them was executed, so `dedup_link` follows.
create or replace function tidegate_internal.dedup_claim(
  p_scope text, p_key text, p_fingerprint bytea, p_window interval, p_id uuid, p_bucket interval,
  out target uuid, out stored_key text, out seen tidegate.dedup, out earlier uuid[]
)
  language plpgsql as $$
declare
  v_now   timestamptz;
  v_found record;
begin
  stored_key := p_key;
  loop
    v_now := tidegate.clock();
    if p_key is null then
      stored_key := tidegate_internal.key_bucket(p_bucket, v_now);
      -- Read first: the insert conflicts with any row that is stored after this.
      select d.* into seen from tidegate.dedup as d where d.scope = p_scope and d.key = stored_key;
      target := tidegate_internal.dedup_find_derived(p_scope, p_fingerprint, v_now);
    else
      v_found := tidegate_internal.dedup_find(p_scope, p_key, p_fingerprint, v_now);
      target := v_found.request_id;
      seen := v_found.seen;
    end if;
    if target is not null then
      return;
    end if;

    insert into tidegate.dedup as d (scope, key, fingerprint, request_id, first_seen, dedup_window, expires_at)
    values (
      p_scope, stored_key, coalesce(p_fingerprint, ''), p_id, v_now, p_window,
      tidegate_internal.window_end(v_now, p_window)
    )
    on conflict (scope, key) do update
    set fingerprint = excluded.fingerprint, request_id = excluded.request_id,
        first_seen = excluded.first_seen, dedup_window = excluded.dedup_window, expires_at = excluded.expires_at
    where d.request_id = seen.request_id and d.expires_at = seen.expires_at;
    exit when found;
  end loop;

  target := p_id;
  if p_key is null then
    select array_agg(e.id) into earlier
    from (
      select d.request_id as id from tidegate.dedup as d where d.scope = p_scope and d.request_id <> p_id
      union all
      select seen.request_id where seen.request_id is not null
    ) as e;
  elsif seen.request_id is not null then
    earlier := array[seen.request_id];
  end if;
end;
$$;
