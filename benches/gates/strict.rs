//! The cost of a gate for a submission: single requests by SQL on several connections, far below the high mark, near it, and
//! with `admission => 'accepted'`, in turns.

use std::sync::Arc;

use sqlx::{Connection, PgConnection, PgPool};
use tidegate_cli::database_location::DatabaseLocation;
use tokio::{sync::Barrier, task::JoinSet, time::Instant};

use super::{
    median,
    support::{Bench, number},
};

/// Requests before the measurement, so that connections have plans and tables have a page or two.
const BEFORE: usize = 200;

/// Room that is left at the end, near the high mark, so that the gate never closes.
const AFTER: usize = 50;

struct Variant {
    name: &'static str,
    mode: &'static str,
    near: bool,
    admission: &'static str,
}

const VARIANTS: [Variant; 5] = [
    Variant { name: "admission => 'accepted'", mode: "strict", near: false, admission: "accepted" },
    Variant { name: "strict, far below the mark", mode: "strict", near: false, admission: "enforce" },
    Variant { name: "strict, near the mark", mode: "strict", near: true, admission: "enforce" },
    Variant { name: "soft, far below the mark", mode: "soft", near: false, admission: "enforce" },
    Variant { name: "soft, near the mark", mode: "soft", near: true, admission: "enforce" },
];

pub(crate) async fn measure(location: &DatabaseLocation) {
    let rounds = number("ROUNDS", 9);
    let connections = number("SUBMITTERS", 8);
    let bench = Bench::new(location).await;
    let submits = number("SUBMITS", 1600) / connections * connections;

    println!(
        "\nsingle submits by SQL, {connections} connections, {submits} a round into a queue with {BEFORE}; median of {rounds} rounds, in turns"
    );
    println!("{:<31} {:>10} {:>9}   rounds", "what", "requests/s", "");
    sqlx::query("create table public.bare (payload jsonb)").execute(&bench.pool).await.unwrap();
    let bare = "insert into public.bare values ($1::jsonb) returning 'accepted'";
    let mut figures = VARIANTS.map(|_| Vec::new());
    let (mut bare_alone, mut bare_together) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        bare_alone.push(submit(&bench.url, bare, 1, submits / connections).await);
        bare_together.push(submit(&bench.url, bare, connections, submits).await);
        for (place, variant) in VARIANTS.iter().enumerate() {
            let queue = format!("round_{round}_{place}");
            create_queue(&bench.pool, &queue, variant, BEFORE + submits + AFTER).await;
            let sql = format!(
                "select outcome from tidegate.submit('{queue}', $1::jsonb, admission => '{}')",
                variant.admission
            );
            figures[place].push(submit(&bench.url, &sql, connections, submits).await);
        }
    }
    let accepted = median(figures[0].clone());
    report("(bare inserts, 1 connection)", bare_alone, accepted);
    let what = format!("(bare inserts, {connections} connections)");
    report(&what, bare_together, accepted);
    for (variant, figures) in VARIANTS.iter().zip(figures) {
        report(variant.name, figures, accepted);
    }
    bench.drop().await;
}

fn report(what: &str, figures: Vec<f64>, accepted: f64) {
    let all: Vec<_> = figures.iter().map(|one| format!("{one:.0}")).collect();
    let middle = median(figures);
    println!("{what:<31} {middle:>10.0} {:>7.0} %   {}", 100.0 * middle / accepted, all.join(" "));
}

async fn create_queue(pool: &PgPool, queue: &str, variant: &Variant, high_water: usize) {
    let high_water = if variant.near { high_water } else { 1_000_000 };
    for sql in [
        format!("insert into tidegate.queue (name, stage) values ('{queue}', 'tx')"),
        format!(
            "update tidegate.gate set high_water = {high_water}, low_water = 15, mode = '{}' where queue = '{queue}'",
            variant.mode
        ),
        format!(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms)
             values ('{queue}', 'direct', '{queue}', 200, 100)"
        ),
    ] {
        sqlx::query(&sql).execute(pool).await.unwrap();
    }
}

/// Requests per second, from the first submission to the last.
async fn submit(url: &str, sql: &str, connections: usize, submits: usize) -> f64 {
    let sql: Arc<str> = sql.into();
    let barrier = Arc::new(Barrier::new(connections));
    let mut sessions = JoinSet::new();
    for _ in 0..connections {
        let (sql, barrier) = (Arc::clone(&sql), Arc::clone(&barrier));
        let mut session = PgConnection::connect(url).await.unwrap();
        sqlx::query("set jit = off").execute(&mut session).await.unwrap();
        sessions.spawn(async move {
            for _ in 0..BEFORE / connections {
                submit_one(&mut session, &sql).await;
            }
            barrier.wait().await;
            let begun = Instant::now();
            for _ in 0..submits / connections {
                submit_one(&mut session, &sql).await;
            }
            let ended = Instant::now();
            session.close().await.unwrap();
            (begun, ended)
        });
    }
    let all = sessions.join_all().await;
    let begun = all.iter().map(|(begun, _)| *begun).min().unwrap();
    let ended = all.iter().map(|(_, ended)| *ended).max().unwrap();
    f64::from(u32::try_from(submits).unwrap()) / (ended - begun).as_secs_f64()
}

async fn submit_one(session: &mut PgConnection, sql: &str) {
    let payload = format!("{{\"to\":\"{}\"}}", "x".repeat(91));
    let outcome: String = sqlx::query_scalar(sql).bind(payload).fetch_one(session).await.unwrap();
    assert_eq!(outcome, "accepted");
}
