-- request_outlook: The status, position, ETAs and response of one request, as a poll returns them; no row for an
-- unknown id. See `request_outlooks`.
create or replace function tidegate.request_outlook(
  inout id uuid,
  out kind text, out flow tidegate.flow, out req_status tidegate.request_status, out place text, out queue text,
  out queue_position bigint, out elapsed interval, out age interval, out retry_after_seconds integer,
  out eta_p50_ms bigint, out eta_p90_ms bigint, out predicted_seconds integer, out submitted_at timestamptz,
  out response jsonb, out error jsonb, out submitter text, out executed text,
  out cancelling boolean, out resolution jsonb, out finished_at timestamptz
)
  returns setof record language plpgsql stable security definer as $$
begin
  return query
    select
      o.id, o.kind, o.flow, o.req_status, o.place, o.queue, o.queue_position, o.elapsed, o.age, o.retry_after_seconds,
      o.eta_p50_ms, o.eta_p90_ms, o.predicted_seconds, o.submitted_at, o.response, o.error, o.submitter,
      o.executed, o.cancelling, o.resolution, o.finished_at
    from tidegate.request_outlooks(array[request_outlook.id]) as o;
end;
$$;
select tidegate_internal.allow('request_outlook', '{reader,api,worker,admin}');
