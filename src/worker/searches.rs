//! Searches for the receipts of requests that have ended and may have been executed.

use std::sync::Arc;

use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{Shared, outcome::caught};
use crate::{
    error::warn_of,
    request::{Request, Stage},
    stage::{Found, Receipt},
    store::Search,
};

/// How many searches a worker makes at once.
const AT_ONCE: usize = 16;

/// Searches until `end`. A search that is cut off is made again: its next time is in the database.
pub(super) async fn run(shared: Arc<Shared>, end: CancellationToken) {
    let kinds = shared.stages.kinds(Stage::Tx);
    if !kinds.is_empty() {
        end.run_until_cancelled(search(&shared, &kinds)).await;
    }
}

async fn search(shared: &Arc<Shared>, kinds: &[String]) {
    let mut searches = JoinSet::new();
    let mut failing = false;
    loop {
        let room = AT_ONCE - searches.len();
        let due = shared.store.search_claim(kinds, room).await;
        if let Err(error) = &due
            && !failing
        {
            // Logged once, not every time.
            warn_of!(error, "cannot claim requests whose receipts are to be searched for");
        }
        failing = due.is_err();
        let due = due.unwrap_or_default();
        let may_be_more = due.len() == room;
        for search in due {
            let shared = Arc::clone(shared);
            searches.spawn(async move { one(&shared, search).await });
        }
        if may_be_more {
            searches.join_next().await;
        } else {
            tokio::time::sleep(shared.options.poll).await;
        }
        while searches.try_join_next().is_some() {}
    }
}

async fn one(shared: &Shared, search: Search) {
    let Search {
        request,
        timeout: limit,
    } = search;
    let Some(stage) = shared.stages.transact.get(&request.kind) else {
        return;
    };
    // Cancels tasks that the stage has spawned.
    let _over = request.cancellation.clone().drop_guard();
    let found = timeout(limit, caught(async { stage.sends.find_receipt(&request).await })).await;
    match found {
        Ok(Ok(Ok(Found::Receipt(receipt)))) => settle(shared, &request, Some(&receipt)).await,
        Ok(Ok(Ok(Found::Never))) => settle(shared, &request, None).await,
        Ok(Ok(Ok(Found::Nothing))) => tracing::debug!(request.id = %request.id, "found no receipt"),
        Ok(Ok(Err(error)) | Err(error)) => {
            tracing::debug!(request.id = %request.id, ?error, "failed to search for a receipt");
        }
        Err(_) => tracing::debug!(request.id = %request.id, ?limit, "the search for a receipt took too long"),
    }
}

async fn settle(shared: &Shared, request: &Request, receipt: Option<&Receipt>) {
    match shared.store.search_settle(request.id, receipt).await {
        Ok(outcome) => tracing::info!(request.id = %request.id, outcome, "found what came of an ended request"),
        // The next search finds it again.
        Err(error) => tracing::warn!(request.id = %request.id, %error, "cannot store what a search has found"),
    }
}
