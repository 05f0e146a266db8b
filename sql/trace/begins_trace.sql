-- begins_trace: Whether an attempt begins a trace of its own, which links to the request's: any but the first one, and
-- all of a redriven request.
--
-- A trace that went on for all attempts would last as long as the request. Ask only about requests with a trace.
create or replace function tidegate_internal.begins_trace(p_request_id uuid, p_attempt integer)
  returns boolean language sql stable
return p_attempt > 1 or (select true from tidegate.redrive as v where v.redriven_as = p_request_id limit 1) is not null;
