-- Comments on the tables and types of this folder's subject.

comment on table tidegate.awaiting_response is 'The requests in receipt_received; written by a trigger on request.';
comment on column tidegate.awaiting_response.request_id is 'The request.';
comment on column tidegate.awaiting_response.due_at is 'When it times out: receipt plus the kind''s response_timeout.';
comment on index tidegate.awaiting_response_due_at_idx is 'Serves expire_responses: the longest overdue first.';

comment on table tidegate.request_reference is 'The request of each downstream reference; written by settle_receipt.';
comment on column tidegate.request_reference.reference is 'The downstream''s name for it; the first request keeps it.';
comment on column tidegate.request_reference.request_id is 'The request.';
comment on index tidegate.request_reference_request_id_idx is 'Serves the inbox and the removal of requests.';

comment on table tidegate.response_part is 'Shares of a response, the first of each part counts; written by respond.';
comment on column tidegate.response_part.request_id is 'The request.';
comment on column tidegate.response_part.part is 'The name of the share, such as its sender''s.';
comment on column tidegate.response_part.response is 'The share.';
comment on column tidegate.response_part.received_at is 'When it was stored.';

comment on table tidegate.inbox_total is 'One row: counts that outlive their responses.';
comment on column tidegate.inbox_total.expired is 'Responses deleted because no request had their reference.';
comment on column tidegate.inbox_total.only_row is 'Always true.';

comment on table tidegate.response_inbox is 'Early and late responses; written by respond and settle_receipt.';
comment on column tidegate.response_inbox.id is 'Order of arrival.';
comment on column tidegate.response_inbox.request_id is 'The request addressed; null: only its reference is known.';
comment on column tidegate.response_inbox.reference is 'The downstream reference addressed, if any.';
comment on column tidegate.response_inbox.part is 'The name of the share, if it is one.';
comment on column tidegate.response_inbox.accept is 'The verdict, if it is one.';
comment on column tidegate.response_inbox.late is 'False: waits for the receipt; true: could not be applied; kept.';
comment on column tidegate.response_inbox.received_at is 'When it was received.';
comment on column tidegate.response_inbox.response is 'The response.';
comment on index tidegate.response_inbox_early_idx is 'Finds early responses among many late ones.';
comment on index tidegate.response_inbox_request_id_idx is 'Serves receipts: early responses by request.';
comment on index tidegate.response_inbox_reference_idx is 'Serves receipts: early responses by reference.';
