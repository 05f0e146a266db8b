//! What breaks an invariant of fair queues.

use super::Seed;

pub(super) const TURNS: &[Seed] = &[
    (
        "turn_twice",
        "insert into tidegate.turn_fair (key, tag, no, cost, head, waiting)
         select key, tag, no + 100, cost, head, 0 from tidegate.turn_fair limit 1",
        &[],
    ),
    (
        "turn_behind",
        "select setval('tidegate.ready_tag_fair', 1000000000);
         update tidegate.maintenance set ran_at = '-infinity' where duty = 'fold_turns'",
        &[],
    ),
    (
        "turn_cost",
        "update tidegate.turn_fair set cost = 7",
        &[],
    ),
    (
        "turn_missing",
        "update tidegate.turn_fair set idle_at = now()",
        &[],
    ),
    (
        "turn_hides_message",
        "update tidegate.turn_fair set head = head + 1000",
        &[],
    ),
    (
        "turn_count",
        "update tidegate.turn_fair set waiting = waiting + 1",
        &[],
    ),
    (
        "arrival_old",
        "insert into tidegate.arrival_fair (at, key, first, n, urgent) values (now() - interval '1 minute', 1, null, 0, false);
         update tidegate.maintenance set ran_at = clock_timestamp() where duty = 'fold_turns'",
        &[],
    ),
    (
        "queue_without_storage",
        "drop sequence tidegate.folded_fair",
        &[],
    ),
];
