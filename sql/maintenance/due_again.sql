-- due_again: The requests that a deadline sweep could not end and is to try again. A note of one that has ended
-- meanwhile, or whose deadline was put off, is deleted.
create or replace function tidegate_internal.due_again(
  p_duty text, p_column text, p_from tidegate.request_status[], p_batch integer
)
  returns uuid[] language plpgsql as $$
declare
  v_now constant timestamptz := tidegate.clock();
  v_ids uuid[] := array(
    select n.request_id
    from tidegate.passed_over as n
    where n.duty = p_duty and n.retry_at <= v_now
    order by n.retry_at
    limit p_batch
  );
begin
  if v_ids = '{}' then
    return v_ids;
  end if;
  execute format(
    $sql$
      with due as materialized (
        select r.id
        from tidegate.request as r
        where r.id = any($1) and r.req_status = any($2) and r.%I <= $3
        order by r.id
      ), void as (
        delete from tidegate.passed_over as n
        where n.request_id = any($1) and n.duty = $4 and n.request_id <> all(array(select due.id from due))
      )
      select array(select due.id from due)
    $sql$,
    p_column
  )
  into v_ids
  using v_ids, p_from, v_now, p_duty;
  return v_ids;
end;
$$;
