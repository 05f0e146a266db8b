//! API keys: made, listed and revoked by operators, followed by nodes.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::FromRow;

use super::Store;
use crate::{
    api_key::{ApiKey, KeyHash, Scope},
    error::Result,
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/keys.sql");

/// A key that was made.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct CreatedKey {
    /// False when just this key was there already.
    pub created: bool,
    /// The submitter of the requests that it submits and reads.
    pub submitter: String,
}

/// A key that has ended.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct RevokedKey {
    /// False when it had been revoked before.
    pub revoked: bool,
    /// Its name.
    pub name: String,
    /// When it ended.
    pub revoked_at: DateTime<Utc>,
}

/// One row of `key_list`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct ListedKey {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// The submitter of the requests that it submits and reads.
    pub submitter: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// The database user that made it.
    pub created_by: String,
    /// When it ended, if it has.
    pub revoked_at: Option<DateTime<Utc>>,
    /// The database user that revoked it.
    pub revoked_by: Option<String>,
}

/// A key, as nodes copy it.
#[derive(Debug, Clone, FromRow)]
pub struct KeyChange {
    /// Which change it was, in the order of commits.
    pub version: i64,
    /// Its id.
    pub id: String,
    /// The hash of the key.
    #[sqlx(rename = "secret_hash")]
    pub hash: KeyHash,
    /// Its scopes.
    pub scopes: Vec<Scope>,
    /// The submitter of the requests that it submits and reads.
    pub submitter: String,
    /// Whether it has ended.
    pub revoked: bool,
}

impl Store {
    /// Makes an API key known: `tidegate.key_create`. Without `submitter`, the name is the submitter.
    ///
    /// # Errors
    ///
    /// A name that a live key has, an id that is taken, invalid names or scopes, a database error.
    pub async fn key_create(
        &self,
        key: &ApiKey,
        name: &str,
        scopes: &[Scope],
        submitter: Option<&str>,
    ) -> Result<CreatedKey> {
        let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
        run!(self, fetch_one query_as "key_create"(key.id(), name, key.hash().0.as_slice(), scopes, submitter))
    }

    /// Ends an API key: `tidegate.key_revoke`.
    ///
    /// # Errors
    ///
    /// Unknown id, a database error.
    pub async fn key_revoke(&self, id: &str) -> Result<RevokedKey> {
        run!(self, fetch_one query_as "key_revoke"(id))
    }

    /// Every API key ever made, live ones first.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn key_list(&self) -> Result<Vec<ListedKey>> {
        run!(self, fetch_all query_as "key_list"())
    }

    /// The keys that changed after a version, in order, at most `batch` of them: `tidegate.key_changes`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn key_changes(&self, after: i64, batch: i32) -> Result<Vec<KeyChange>> {
        run!(self, fetch_all query_as "key_changes"(after, batch))
    }
}
