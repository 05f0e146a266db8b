-- sort_out: of a submission that the gates have no room for in whole: what is known, what is let in, what is not
--
-- `known` are the earlier requests that the keys stand for, in the order given. Of the others, `fresh` in number, where a
-- key that comes twice counts once, `taken` are the places of those let in and `refused` of those that are not: with
-- `p_each` as many as there is room for, else all or none, and with one refused, all are. Reads keys and does not claim
-- them: what a refused request took would have to be given back.
-- Raises TG011 for a batch that a gate would never have room for.
create or replace function tidegate_internal.sort_out(
  p_kind      tidegate.kind,
  p_payloads  jsonb[],
  p_scopes    text[],
  p_keys      text[],
  p_made      text[],
  p_submitter text,
  p_room      bigint,
  p_each      boolean,
  out known   uuid[],
  out fresh   bigint,
  out taken   bigint[],
  out refused bigint[]
)
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_least record;
begin
  known := tidegate_internal.dedup_find_all(p_kind, p_payloads, p_scopes, p_keys, p_made);
  with asked as (
    select
      s.place, s.id is null as is_fresh,
      min(s.place) over (
        partition by s.scope, s.key, s.made, case when num_nonnulls(s.key, s.made) = 0 then s.place end
      ) as first_place
    from unnest(known, p_scopes, p_keys, p_made) with ordinality as s(id, scope, key, made, place)
  ), numbered as (
    select a.place, a.is_fresh, dense_rank() over (partition by a.is_fresh order by a.first_place) as number
    from asked as a
  )
  select
    coalesce(max(n.number) filter (where n.is_fresh), 0),
    array_agg(n.place order by n.place) filter (where n.is_fresh and n.number <= p_room),
    array_agg(n.place order by n.place) filter (where n.is_fresh and n.number > p_room)
  into fresh, taken, refused
  from numbered as n;

  if not p_each then
    select g.name, g.high_water into v_least
    from tidegate.gate as g
    where (g.queue = coalesce(p_kind.readiness_queue, p_kind.tx_queue) or g.kind = p_kind.name or g.submitter = p_submitter)
      and not (g.forced and g.state = 'accepting')
    order by g.high_water
    limit 1;
    if fresh > v_least.high_water then
      raise exception using
        errcode = 'TG011',
        message = format(
          'a batch of %s requests is larger than the high-water mark of gate "%s", %s: it would never be let in',
          fresh, v_least.name, v_least.high_water
        ),
        hint = 'split the batch, or raise the mark with `tidegate gate set`';
    end if;
    if refused is not null then
      known := array_fill(null::uuid, array[cardinality(p_payloads)]);
      taken := null;
    end if;
  end if;
end;
$$;

comment on function tidegate_internal.sort_out is
  'Of a submission that there is no room for: what is known, what is let in, what is not.';
