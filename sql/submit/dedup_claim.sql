-- dedup_claim: Makes an idempotency key stand for `p_id`, unless it stands for a request already.
--
-- Returns the id that the key stands for: `p_id` when this submission is the first (or the first again, because the key
-- is free), else the earlier request's. Of two concurrent first submissions one waits for the other here and then finds
-- its request. A null fingerprint: the key stands for any payload. Without `p_key` the scope
-- is a made key, to be stored in buckets of `p_bucket`, and then under its lock (see `lock_names`). `p_links`: links
-- the ended request that it stood for to this one.
create or replace function tidegate_internal.dedup_claim(
  p_scope text, p_key text, p_fingerprint bytea, p_window interval, p_id uuid,
  p_bucket interval default null, p_links boolean default true
)
  returns uuid language plpgsql as $$
declare
  v_key   text := p_key;
  v_now   timestamptz;
  v_known uuid;
  v_found record;
  v_seen  tidegate.dedup;
  v_old   uuid[];
begin
  loop
    v_now := tidegate.clock();
    if p_key is null then
      v_key := tidegate_internal.key_bucket(p_bucket, v_now);
      -- Read first: the insert conflicts with any row that is stored after this.
      select d.* into v_seen from tidegate.dedup as d where d.scope = p_scope and d.key = v_key;
      v_known := tidegate_internal.dedup_find_made(p_scope, p_fingerprint, v_now);
    else
      v_found := tidegate_internal.dedup_find(p_scope, v_key, p_fingerprint, v_now);
      v_known := v_found.request_id;
      v_seen := v_found.seen;
    end if;
    if v_known is not null then
      return v_known;
    end if;

    insert into tidegate.dedup as d (scope, key, fingerprint, request_id, first_seen, dedup_window, expires_at)
    values (
      p_scope, v_key, coalesce(p_fingerprint, ''), p_id, v_now, p_window,
      tidegate_internal.window_end(v_now, p_window)
    )
    on conflict (scope, key) do update
    set fingerprint = excluded.fingerprint, request_id = excluded.request_id,
        first_seen = excluded.first_seen, dedup_window = excluded.dedup_window, expires_at = excluded.expires_at
    where d.request_id = v_seen.request_id and d.expires_at = v_seen.expires_at;
    if not found then
      continue;
    end if;

    v_old := case
      when p_key is null then array(
        select d.request_id from tidegate.dedup as d where d.scope = p_scope and d.request_id <> p_id
      )
      else array[]::uuid[]
    end || v_seen.request_id;
    if v_old <> '{null}' then
      -- Until here it could be established that an earlier request was executed; from here on it waits for this one.
      perform tidegate_internal.lock_lineage(v_old);
      v_known := coalesce(
        tidegate_internal.dedup_target(v_seen, v_now),
        case when p_key is null then tidegate_internal.dedup_find_made(p_scope, p_fingerprint, v_now) end
      );
      if v_known is not null then
        delete from tidegate.dedup as d where d.scope = p_scope and d.key = v_key;
        insert into tidegate.dedup select v_seen.* where v_seen.request_id is not null;
        -- The next look compares the payloads.
        continue;
      end if;
      -- The ended request is linked to this one, so that no redrive submits it as well. A redrive links only what it
      -- redrives.
      insert into tidegate.redrive (request_id, redriven_as)
      select r.id, p_id
      from tidegate.request as r
      where r.id = any(array(select l.id from tidegate_internal.lineage(v_old) as l(id)))
        and p_links and r.req_status in ('failure', 'timed_out') and r.id <> p_id
      on conflict do nothing;
    end if;
    return p_id;
  end loop;
end;
$$;
