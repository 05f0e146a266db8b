-- `tidegate.settle` is in the place of these.

drop function if exists
  tidegate.settle_passed, tidegate.settle_snooze, tidegate.settle_failed, tidegate.settle_receipt,
  tidegate.settle_retry, tidegate.settle_rejected, tidegate.release;
