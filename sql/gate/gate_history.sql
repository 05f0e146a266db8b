-- gate_history: Every change of each gate, latest first.
--
--   at: When it changed.
--   gate: The name of the gate: its queue, 'kind …' or 'submitter …'.
--   epoch: Which change of this gate it was, from 1.
--   signal: The signal sent to nodes: ACCEPTING_REQUESTS or TOO_MANY_REQUESTS.
--   state: The state it changed to: accepting or too_many_requests.
--   depth: The depth at the change, in messages.
--   cause: Why: a mark, an operator's command, or its removal.
--   lasted: How long it stayed in that state, until now for the current one.
--   is_current: Whether this is the current state.
--   actor: The actor named by the program, or the database user.
--   id: Ascends in the order in which changes were made.
create or replace view tidegate.gate_history as
select
  e.at, e.gate, e.epoch,
  case e.state when 'accepting' then 'ACCEPTING_REQUESTS' else 'TOO_MANY_REQUESTS' end as signal,
  e.state, e.depth, e.cause,
  coalesce(lead(e.at) over (partition by e.gate order by e.epoch), tidegate.clock()) - e.at as lasted,
  lead(e.at) over (partition by e.gate order by e.epoch) is null as is_current,
  coalesce(e.on_behalf_of, e.actor) as actor, e.id
from tidegate.gate_event as e
order by e.at desc, e.gate, e.epoch desc;
