-- Responses that workers ask the downstream for.

-- Null `ask_at`: no worker asks.
alter table tidegate.awaiting_response
  add column kind   text,
  add column ask_at timestamptz;

create index awaiting_response_ask_at_idx on tidegate.awaiting_response (kind, ask_at) where ask_at is not null;

update tidegate.awaiting_response as a
set kind = r.kind, ask_at = case when r.flow = 'direct' then r.receipt_received_at end
from tidegate.request as r
where r.id = a.request_id;
