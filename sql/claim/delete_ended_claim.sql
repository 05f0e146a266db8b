-- delete_ended_claim: Deletes a claim that holds nothing any more, unless it is locked.
create or replace function tidegate_internal.delete_ended_claim(p_token bigint, p_part integer)
  returns void
  language sql
  set search_path = pg_catalog, pg_temp
as $$
  delete from tidegate.claim as c
  where (c.token, c.part) in (
    select e.token, e.part
    from tidegate.claim as e
    where e.token = p_token and e.part = p_part and not exists (
      select
      from unnest(e.ids) as i(id)
      cross join lateral (select r.lease from tidegate.request as r where r.id = i.id offset 0) as r
      where r.lease = e.token
    )
    for update skip locked
  );
$$;
