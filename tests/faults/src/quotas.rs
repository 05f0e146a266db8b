//! Counts the live requests of each quota many times a second, apart from the engine's own count.

use std::{sync::Arc, time::Duration};

use sqlx::PgConnection;
use tokio::{task::JoinHandle, time::sleep};

use crate::{evidence::QuotaCount, fleet::Fleet, journal::now_us, scene};

/// How long to wait after a count.
const PAUSE: Duration = Duration::from_millis(100);

/// Live requests are in a message or in a claim; a statement reads them all in one snapshot.
const COUNT: &str = "
    with live as (
      select (m.message ->> 'id')::uuid as id from pgmq.q_readiness as m
      union select (m.message ->> 'id')::uuid from pgmq.q_tx as m
      union select (m.message ->> 'id')::uuid from pgmq.q_bookings as m
      union select i.id from tidegate.claim as c cross join unnest(c.ids) as i(id)
    )
    select count(*) filter (where 'kind ' || r.kind = g.gate or 'submitter ' || r.submitter = g.gate)
    from unnest($1::text[]) with ordinality as g(gate, place)
    left join (
      tidegate.request as r join live as l on l.id = r.id and r.req_status in ('queued', 'processing', 'tx_in_flight')
    ) on true
    group by g.place
    order by g.place";

/// Counts until it is stopped.
pub(crate) struct QuotaCounter {
    counting: JoinHandle<()>,
    counts: Arc<std::sync::Mutex<Vec<QuotaCount>>>,
}

impl QuotaCounter {
    pub(crate) fn start(fleet: Arc<Fleet>) -> Self {
        let counts = Arc::<std::sync::Mutex<Vec<QuotaCount>>>::default();
        let counted = counts.clone();
        let counting = tokio::spawn(async move {
            let mut session: Option<PgConnection> = None;
            loop {
                // The server may be down, or another one by now.
                if session.is_none() {
                    session = fleet.server().session().await.ok();
                }
                if let Some(open) = &mut session {
                    let at_us = now_us();
                    match count(open).await {
                        Ok(live) => {
                            let of = scene::QUOTAS.iter().zip(live);
                            let of = of.map(|(quota, live)| QuotaCount::of(quota, at_us, live));
                            counted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(of);
                        }
                        Err(_) => session = None,
                    }
                }
                sleep(PAUSE).await;
            }
        });
        Self { counting, counts }
    }

    pub(crate) fn stop(self) -> Vec<QuotaCount> {
        self.counting.abort();
        std::mem::take(&mut *self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

async fn count(session: &mut PgConnection) -> Result<Vec<i64>, sqlx::Error> {
    let gates: Vec<_> = scene::QUOTAS.iter().map(|quota| quota.gate).collect();
    sqlx::query_scalar(COUNT).bind(gates).fetch_all(session).await
}
