//! Invariants of any moment, read from the tables alone, without the engine's functions, views or rules.

use std::collections::{BTreeMap, HashMap};

use sqlx::{Connection, PgConnection, Row};
use uuid::Uuid;

/// The legal edges, as the specification draws them: flows, from, to, causes.
const EDGES: &[(&str, &str, &str, &str)] = &[
    ("decrypt", "", "queued", "submitted"),
    ("proof direct", "", "processing", "submitted"),
    ("decrypt", "queued", "processing", "readiness_passed"),
    ("decrypt", "queued", "timed_out", "readiness_timed_out"),
    ("decrypt", "queued", "failure", "readiness_failed cancelled internal_error deadline_exceeded"),
    ("decrypt proof direct", "processing", "tx_in_flight", "claimed"),
    (
        "decrypt proof direct",
        "processing",
        "failure",
        "send_refused cancelled internal_error deadline_exceeded attempts_exhausted",
    ),
    ("decrypt proof direct", "tx_in_flight", "receipt_received", "receipt"),
    ("direct", "tx_in_flight", "completed", "receipt"),
    ("decrypt proof direct", "tx_in_flight", "processing", "recovered send_retried released"),
    (
        "decrypt proof direct",
        "tx_in_flight",
        "failure",
        "rejected outcome_unknown cancelled internal_error deadline_exceeded attempts_exhausted",
    ),
    ("decrypt direct", "receipt_received", "completed", "response"),
    ("decrypt", "receipt_received", "completed", "threshold_reached"),
    ("proof", "receipt_received", "completed", "verdict_accepted"),
    ("proof", "receipt_received", "failure", "verdict_rejected"),
    ("decrypt proof direct", "receipt_received", "failure", "internal_error rejected"),
    ("decrypt proof direct", "receipt_received", "timed_out", "response_timed_out"),
];

const TERMINAL: &[&str] = &["completed", "timed_out", "failure"];

struct Event {
    number: i32,
    from: String,
    to: String,
    cause: String,
}

struct Message {
    queue: String,
    stage: String,
    msg_id: i64,
    held: bool,
}

/// Every violation found in one snapshot, in words; empty when all is well.
///
/// Hand-edited requests may lack their message or keep an old one until the next claim or `recover`: check after that.
pub async fn violations(session: &mut PgConnection) -> Vec<String> {
    let mut transaction = session.begin().await.unwrap();
    // Of many requests, a look takes longer than the pool's time limit.
    sqlx::raw_sql("set transaction isolation level repeatable read, read only; set local statement_timeout = 0")
        .execute(&mut *transaction)
        .await
        .unwrap();
    let found = violations_within(&mut transaction).await;
    transaction.rollback().await.unwrap();
    found
}

