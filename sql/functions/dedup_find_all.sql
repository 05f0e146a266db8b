-- tidegate.dedup_find_all: `dedup_find` for each request of a submission: the earlier requests that its keys stand for
--
-- In the order given; null where a key stands for none, and for a request without a key. Writes nothing.
-- Raises TG004 when a key stands for a request with another payload.
create or replace function tidegate.dedup_find_all(p_kind text, p_payloads jsonb[], p_keys text[], p_submitter text)
  returns uuid[]
  language sql
  stable
as $$
  select array_agg(
    case
      when k.key is not null then (
        select f.request_id
        from tidegate.dedup_find(
          p_kind || ':' || coalesce(p_submitter, ''), k.key, sha256(convert_to(tidegate.canonical(p.payload), 'UTF8')),
          clock_timestamp()
        ) as f
      )
    end
    order by p.place
  )
  from unnest(p_payloads) with ordinality as p(payload, place)
  left join unnest(p_keys) with ordinality as k(key, place) on k.place = p.place;
$$;
