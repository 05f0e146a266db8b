//! What the tests of this crate share.

use std::time::Duration;

use super::{Class, Failure};

pub(crate) const fn milliseconds(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// A failure with or without a code and a `Retry-After`.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{}", .class.name())]
pub(crate) struct TestError {
    pub(crate) class: Class,
    pub(crate) code: &'static str,
    pub(crate) retry_after: Option<Duration>,
}

impl TestError {
    pub(crate) const fn new(class: Class, code: &'static str) -> Self {
        Self { class, code, retry_after: None }
    }

    pub(crate) const fn after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }
}

impl Failure for TestError {
    fn class(&self) -> Class {
        self.class
    }

    fn code(&self) -> &str {
        self.code
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}
