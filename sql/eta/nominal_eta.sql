-- nominal_eta: The Retry-After of a request from its place and the nominal times of its kind.
--
-- Not before the end of a backoff or a delayed start. Source: the Retry-After design.
create or replace function tidegate.nominal_eta(
  p_kind       tidegate.kind,
  p_place      text,
  p_position   bigint,
  p_visible_in interval,
  p_elapsed    interval,
  p_terms      tidegate.eta_terms
)
  returns integer language plpgsql stable as $$
begin
  if p_place = 'awaiting_response' then
    return tidegate.response_backoff_seconds(p_elapsed);
  end if;
  return greatest(
    tidegate.eta_seconds(
      p_place, p_position, p_terms.tx_queue_size, p_terms.drain_tps, p_terms.concurrency, p_kind.readiness_ms,
      p_kind.processing_ms, p_kind.tx_confirmation_ms, p_terms.safety_margin, p_terms.min_seconds, p_terms.max_seconds
    ),
    case when p_visible_in is not null then least(ceil(extract(epoch from p_visible_in)), p_terms.max_seconds) end
  );
end;
$$;
select tidegate_internal.allow('nominal_eta', '{reader,api,worker,admin}');
