-- What the tables of this folder's subject are for, column by column.

comment on table tidegate.awaiting_response is
  'The requests in receipt_received, so that overdue ones are found; written by a trigger on request.';
comment on column tidegate.awaiting_response.request_id is 'The request.';
comment on column tidegate.awaiting_response.due_at is
  'When it times out: its receipt plus the kind''s response_timeout.';
comment on index tidegate.awaiting_response_due_at_idx is 'Serves expire_responses: the longest overdue first.';

comment on table tidegate.request_reference is
  'Downstream reference to request; written by settle_receipt, kept as long as the request, for late responses.';
comment on column tidegate.request_reference.reference is
  'The downstream''s name for the request; the first request to bring it keeps it.';
comment on column tidegate.request_reference.request_id is 'The request.';
comment on index tidegate.request_reference_request_id_idx is
  'Serves the inbox, which looks for the references of a request, and the removal of requests.';

comment on table tidegate.response_part is 'Shares of a response, the first of each part counts; written by respond.';
comment on column tidegate.response_part.request_id is 'The request.';
comment on column tidegate.response_part.part is 'The name of the share, such as its sender''s.';
comment on column tidegate.response_part.response is 'The share.';
comment on column tidegate.response_part.received_at is 'When it was stored.';

comment on table tidegate.inbox_total is 'One row: counts that outlive their responses.';
comment on column tidegate.inbox_total.expired is 'Responses deleted because no request had their reference.';
comment on column tidegate.inbox_total.only_row is 'Always true.';

comment on table tidegate.response_inbox is
  'Responses that came before their request awaited one, or too late for it; written by respond and settle_receipt.';
comment on column tidegate.response_inbox.id is 'Order of arrival.';
comment on column tidegate.response_inbox.request_id is
  'The request addressed; null when only its reference is known.';
comment on column tidegate.response_inbox.reference is 'The downstream reference addressed, if any.';
comment on column tidegate.response_inbox.part is 'The name of the share, if it is one.';
comment on column tidegate.response_inbox.accept is 'The verdict, if it is one.';
comment on column tidegate.response_inbox.late is
  'False: waits for the receipt; true: could not be applied any more (or does not fit) and is kept to be read.';
comment on column tidegate.response_inbox.received_at is 'When it came.';
comment on column tidegate.response_inbox.response is 'What came.';
comment on index tidegate.response_inbox_early_idx is
  'Finds the next early responses to look at; most rows are late ones.';
comment on index tidegate.response_inbox_request_id_idx is
  'Serves the receipt, which looks for early responses by request.';
comment on index tidegate.response_inbox_reference_idx is
  'Serves the receipt, which looks for early responses by reference.';
