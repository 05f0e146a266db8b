//! The kinds of the relayer with their queues, gates, times and policies.

use serde_json::{Value, json};
use sqlx::PgPool;
use tidegate::StoreError;

use crate::request::Family;

/// The depths at which the gates of the queues close and open.
const HIGH_WATER: i32 = 10_000;
const LOW_WATER: i32 = 5_000;

/// How many requests of a kind are sent per second, and checked at once.
const SENDS: u16 = 20;
const CHECKS: i32 = 250;

/// How many requests of all kinds are sent per second.
pub(crate) const SENDS_OF_ALL: u64 = 3 * SENDS as u64;

/// A kind as it is made.
struct Kind {
    name: &'static str,
    flow: &'static str,
    readiness_queue: Option<&'static str>,
    settings: Vec<(&'static str, Value)>,
}

impl Kind {
    fn all() -> [Self; 3] {
        [
            // Not a proof: a rejected input is a completed request.
            Self::new(Family::InputProof, None, 2, 7),
            Self::new(Family::PublicDecrypt, Some("fhevm_public_ready"), 6, 365),
            Self::new(Family::UserDecrypt, Some("fhevm_user_ready"), 6, 7),
        ]
    }

    /// A kind whose requests take so many seconds from the send to the response, and stand for their duplicates for so many
    /// days.
    fn new(family: Family, readiness_queue: Option<&'static str>, processing: u32, window: u32) -> Self {
        let mut settings = vec![
            (".processing_seconds", json!(processing)),
            (".tx_confirmation_ms", json!(250)),
            // The nominal times are for the first requests; a caller waits out what it is told.
            (".eta", json!("observed")),
            (".deadline", json!("60 minutes")),
            (".response_timeout", json!("30 minutes")),
            // A caller may poll for a while after a submission at the end of the window.
            (".retention", json!(format!("{} days", window + 1))),
            (".tx.dedup_window", json!(format!("{window} days"))),
            // A caller has no other key than the payload, and a repeated request does no harm.
            (".key_after_unknown", json!("free")),
            (".tx.attempts", json!(11)),
            (".tx.base_ms", json!(500)),
            (".tx.factor", json!(1)),
            (".tx.deadline_ms", json!(3_600_000)),
            // A send waits for endpoints, wallets and its receipt by itself.
            (".tx.timeout_ms", json!(300_000)),
        ];
        if readiness_queue.is_some() {
            settings.extend([
                (".readiness_check_seconds", json!(4)),
                (".readiness_timeout", json!("30 minutes")),
                (".readiness.attempts", json!(75)),
                (".readiness.base_ms", json!(500)),
                (".readiness.factor", json!(1)),
                (".readiness.deadline_ms", json!(1_800_000)),
                (".readiness.timeout_ms", json!(15_000)),
                // Checks and sends together have the time of the kind.
                (".tx.timeout_ms", json!(210_000)),
            ]);
        }
        Self {
            name: family.kind(),
            flow: if readiness_queue.is_some() { "decrypt" } else { "direct" },
            readiness_queue,
            settings,
        }
    }
}

/// Makes the kinds that are missing, all or none of them; returns their names. A kind that exists stays as it is.
///
/// # Errors
///
/// A kind exists with another flow or other queues; a database error.
pub async fn init(pool: &PgPool) -> Result<Vec<&'static str>, StoreError> {
    let mut transaction = pool.begin().await?;
    let mut made = Vec::new();
    for kind in Kind::all() {
        let added: i64 = sqlx::query_scalar(
            "select count(*) from tidegate.kind_add(
               kind => $1, flow => $2, tx_queue => $1, readiness_queue => $3, per_seconds => $4::integer,
               max_concurrency => $5, high_water => $6, low_water => $7, actor => 'tidegate-fhevm init',
               key_scope => 'kind'
             )",
        )
        .bind(kind.name)
        .bind(kind.flow)
        .bind(kind.readiness_queue)
        .bind(i32::from(SENDS))
        .bind(kind.readiness_queue.map(|_| CHECKS))
        .bind(HIGH_WATER)
        .bind(LOW_WATER)
        .fetch_one(&mut *transaction)
        .await?;
        if added == 0 {
            continue;
        }
        let settings = kind.settings.into_iter();
        let settings: Value = settings
            .map(|(setting, value)| (format!("{}{setting}", kind.name), value))
            .collect::<serde_json::Map<_, _>>()
            .into();
        sqlx::query("select from tidegate.config_set_many($1, 'tidegate-fhevm init')")
            .bind(settings)
            .execute(&mut *transaction)
            .await?;
        made.push(kind.name);
    }
    transaction.commit().await?;
    Ok(made)
}
