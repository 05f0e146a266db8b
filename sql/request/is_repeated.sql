-- is_repeated: Whether a request was redriven as one that is sent under its id.
create or replace function tidegate_internal.is_repeated(p_id uuid)
  returns boolean language plpgsql stable as $$
begin
  return exists (
    select
    from tidegate.redrive as v
    join tidegate.request as r on r.id = v.redriven_as
    where v.request_id = p_id and r.send_id is not null
  );
end;
$$;
select tidegate_internal.plan_along_indexes('is_repeated');
