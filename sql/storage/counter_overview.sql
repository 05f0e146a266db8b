-- counter_overview: What is in the sequences of each queue, one row per counter.
--
--   queue: The queue.
--   counter: The name of the counter; its sequence is tidegate.COUNTER_QUEUE, that of last is pgmq's own.
--   value: Its value.
--   at: The time that it stands for, if it stands for one.
--   meaning: What it stands for.
create or replace view tidegate.counter_overview as
select
  v.queue, v.counter, v.value,
  case when c.per_second > 0 and v.value > 0 then to_timestamp(v.value / c.per_second) end as at, c.meaning
from tidegate.queue_counter_values() as v
join (
  values
    ('last', 0, 'the last message number that was drawn'),
    ('offset', 0, 'how many numbers have no live message: the gate admits numbers up to this plus its mark'),
    ('watermark', 0, 'no message with a smaller number waits, except those that come due later or come back'),
    ('first_waiting', 0, 'an estimate of the first number that waits, by the last claim or survey'),
    ('not_waiting', 0, 'how many numbers, up to the last one surveyed, do not wait; 0: none is surveyed'),
    ('survey_cursor', 0, 'where the next survey begins'),
    ('closed_draws', 0, 'no open transaction has drawn a number up to this one'),
    ('snapshot_number', 0, 'the last number of one moment'),
    ('snapshot_xid', 0, 'a transaction id beyond all that had drawn by then'),
    ('epoch', 0, 'watermarks of kinds under an earlier one are void'),
    ('pacing', 1000000000, 'when the next send is due by the rate limit alone'),
    ('surveyed_at', 1000000, 'when the queue was last surveyed'),
    ('due_watermark', 1000000, 'messages that came due before this have been dealt with'),
    ('lease_watermark', 1000000, 'no claim searches for a lease that ran out before this'),
    ('ready_tag', 0, 'no turn with a smaller tag is ready'),
    ('ready_no', 0, 'nor one with this tag and a smaller number'),
    ('last_turn', 0, 'how often a key has become active'),
    ('forgotten', 0, 'idle turns with a smaller tag have been forgotten'),
    ('folded', 1000000, 'quiet rows of the journal before this have been folded')
) as c(counter, per_second, meaning) on c.counter = v.counter;
