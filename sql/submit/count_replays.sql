-- count_replays: Counts replays of a kind in its sequence.
--
-- Writes no row and takes no transaction id, so a duplicate costs next to nothing. A read-only transaction, where a
-- sequence may not be advanced, counts nothing, and neither does one that cannot read the sequence (`replays_counted`)
-- or comes while `fold_counts` makes it again. A rollback does not undo the count.
create or replace function tidegate_internal.count_replays(p_kind text, p_replays bigint)
  returns void language plpgsql as $$
begin
  perform count(nextval(c.counter))
  from (select tidegate_internal.replays_counter(p_kind) as counter) as c
  cross join generate_series(1, p_replays)
  where c.counter is not null and current_setting('transaction_read_only') = 'off';
exception when internal_error then
  -- The count is lost, the answer is not.
end;
$$;
