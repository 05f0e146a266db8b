-- tidegate.dedup_claim: makes an idempotency key stand for `p_id`, unless it stands for a request already
--
-- Returns the id that the key stands for: `p_id` when this submission is the first (or the first again after the
-- window, a failure or a timeout), else the earlier request's. Of two first arrivals at once one waits for the
-- other here and then finds its request.
create or replace function tidegate.dedup_claim(
  p_scope       text,
  p_key         text,
  p_fingerprint bytea,
  p_window      interval,
  p_id          uuid
)
  returns uuid
  language plpgsql
as $$
declare
  v_now   timestamptz;
  v_found record;
begin
  loop
    v_now := clock_timestamp();
    v_found := tidegate.dedup_find(p_scope, p_key, p_fingerprint, v_now);
    if v_found.request_id is not null then
      return v_found.request_id;
    end if;

    insert into tidegate.dedup as d (scope, key, fingerprint, request_id, first_seen, expires_at)
    values (p_scope, p_key, p_fingerprint, p_id, v_now, v_now + p_window)
    on conflict (scope, key) do update
    set fingerprint = excluded.fingerprint, request_id = excluded.request_id,
        first_seen = excluded.first_seen, expires_at = excluded.expires_at
    where d.request_id = (v_found.seen).request_id and d.expires_at = (v_found.seen).expires_at;
    if found then
      return p_id;
    end if;
  end loop;
end;
$$;
