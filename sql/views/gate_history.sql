-- tidegate.gate_history: how each gate came to where it is, latest first
create or replace view tidegate.gate_history as
select
  e.at, e.gate, e.epoch,
  case e.state when 'accepting' then 'ACCEPTING_REQUESTS' else 'TOO_MANY_REQUESTS' end as signal,
  e.state, e.depth, e.cause,
  coalesce(lead(e.at) over (partition by e.gate order by e.epoch), clock_timestamp()) - e.at as lasted,
  lead(e.at) over (partition by e.gate order by e.epoch) is null as is_current,
  coalesce(e.on_behalf_of, e.actor) as actor,
  e.id
from tidegate.gate_event as e
order by e.at desc, e.gate, e.epoch desc;
