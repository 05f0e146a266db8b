-- require_room_ever: Raises TG011 for a batch with more new requests than a gate can ever let in.
create or replace function tidegate_internal.require_room_ever(p_kind tidegate.kind, p_submitter text, p_fresh bigint)
  returns void language plpgsql as $$
declare
  v_least record;
begin
  select g.name, g.high_water into v_least
  from tidegate.gate as g
  where (g.queue = coalesce(p_kind.readiness_queue, p_kind.tx_queue) or g.kind = p_kind.name
    or g.submitter = p_submitter)
    and not (g.forced and g.state = 'accepting')
  order by g.high_water
  limit 1;
  if p_fresh > v_least.high_water then
    raise exception using errcode = 'TG011',
      message = format(
        'a batch of %s requests is larger than the high mark of gate "%s", %s: it would never be let in',
        p_fresh, v_least.name, v_least.high_water
      ),
      hint = 'split the batch, or raise the mark with `tidegate gate set`';
  end if;
end;
$$;
