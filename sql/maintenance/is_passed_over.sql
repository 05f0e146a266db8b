-- is_passed_over: Whether a duty passes over a request for now, because it has failed for it.
create or replace function tidegate_internal.is_passed_over(p_request_id uuid, p_duty text)
  returns boolean language sql stable as $$
  select exists (
    select
    from tidegate.passed_over as n
    where n.request_id = p_request_id and n.duty = p_duty and n.retry_at > tidegate.clock()
  );
$$;
