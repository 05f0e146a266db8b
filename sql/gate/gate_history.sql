-- gate_history: Every change of each gate, latest first.
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
comment on column tidegate.gate_history.at is 'When it changed.';
comment on column tidegate.gate_history.gate is 'The name of the gate: its queue, ''kind …'' or ''submitter …''.';
comment on column tidegate.gate_history.epoch is 'Which change of this gate it was, from 1.';
comment on column tidegate.gate_history.signal is 'The signal sent to nodes: ACCEPTING_REQUESTS or TOO_MANY_REQUESTS.';
comment on column tidegate.gate_history.state is 'The state it changed to: accepting or too_many_requests.';
comment on column tidegate.gate_history.depth is 'The depth at the change, in messages.';
comment on column tidegate.gate_history.cause is 'Why: a mark, an operator''s command, or its removal.';
comment on column tidegate.gate_history.lasted is 'How long it stayed in that state, until now for the current one.';
comment on column tidegate.gate_history.is_current is 'Whether this is the current state.';
comment on column tidegate.gate_history.actor is 'The actor named by the program, or the database user.';
comment on column tidegate.gate_history.id is 'Ascends in the order in which changes were made.';
