//! Points in time as operators write them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tidegate::internals::{error::Result, store::Store};

/// A point in time, or a time before now.
#[derive(Debug, Clone, Copy)]
pub(super) enum Since {
    At(DateTime<Utc>),
    Ago(Duration),
}

impl Since {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let at = DateTime::parse_from_rfc3339(text).map(|at| Self::At(at.into()));
        at.or_else(|_| humantime::parse_duration(text).map(Self::Ago))
            .map_err(|_| "neither a time such as 2026-11-20T08:00:00Z nor a length such as 2h")
    }

    /// The point in time, if there is one, by the database's clock.
    pub(super) async fn resolve(since: Option<Self>, store: &Store) -> Result<Option<DateTime<Utc>>> {
        Ok(match since {
            Some(since) => Some(since.at(store).await?),
            None => None,
        })
    }

    /// The point in time, by the database's clock.
    pub(super) async fn at(self, store: &Store) -> Result<DateTime<Utc>> {
        match self {
            Self::Ago(ago) => store.time_ago(ago).await,
            Self::At(at) => Ok(at),
        }
    }
}