/// The same, as the open transaction of a session sees it.
pub async fn violations_within(transaction: &mut PgConnection) -> Vec<String> {
    let mut found = Vec::new();

    let queues: Vec<(String, String)> =
        sqlx::query_as("select name, stage::text from tidegate.queue").fetch_all(&mut *transaction).await.unwrap();
    let mut messages: HashMap<String, Vec<Message>> = HashMap::new();
    for (queue, stage) in &queues {
        let sql = format!(
            "select msg_id, message ->> 'id' as id, false as held from pgmq.\"q_{queue}\"
             union all
             select r.msg_id, r.id::text, true
             from tidegate.claim as c cross join unnest(c.ids) as i(id)
             join tidegate.request as r on r.id = i.id and r.lease = c.token
             where c.queue = '{queue}'"
        );
        for row in sqlx::query(&sql).fetch_all(&mut *transaction).await.unwrap() {
            let id = row.get::<Option<String>, _>("id").unwrap_or_default();
            messages.entry(id).or_default().push(Message {
                queue: queue.clone(),
                stage: stage.clone(),
                msg_id: row.get("msg_id"),
                held: row.get("held"),
            });
        }
    }

    let mut histories: HashMap<Uuid, Vec<Event>> = HashMap::new();
    let rows = sqlx::query(
        "select request_id, transition_no, coalesce(from_status::text, '') as old, to_status::text as new, cause
         from tidegate.request_event order by request_id, transition_no",
    )
    .fetch_all(&mut *transaction)
    .await
    .unwrap();
    for row in rows {
        histories.entry(row.get("request_id")).or_default().push(Event {
            number: row.get("transition_no"),
            from: row.get("old"),
            to: row.get("new"),
            cause: row.get("cause"),
        });
    }

    let rows = sqlx::query(
        "select r.id, r.flow::text as flow, r.req_status::text as status, r.queue, r.msg_id, r.transition_no, r.tx_attempt,
           r.finished_at is not null as finished, r.lease is not null as leased,
           r.req_status = 'queued' and r.readiness_deadline_at is null as undated,
           exists (select from tidegate.awaiting_response as a where a.request_id = r.id) as awaiting,
           r.reference is not null
             and not exists (select from tidegate.request_reference as f where f.reference = r.reference) as unreferenced,
           r.response_threshold, (select count(*) from tidegate.response_part as p where p.request_id = r.id) as parts
         from tidegate.request as r",
    )
    .fetch_all(&mut *transaction)
    .await
    .unwrap();
    for row in rows {
        let id: Uuid = row.get("id");
        let flow: String = row.get("flow");
        let status: String = row.get("status");
        let terminal = TERMINAL.contains(&status.as_str());
        let history = histories.remove(&id).unwrap_or_default();
        let edited = history.iter().any(|event| event.cause == "hand_edit");
        let mut wrong = |what: String| found.push(format!("request {id} ({status}): {what}"));

        let own = messages.remove(&id.to_string()).unwrap_or_default();
        let stage = match status.as_str() {
            "queued" => "readiness",
            "processing" | "tx_in_flight" => "tx",
            _ => "",
        };
        let queue: Option<String> = row.get("queue");
        let msg_id: Option<i64> = row.get("msg_id");
        let named = |message: &&Message| {
            message.stage == stage && Some(&message.queue) == queue.as_ref() && Some(message.msg_id) == msg_id
        };
        match (stage, own.iter().find(named)) {
            ("", _) | (_, Some(_)) => {}
            (_, None) => wrong(format!("has no message; the row names {queue:?} {msg_id:?}")),
        }
        let times = own.iter().filter(named).count();
        if times > 1 {
            wrong(format!("is in its queue {times} times"));
        }
        if stage.is_empty() && row.get::<bool, _>("leased") && !edited {
            wrong("is under a lease".to_owned());
        }
        for message in own.iter().filter(|message| !named(message)) {
            wrong(format!("has a stray message {} in {}", message.msg_id, message.queue));
        }
        if let Some(message) = own.iter().find(named)
            && !edited
            && stage == "tx"
            && message.held != (status == "tx_in_flight")
        {
            wrong(format!("its message has a holder: {}", message.held));
        }
        if terminal && !edited && (queue.is_some() || msg_id.is_some()) {
            wrong(format!("ended, and still names {queue:?} {msg_id:?}"));
        }

        if row.get("undated") {
            wrong("has no readiness deadline".to_owned());
        }
        if row.get::<bool, _>("finished") != terminal {
            wrong("finished_at does not fit".to_owned());
        }
        if row.get::<bool, _>("awaiting") != (status == "receipt_received") {
            wrong("awaiting_response does not fit".to_owned());
        }
        if row.get("unreferenced") {
            wrong("no request has its reference".to_owned());
        }
        let (threshold, parts): (i32, i64) = (row.get("response_threshold"), row.get("parts"));
        if status == "receipt_received" && threshold > 1 && parts >= i64::from(threshold) {
            wrong(format!("{parts} shares of {threshold} and not completed"));
        }

        let path = history
            .iter()
            .map(|event| format!("{}→{} ({})", event.from, event.to, event.cause))
            .collect::<Vec<_>>()
            .join(", ");
        let mut before = "";
        for (event, number) in history.iter().zip(1..) {
            if event.number != number || event.from != before || !legal(&flow, event) {
                wrong(format!("event {} is illegal: {path}", event.number));
            }
            before = &event.to;
        }
        if before != status || usize::try_from(row.get::<i32, _>("transition_no")) != Ok(history.len()) {
            wrong(format!("events do not replay to the row: {path}"));
        }
        let ends = history.iter().filter(|event| TERMINAL.contains(&event.to.as_str())).count();
        if ends != usize::from(terminal) {
            wrong(format!("{ends} terminal events: {path}"));
        }
        let count = |cause: &str| history.iter().filter(|event| event.cause == cause).count();
        let begun = count("claimed") - count("released").min(count("claimed"));
        if !edited && usize::try_from(row.get::<i32, _>("tx_attempt")) != Ok(begun) {
            wrong(format!("tx_attempt is {}: {path}", row.get::<i32, _>("tx_attempt")));
        }
    }

    for (id, strays) in messages {
        for message in strays {
            found.push(format!("message {} in {} stands for nothing: {id:?}", message.msg_id, message.queue));
        }
    }
    for id in histories.keys() {
        found.push(format!("events of no request: {id}"));
    }
    found.extend(miscounts(transaction).await);
    found.extend(uncapped(transaction).await);
    found
}

fn legal(flow: &str, event: &Event) -> bool {
    EDGES.iter().any(|(flows, from, to, causes)| {
        flows.split(' ').any(|known| known == flow)
            && *from == event.from
            && *to == event.to
            && (event.cause == "hand_edit" || causes.split(' ').any(|known| known == event.cause))
    })
}

async fn miscounts(session: &mut PgConnection) -> Vec<String> {
    let rows: Vec<(String, i64, i64)> = sqlx::query_as(
        "select c.what, sum(c.counted)::bigint, sum(c.real)::bigint
         from (
           select kind || ' ' || req_status as what, requests as counted, 0 as real from tidegate.request_count
           union all
           select kind || ' ' || req_status, delta, 0 from tidegate.request_count_delta
           union all
           select kind || ' ' || from_status, -delta, 0 from tidegate.request_count_delta where from_status is not null
           union all
           select kind || ' ' || req_status, 0, 1 from tidegate.request
         ) as c
         group by c.what",
    )
    .fetch_all(session)
    .await
    .unwrap();
    let wrong: BTreeMap<_, _> = rows
        .into_iter()
        .filter(|(_, counted, real)| counted != real)
        .map(|(what, counted, real)| (what, (counted, real)))
        .collect();
    wrong.into_iter().map(|(what, (counted, real))| format!("{what}: counted {counted}, there are {real}")).collect()
}

/// Requests that a quota counts and should not, or should and does not.
async fn uncapped(session: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar(
        "with live as (
           select g.name as gate, r.id
           from tidegate.gate as g
           join tidegate.request as r on g.kind = r.kind or g.submitter = r.submitter
           where r.req_status in ('queued', 'processing', 'tx_in_flight')
         )
         select coalesce(l.gate, m.gate) || ': request ' || coalesce(l.id, m.request_id)
           || case when l.id is null then ' is counted and in no queue' else ' is in a queue and not counted' end
         from live as l
         full join tidegate.quota_usage as m on m.gate = l.gate and m.request_id = l.id
         where l.id is null or m.request_id is null
         order by 1",
    )
    .fetch_all(session)
    .await
    .unwrap()
}
