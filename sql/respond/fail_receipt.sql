-- fail_receipt: receipt_received → failure (rejected), when the downstream turned out not to answer; false, and nothing
-- changed, in any other status.
--
-- For a downstream that takes its receipt back, such as a chain whose reorganisation reverts a transaction. `error` is
-- {"code", "message", "retryable"}. Commits with the caller's transaction.
create or replace function tidegate.fail_receipt(id uuid, error jsonb)
  returns boolean language plpgsql security definer as $$
begin
  return exists (
    select from tidegate_internal.end_requests(
      array[fail_receipt.id], '{receipt_received}', 'failure', '{rejected}',
      coalesce(fail_receipt.error, tidegate_internal.error_json('rejected', 'no reason given', false)),
      p_taken_back => true
    )
  );
end;
$$;
select tidegate_internal.allow('fail_receipt', '{api,worker,admin}');
