//! What came of a call of the service.

use std::{fmt, time::Duration};

use reqwest::{StatusCode, header::HeaderMap};

/// The service's answer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Result<Vec<u8>, Unread>,
}

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is longer than this many bytes.
    TooLong(usize),
    /// The connection broke.
    BrokeOff,
    /// It did not end in time.
    TooSlow(Limit),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(limit) => write!(f, "is longer than the {limit} bytes of --max-response-bytes"),
            Self::BrokeOff => f.write_str("broke off"),
            Self::TooSlow(limit) => write!(f, "did not end in time: cut by {limit}"),
        }
    }
}

/// A limit on a part of a call, and where it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) time: Duration,
    /// The option, or the setting of the policy.
    pub(super) name: &'static str,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, name } = self;
        if name.starts_with("--") {
            write!(f, "{name} {}", humantime::format_duration(*time))
        } else {
            write!(f, "{name} = {} of the policy", time.as_millis())
        }
    }
}
