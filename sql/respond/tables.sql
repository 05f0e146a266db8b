-- Comments on the tables and types of this folder's subject.

-- table awaiting_response: The requests in receipt_received; written by a trigger on request.
--   request_id: The request.
--   due_at: When it times out: receipt plus the kind's response_timeout.
--   kind: Its kind.
--   ask_at: When a worker whose stage asks for responses does so next; null: not a direct request.

-- index awaiting_response_ask_at_idx: Serves ask_claim: the longest due of a kind first.

-- index awaiting_response_due_at_idx: Serves expire_responses: the longest overdue first.

-- table request_reference: The request of each downstream reference; written by settle_receipt.
--   reference: The downstream's name for it; the first request keeps it.
--   request_id: The request.

-- index request_reference_request_id_idx: Serves the inbox and the removal of requests.

-- table response_part: Shares of a response, the first of each part counts; written by respond.
--   request_id: The request.
--   part: The name of the share, such as its sender's.
--   response: The share.
--   received_at: When it was stored.

-- table inbox_total: One row: counts that outlive their responses.
--   expired: Responses deleted because no request had their reference.
--   only_row: Always true.

-- table response_inbox: Early and late responses; written by respond and settle_receipt.
--   id: Order of arrival.
--   request_id: The request addressed; null: only its reference is known.
--   reference: The downstream reference addressed, if any.
--   part: The name of the share, if it is one.
--   accept: The verdict, if it is one.
--   late: False: waits for the receipt; true: could not be applied; kept.
--   received_at: When it was received.
--   response: The response.

-- index response_inbox_early_idx: Finds early responses among many late ones.

-- index response_inbox_request_id_idx: Serves receipts: early responses by request.

-- index response_inbox_reference_idx: Serves receipts: early responses by reference.
