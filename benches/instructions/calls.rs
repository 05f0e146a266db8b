//! What is measured.

/// A call of a function, as a statement.
pub struct Call {
    pub name: &'static str,
    /// Statements before it, which are not measured.
    pub before: &'static [&'static str],
    /// The statement; `{n}` is how often it is made.
    pub sql: &'static str,
    /// What it must answer.
    pub says: &'static str,
}

const ACCEPTED: &str = r#"outcome = "accepted""#;
const ONE: &str = r#"count = "1""#;
const HUNDRED: &str = r#"count = "100""#;

/// Requests that have ended and such as wait, with the statistics of their tables. (A function in `from` is called once for
/// each row only if it uses the row.)
pub const FILL: &[&str] = &[
    "select tidegate.gate_force('full', 'too_many_requests')",
    // Kinds that are registered have observed ETAs; the example's have not.
    "select count(*) from unnest('{far,near,full}'::text[]) as k(name)
     cross join lateral tidegate.config_set(k.name || '.eta', 'nominal')",
    "select count(*) from generate_series(1, 20) as n
     cross join lateral tidegate.submit_batch('far', array_fill(to_jsonb(n), array[500]))",
    "select count(*) from tidegate.settle(
       array(select c.lease from tidegate.claim_tx('far', 'filler', 2000, '1 hour') as c), '{receipt}',
       responses => array_fill('1'::jsonb, array[2000])
     )",
    "select count(*) from generate_series(1, 3) as n
     cross join lateral tidegate.submit_batch('near', array_fill(to_jsonb(n), array[500]))",
    "select count(*) from tidegate.submit_batch('shared', array_fill('{\"n\": 1}'::jsonb, array[100]))",
    "select count(*) from tidegate.settle(
       array(select c.lease from tidegate.claim_readiness('shared_readiness', 'filler', 100, '1 hour') as c), '{passed}'
     )",
    "select count(*) from tidegate.settle(
       array(select c.lease from tidegate.claim_tx('shared', 'filler', 100, '1 hour') as c), '{receipt}'
     )",
    "select count(*) from tidegate.submit_batch('learning', array_fill('{\"n\": 1}'::jsonb, array[500]))",
    "vacuum analyze",
    "checkpoint",
];

/// What a maintaining process does every few seconds, for positions in a deep queue.
const SURVEY: &str = "select tidegate.survey_queue('far')";

/// Claims raise these marks five times a second, so how many of them do would depend on the machine.
const NO_MARKS: &str =
    "select setval(mark, (extract(epoch from clock_timestamp() + interval '1 day') * 1000000)::bigint)
   from (values ('tidegate.due_watermark_far'::regclass), ('tidegate.lease_watermark_far')) as m(mark)";

/// Statements that a program keeps.
pub const PREPARED: &[&str] = &[
    r#"prepare submit (text, text) as
       select id, outcome, req_status, queue, queue_position, retry_after_seconds
       from tidegate.submit($1, '{"to": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "amount": 100}', $2, 'caller')"#,
    r#"prepare submit_batch as
       select count(*) from tidegate.submit_batch('far', array_fill('{"amount": 100}'::jsonb, array[100]))"#,
    "prepare claim (text, integer) as select count(*) from tidegate.claim_tx($1, 'worker', $2, '1 hour')",
];

