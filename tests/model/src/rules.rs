//! The state machine, written down once more from the specification: what is not listed here is illegal.

/// Which statuses a request passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Flow {
    Decrypt,
    Proof,
    Direct,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Status {
    Queued,
    Processing,
    TxInFlight,
    ReceiptReceived,
    Completed,
    TimedOut,
    Failure,
}

impl Status {
    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::TimedOut | Self::Failure)
    }
}

/// Why a request moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cause {
    Submitted,
    ReadinessPassed,
    ReadinessTimedOut,
    ReadinessFailed,
    Cancelled,
    DeadlineExceeded,
    Claimed,
    Recovered,
    Released,
    SendRetried,
    Receipt,
    Rejected,
    OutcomeUnknown,
    AttemptsExhausted,
    Response,
    VerdictAccepted,
    VerdictRejected,
    ResponseTimedOut,
}

/// Whether a request of this flow may go from one status to another for this cause; from none when it is submitted.
pub(crate) fn is_legal(flow: Flow, from: Option<Status>, to: Status, cause: Cause) -> bool {
    use Status::{Completed, Failure, Processing, Queued, ReceiptReceived, TimedOut, TxInFlight};
    match (from, to) {
        (None, Queued) => flow == Flow::Decrypt && cause == Cause::Submitted,
        (None, Processing) => flow != Flow::Decrypt && cause == Cause::Submitted,
        (Some(Queued), _) if flow != Flow::Decrypt => false,
        (Some(Queued), Processing) => cause == Cause::ReadinessPassed,
        (Some(Queued), TimedOut) => cause == Cause::ReadinessTimedOut,
        (Some(Queued), Failure) => matches!(cause, Cause::ReadinessFailed | Cause::Cancelled | Cause::DeadlineExceeded),
        (Some(Processing), TxInFlight) => cause == Cause::Claimed,
        (Some(Processing), Failure) => {
            matches!(cause, Cause::Cancelled | Cause::DeadlineExceeded | Cause::AttemptsExhausted)
        }
        (Some(TxInFlight), Processing) => matches!(cause, Cause::Recovered | Cause::SendRetried | Cause::Released),
        (Some(TxInFlight), ReceiptReceived) => cause == Cause::Receipt,
        (Some(TxInFlight), Completed) => flow == Flow::Direct && cause == Cause::Receipt,
        (Some(TxInFlight), Failure) => matches!(
            cause,
            Cause::Rejected | Cause::OutcomeUnknown | Cause::DeadlineExceeded | Cause::AttemptsExhausted
        ),
        (Some(ReceiptReceived), Completed) => {
            cause == if flow == Flow::Proof { Cause::VerdictAccepted } else { Cause::Response }
        }
        (Some(ReceiptReceived), Failure) => match cause {
            Cause::Rejected => true,
            Cause::VerdictRejected => flow == Flow::Proof,
            _ => false,
        },
        (Some(ReceiptReceived), TimedOut) => cause == Cause::ResponseTimedOut,
        _ => false,
    }
}
