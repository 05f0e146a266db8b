//! Searches for the receipts of requests that have ended and may have been executed, and asks for the responses of
//! requests that await one.

use std::sync::Arc;

use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{outcome::caught, shared::Shared};
use crate::{
    error::{StoreError, warn_of},
    request::{JsonText, Request, RequestError, Stage},
    stage::{Asked, Found, Receipt},
    store::{Ask, Response, Search},
};

/// How many searches a worker makes at once, and how many asks.
const AT_ONCE: usize = 16;

/// Searches until `end`. A search that is cut off is made again: its next time is in the database.
pub(super) async fn run(shared: Arc<Shared>, end: CancellationToken) {
    let kinds = shared.stages.kinds(Stage::Tx);
    let asking = shared.stages.asking();
    let claim = |room| shared.store.search_claim(&kinds, room);
    let searches = make(&shared, "requests whose receipts are to be searched for", !kinds.is_empty(), claim, one);
    let claim = |room| shared.store.ask_claim(&asking, room);
    let asks = make(&shared, "requests whose responses are to be asked for", !asking.is_empty(), claim, ask);
    end.run_until_cancelled(async { tokio::join!(searches, asks) }).await;
}

/// Claims what is due, if there may be any, and makes these calls, some at once.
async fn make<T, C, D>(
    shared: &Arc<Shared>,
    what: &str,
    is_needed: bool,
    claim: impl Fn(usize) -> C,
    call: impl Fn(Arc<Shared>, T) -> D,
) where
    C: Future<Output = Result<Vec<T>, StoreError>>,
    D: Future<Output = ()> + Send + 'static,
{
    if !is_needed {
        return;
    }
    let mut calls = JoinSet::new();
    let mut failing = false;
    loop {
        let room = AT_ONCE - calls.len();
        let due = claim(room).await;
        if let Err(error) = &due
            && !failing
        {
            // Logged once, not every time.
            warn_of!(error, "cannot claim {what}");
        }
        failing = due.is_err();
        let due = due.unwrap_or_default();
        let may_be_more = due.len() == room;
        for due in due {
            calls.spawn(call(Arc::clone(shared), due));
        }
        if may_be_more {
            calls.join_next().await;
        } else {
            tokio::time::sleep(shared.options.poll).await;
        }
        while calls.try_join_next().is_some() {}
    }
}

async fn one(shared: Arc<Shared>, search: Search) {
    let Search { request, timeout: limit } = search;
    let Some(stage) = shared.stages.transact.get(&request.kind) else {
        return;
    };
    // Cancels tasks that the stage has spawned.
    let _over = request.cancellation.clone().drop_guard();
    let found = timeout(limit, caught(async { stage.sends.find_receipt(&request).await })).await;
    match found {
        Ok(Ok(Ok(Found::Receipt(receipt)))) => settle(&shared, &request, Some(&receipt)).await,
        Ok(Ok(Ok(Found::Never))) => settle(&shared, &request, None).await,
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

async fn ask(shared: Arc<Shared>, ask: Ask) {
    let Search { request, timeout: limit } = ask.of;
    let Some(stage) = shared.stages.transact.get(&request.kind) else {
        return;
    };
    let _over = request.cancellation.clone().drop_guard();
    let asked = timeout(limit, caught(stage.sends.ask(&request, ask.reference.as_deref()))).await;
    let answered = match asked {
        Ok(Ok(Asked::Response(response))) => respond(&shared, &request, response).await,
        Ok(Ok(Asked::Failed(error))) => fail(&shared, &request, &error).await,
        Ok(Ok(Asked::Later { after })) => shared.store.ask_settle(request.id, after).await,
        Ok(Err(error)) => {
            tracing::debug!(request.id = %request.id, ?error, "failed to ask for a response");
            shared.store.ask_settle(request.id, None).await
        }
        Err(_) => {
            tracing::debug!(request.id = %request.id, ?limit, "the ask for a response took too long");
            shared.store.ask_settle(request.id, None).await
        }
    };
    if let Err(error) = answered {
        // It is asked for again after the time limit of this ask.
        tracing::warn!(request.id = %request.id, %error, "cannot store what an ask for a response has found");
    }
}

async fn respond(shared: &Shared, request: &Request, response: JsonText) -> Result<(), StoreError> {
    let response = Response { id: Some(request.id), reference: None, part: None, accept: None, response };
    let responded = shared.store.respond(&response).await?;
    tracing::debug!(request.id = %request.id, outcome = responded.outcome, "asked for a response");
    Ok(())
}

async fn fail(shared: &Shared, request: &Request, error: &RequestError) -> Result<(), StoreError> {
    shared.store.fail_receipt(Some(request.id), None, error).await?;
    tracing::debug!(request.id = %request.id, error.code, "asked for a response that will not come");
    Ok(())
}
