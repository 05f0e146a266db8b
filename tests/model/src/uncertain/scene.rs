//! What a run is about: the semantics, the downstream, how much may happen, and what is wrong.

use super::state::{Left, State};

/// A way in which the engine could be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// A key is free when its request fails, executed or not.
    KeyFreedAtEnd,
    /// A live request does not hold its key when the window has passed.
    WindowOverLive,
    /// The window of an unresolved request counts from its acceptance, not from its end.
    WindowFromAcceptance,
    /// A submission that the gate refuses leaves no row of its key, although it has replaced one.
    KeyDropped,
    /// A retry puts a request back after a cancel.
    RetryForgetsCancel,
    /// A lost request is claimed again after a cancel.
    LossForgetsCancel,
    /// A release puts a request back after a cancel.
    ReleaseForgetsCancel,
    /// A hedge begins after a cancel.
    HedgeForgetsCancel,
    /// A retry puts a request back after a cancel, and no claim takes it any more.
    ClaimLeavesCancelled,
    /// An error is retryable by its code, whatever was executed.
    RetryableByCode,
    /// The repeat of an unresolved request is retryable when only its own sends had no effect, and a repeated request
    /// when it is resolved.
    RepeatRetryable,
    /// A search that finds nothing counts as *never*.
    NotFoundAsNever,
    /// A refusal shows that nothing was executed, although an earlier attempt may have been.
    RefusalAfterLoss,
    /// It does, although the other call of a hedged attempt may have been.
    RefusalOfHedged,
    /// A late settle with a response is dropped when an operator has resolved the request.
    LateAfterWord,
    /// A settle that arrives twice counts twice.
    SettleCountsTwice,
    /// A repeat sends its own id.
    OwnSendId,
    /// A repeat of a repeat that was not executed sends its own id.
    SendIdOnce,
    /// A redrive takes a request whose key stands for a later one.
    RedriveAfterRepeat,
}

/// The model's parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) attempts: u8,
    pub(super) at_most_once: bool,
    /// Whether the downstream executes the sends with one id once.
    pub(super) recognises: bool,
    /// Whether the caller repeats under a new key, when an error is retryable; else under the first one, at any time.
    pub(super) renews: bool,
    pub(super) left: Left,
    pub(super) bug: Option<Bug>,
}

impl Scene {
    pub(super) fn start(&self) -> State {
        State { left: self.left, ..State::default() }
    }

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}
