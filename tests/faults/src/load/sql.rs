//! Submissions by SQL, as any program with a database connection makes them.

use std::time::Duration;

use rand::{Rng, rngs::StdRng};
use sqlx::Connection;
use uuid::Uuid;

use super::{Load, Submission};

/// The outcome of an attempt.
enum Attempt {
    Promised(Vec<Uuid>),
    Refused(Duration),
}

impl Load {
    pub(super) async fn submit_by_sql(&self, submission: &Submission, random: &mut StdRng) {
        let mut open = false;
        loop {
            let in_transaction = random.random_bool(0.5);
            let attempt = self.call(submission, in_transaction);
            let attempt = tokio::time::timeout(Duration::from_secs(10), attempt).await;
            let wait = match attempt {
                Ok(Ok(Attempt::Promised(ids))) => {
                    self.promised(submission, &ids, "sql");
                    return;
                }
                Ok(Ok(Attempt::Refused(wait))) => {
                    self.ledger.entries().put_off += 1;
                    if submission.is_optional() && !open {
                        return;
                    }
                    wait
                }
                Ok(Err(error)) => {
                    if !is_to_be_expected(&error) {
                        self.journal.wrong(format!("a submission by SQL got: {error}"));
                    }
                    open = true;
                    Duration::from_millis(random.random_range(100..800))
                }
                Err(_) => {
                    open = true;
                    Duration::ZERO
                }
            };
            if open && submission.key.is_none() {
                self.ledger.entries().unanswered += submission.payloads.len() as u64;
                return;
            }
            if (self.stop.is_cancelled() && !open) || !self.wait(wait).await {
                return;
            }
        }
    }

    /// One attempt; a promise is a commit that the caller has seen.
    async fn call(&self, submission: &Submission, in_transaction: bool) -> Result<Attempt, sqlx::Error> {
        // Here each payload of a batch has a key of its own; over HTTP the batch has one.
        let keys = submission.key.as_ref().map(|key| {
            if submission.is_batch {
                let numbers = 0..submission.payloads.len();
                numbers.map(|number| submission.mark(number)).collect()
            } else {
                vec![key.clone()]
            }
        });
        let sql = "select id, outcome, coalesce(retry_after_seconds, 1)
                   from tidegate.submit_batch(kind => $1, payloads => $2, idempotency_keys => $3, submitter => $4)";
        let query = sqlx::query_as::<_, (Option<Uuid>, String, i32)>(sql)
            .bind(submission.kind.name)
            .bind(&submission.payloads)
            .bind(keys)
            .bind(submission.submitter);
        let mut session = self.pool.acquire().await?;
        let rows = if in_transaction {
            let mut transaction = session.begin().await?;
            let rows = query.fetch_all(&mut *transaction).await?;
            transaction.commit().await?;
            rows
        } else {
            query.fetch_all(&mut *session).await?
        };
        if let Some((_, _, seconds)) = rows.iter().find(|row| row.1 == "refused") {
            let seconds = u64::try_from(*seconds).unwrap_or(1);
            return Ok(Attempt::Refused(Duration::from_secs(seconds)));
        }
        Ok(Attempt::Promised(rows.into_iter().filter_map(|row| row.0).collect()))
    }
}

/// Whether an error is one that faults bring about: connections that end, a server that starts, locks and statements
/// that take too long, a database that takes no writes.
fn is_to_be_expected(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else {
        return true;
    };
    let code = error.code().unwrap_or_default();
    ["57", "08", "53"].iter().any(|class| code.starts_with(class)) || matches!(&*code, "55P03" | "25006")
}
