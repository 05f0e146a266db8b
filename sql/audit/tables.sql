-- Comments on the tables of this folder's subject.

-- table contract_baseline: The observed values that bounds of contracts are relative to.
--   kind: The kind.
--   stage: The stage.
--   member: The member of an assertion, such as retry_rate_le.
--   value: What was observed; times in milliseconds.
--   recorded_at: When.
--   actor: The database user.
--   on_behalf_of: The requester, as the program reports.