pub const CALLS: &[Call] = &[
    Call { name: "submit", before: &[], sql: "execute submit('far', null)", says: ACCEPTED },
    Call {
        name: "submit with an observed ETA",
        before: &[],
        sql: "execute submit('learning', null)",
        says: ACCEPTED,
    },
    Call { name: "submit with a key", before: &[], sql: "execute submit('far', 'key {n}')", says: ACCEPTED },
    Call {
        name: "submit with a known key",
        before: &[SURVEY],
        sql: "execute submit('far', 'key {n}')",
        says: r#"outcome = "replayed""#,
    },
    Call { name: "submit near the mark", before: &[], sql: "execute submit('near', null)", says: ACCEPTED },
    Call {
        name: "submit where the gate is closed",
        before: &[],
        sql: "execute submit('full', null)",
        says: r#"outcome = "refused""#,
    },
    Call { name: "submit_batch of 100", before: &[], sql: "execute submit_batch", says: HUNDRED },
    Call { name: "claim of nothing", before: &[], sql: "execute claim('nothing', 100)", says: r#"count = "0""# },
    Call { name: "claim of 1", before: &[NO_MARKS], sql: "execute claim('far', 1)", says: ONE },
    Call {
        name: "settle of 1",
        before: &[
            "create temporary table sent as
             select row_number() over (order by r.msg_id) as n, row(r.queue, r.lease, r.id)::tidegate.lease as lease, r.id
             from tidegate.request as r where r.lease is not null",
            "prepare settle_one (bigint) as select count(*) from tidegate.settle(
               array(select s.lease from sent as s where s.n = $1), '{receipt}', refs => array['tx ' || $1]
             )",
        ],
        sql: "execute settle_one({n})",
        says: ONE,
    },
    Call { name: "claim of 100", before: &[], sql: "execute claim('far', 100)", says: HUNDRED },
    Call {
        name: "settle of 100",
        before: &[
            "create temporary table answered as
             select row_number() over (order by r.msg_id) as n, row(r.queue, r.lease, r.id)::tidegate.lease as lease
             from tidegate.request as r where r.lease is not null",
            "prepare settle_hundred (bigint) as select count(*) from tidegate.settle(
               array(select a.lease from answered as a where a.n between 100 * $1 - 99 and 100 * $1), '{receipt}',
               responses => array_fill('{\"paid\": true}'::jsonb, array[100])
             )",
        ],
        sql: "execute settle_hundred({n})",
        says: HUNDRED,
    },
    Call {
        name: "respond",
        before: &["prepare respond (bigint) as
          select outcome from tidegate.respond('{\"paid\": true}', id => (select s.id from sent as s where s.n = $1))"],
        sql: "execute respond({n})",
        says: r#"outcome = "completed""#,
    },
    Call {
        name: "respond with a share",
        before: &[
            "create temporary table shared as
             select row_number() over () as n, r.id from tidegate.request as r where r.kind = 'shared'",
            "prepare share (bigint) as
             select outcome from tidegate.respond('{\"share\": 1}', id => (select s.id from shared as s where s.n = $1), part => 'a')",
        ],
        sql: "execute share({n})",
        says: r#"outcome = "stored""#,
    },
    Call {
        name: "respond_many of 100",
        before: &[
            "create temporary table awaiting as
             select row_number() over () as n, t.id
             from tidegate.settle(
               array(select c.lease from generate_series(1, 4) as n
                 cross join lateral tidegate.claim_tx('far', 'worker ' || n, 1000, '1 hour') as c), '{receipt}'
             ) as t",
            "prepare respond_many (bigint) as
             select count(*) from tidegate.respond_many(
               array_fill('{\"paid\": true}'::jsonb, array[100]),
               array(select a.id from awaiting as a where a.n between 100 * $1 - 99 and 100 * $1)
             ) as r where r.outcome = 'completed'",
        ],
        sql: "execute respond_many({n})",
        says: HUNDRED,
    },
    Call {
        name: "poll of one that has ended",
        before: &["prepare poll (bigint) as
          select o.* from tidegate.request_outlooks(array(select s.id from sent as s where s.n = $1)) as o"],
        sql: "execute poll({n})",
        says: r#"req_status = "completed""#,
    },
    Call {
        name: "poll of one that waits",
        before: &[
            SURVEY,
            // In the middle of a block of the survey, whose messages up to there are counted one by one.
            "create temporary table waiting as
             select (q.message ->> 'id')::uuid as id
             from pgmq.q_far as q where q.msg_id % 256 = 128 order by q.msg_id offset 8 limit 1",
            "prepare poll_waiting as
             select o.* from tidegate.request_outlooks(array(select w.id from waiting as w)) as o",
        ],
        sql: "execute poll_waiting",
        says: r#"req_status = "processing""#,
    },
];
