//! Gives signed transactions to the chain.

use alloy::primitives::{B256, Bytes};
use futures_util::{StreamExt, stream};

use crate::{
    Chain, SendAnswer,
    failpoint::{self, Step},
    store::Store,
};

/// How many sends are under way at once. They begin in the order of their nonces; a node keeps one that arrives before
/// its predecessor for a moment.
const AT_ONCE: usize = 8;

/// Which endpoints get transactions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    /// The first one that answers.
    One,
    /// All: the one that took them the last time may have dropped them.
    All,
}

/// Sends transactions in the order given, which is that of their nonces, and records the answers.
pub(crate) async fn broadcast(
    chain: &Chain,
    store: &Store,
    signed: Vec<(B256, Bytes)>,
    reach: Reach,
) -> Vec<(B256, SendAnswer)> {
    let sends = signed.into_iter().map(|(hash, raw)| async move {
        let answer = match reach {
            Reach::One => chain.send_raw(&raw).await,
            Reach::All => chain.send_raw_everywhere(&raw).await,
        };
        (hash, answer)
    });
    let answers: Vec<_> = stream::iter(sends).buffered(AT_ONCE).collect().await;
    for (hash, answer) in answers.iter().filter(|(_, answer)| !answer.message.is_empty()) {
        tracing::debug!(%hash, class = answer.class.name(), answer.message, "a transaction was not taken");
    }
    failpoint::reached(Step::Sent);
    let words: Vec<_> = answers.iter().map(|(hash, answer)| (*hash, answer.class.name())).collect();
    // The keeper sends again what is not recorded as sent.
    if let Err(error) = store.note_sent(&words).await {
        tracing::warn!(%error, "the sending of {} transactions was not recorded", words.len());
    }
    answers
}
