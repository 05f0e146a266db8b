-- dedup_link: Links the ended requests that a claimed key stood for to `p_id`, unless it has turned out meanwhile that
-- the key stands for one of them: then the key gets its row back. Returns the id that the key stands for.
--
-- Under the lock of their lineage. The link keeps a redrive from submitting them as well; `p_links` is false for a
-- redrive, which links only what it redrives. `p_is_derived`: the scope is a derived key. `p_seen`: the row of before.
create or replace function tidegate_internal.dedup_link(
  p_scope text, p_key text, p_is_derived boolean, p_fingerprint bytea, p_id uuid, p_seen tidegate.dedup, p_links boolean
)
  returns uuid language plpgsql as $$
declare
  v_now constant timestamptz := tidegate.clock();
begin
  if coalesce(
    tidegate_internal.dedup_target(p_seen, v_now),
    case when p_is_derived then tidegate_internal.dedup_find_derived(p_scope, p_fingerprint, v_now) end
  ) is not null then
    delete from tidegate.dedup as d where d.scope = p_scope and d.key = p_key;
    insert into tidegate.dedup select p_seen.* where p_seen.request_id is not null;
    -- This compares the payloads.
    return case
      when p_is_derived then tidegate_internal.dedup_find_derived(p_scope, p_fingerprint, v_now)
      else (select f.request_id from tidegate_internal.dedup_find(p_scope, p_key, p_fingerprint, v_now) as f)
    end;
  end if;
  insert into tidegate.redrive (request_id, redriven_as)
  select r.id, p_id
  from tidegate.request as r
  where r.id = any(array(
      select l.id
      from tidegate_internal.lineage(p_seen.request_id || array(
        select d.request_id from tidegate.dedup as d where p_is_derived and d.scope = p_scope
      )) as l(id)
    ))
    and p_links and r.req_status in ('failure', 'timed_out') and r.id <> p_id
  on conflict do nothing;
  return p_id;
end;
$$;
