-- begins_trace: Whether an attempt begins a trace of its own, which links to that of its request: any but the first, and
-- all of a request that was redriven.
--
-- A trace that went on for all attempts would last as long as the request. Ask only about requests with a trace.
create or replace function tidegate_internal.begins_trace(p_request_id uuid, p_attempt integer)
  returns boolean language sql stable
return p_attempt > 1 or (select true from tidegate.redrive as v where v.redriven_as = p_request_id limit 1) is not null;
