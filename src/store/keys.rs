//! API keys: made, listed and revoked by operators, followed by nodes.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::FromRow;

use super::Store;
use crate::{
    api_key::{ApiKey, KeyHash, Scope},
    error::StoreError,
};

/// A key that was made.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct CreatedKey {
    /// False when just this key was there already.
    pub created: bool,
    /// Whose requests it submits and sees.
    pub submitter: String,
}

/// A key that has ended.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct RevokedKey {
    /// False when it had been revoked before.
    pub revoked: bool,
    /// What people call it.
    pub name: String,
    /// When it ended.
    pub revoked_at: DateTime<Utc>,
}

/// One row of `key_list`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct ListedKey {
    /// Which key it is.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// Whose requests it submits and sees.
    pub submitter: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// The database user who made it.
    pub created_by: String,
    /// When it ended, if it has.
    pub revoked_at: Option<DateTime<Utc>>,
    /// The database user who ended it.
    pub revoked_by: Option<String>,
}

/// What a node knows of a key.
#[derive(Debug, Clone)]
pub struct KeyChange {
    /// Which change it was, in the order of commits.
    pub version: i64,
    /// Which key.
    pub id: String,
    /// The hash of the key.
    pub hash: KeyHash,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Whose requests it submits and sees.
    pub submitter: String,
    /// Whether it has ended.
    pub revoked: bool,
}

#[derive(FromRow)]
struct KeyChangeRow {
    version: i64,
    id: String,
    secret_hash: Vec<u8>,
    scopes: Vec<String>,
    submitter: String,
    revoked: bool,
}

impl TryFrom<KeyChangeRow> for KeyChange {
    type Error = StoreError;

    fn try_from(row: KeyChangeRow) -> Result<Self, StoreError> {
        let strange = |what: String| StoreError::NotMigrated(format!("API key {}: {what}", row.id));
        let hash = row.secret_hash.try_into().map(KeyHash);
        Ok(Self {
            version: row.version,
            hash: hash.map_err(|_| strange("its hash has another length".to_owned()))?,
            scopes: row
                .scopes
                .iter()
                .map(|word| word.parse())
                .collect::<Result<_, _>>()
                .map_err(|error: crate::request::UnknownWord| strange(error.to_string()))?,
            submitter: row.submitter,
            revoked: row.revoked,
            id: row.id,
        })
    }
}

impl Store {
    /// Makes an API key known: `tidegate.key_create`. Without `submitter`, the name is the submitter.
    ///
    /// # Errors
    ///
    /// A name that a live key has, an id that is taken, names and scopes that make no sense, database trouble.
    pub async fn key_create(
        &self,
        key: &ApiKey,
        name: &str,
        scopes: &[Scope],
        submitter: Option<&str>,
    ) -> Result<CreatedKey, StoreError> {
        let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
        Ok(ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/key_create.sql"))
                .bind(key.id())
                .bind(name)
                .bind(key.hash().0.as_slice())
                .bind(scopes)
                .bind(submitter),
            fetch_one
        ))
    }

    /// Ends an API key: `tidegate.key_revoke`.
    ///
    /// # Errors
    ///
    /// Unknown id, database trouble.
    pub async fn key_revoke(&self, id: &str) -> Result<RevokedKey, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/key_revoke.sql")).bind(id),
            fetch_one
        ))
    }

    /// Every API key ever made, live ones first.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn key_list(&self) -> Result<Vec<ListedKey>, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/key_list.sql")),
            fetch_all
        ))
    }

    /// The keys that changed after a version, in order, at most `batch` of them: `tidegate.key_changes`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn key_changes(&self, after: i64, batch: i32) -> Result<Vec<KeyChange>, StoreError> {
        let rows: Vec<KeyChangeRow> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/key_changes.sql"))
                .bind(after)
                .bind(batch),
            fetch_all
        );
        rows.into_iter().map(TryInto::try_into).collect()
    }
}
