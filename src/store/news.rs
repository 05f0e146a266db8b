//! Telling, and asking, which requests have moved.

use sqlx::FromRow;
use uuid::Uuid;

use super::{Outlook, Store, outlooks::OutlookRow, words::decode};
use crate::{
    error::StoreError,
    request::{RequestId, Status},
};

/// A request that is no longer where it was last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The request.
    pub id: RequestId,
    /// The number of its latest transition and its status; `None` when the request is gone.
    pub at: Option<(i32, Status)>,
}

/// Where a request stands, and how it came there.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The number of its latest transition.
    pub transition_no: i32,
    /// The transitions between the one that was known and the latest, by number, with the statuses they led to.
    pub missed: Vec<(i32, Status)>,
    /// All that a poll tells.
    pub outlook: Outlook,
}

#[derive(FromRow)]
struct ProgressRow {
    asked: i32,
    transition_no: i32,
    transition_nos: Vec<i32>,
    statuses: Vec<String>,
    #[sqlx(flatten)]
    outlook: OutlookRow,
}

impl TryFrom<ProgressRow> for Progress {
    type Error = StoreError;

    fn try_from(row: ProgressRow) -> Result<Self, StoreError> {
        let statuses = row.statuses.into_iter().map(decode);
        let missed = row.transition_nos.into_iter().zip(statuses);
        Ok(Self {
            transition_no: row.transition_no,
            missed: missed
                .map(|(number, status)| Ok((number, status?)))
                .collect::<Result<_, StoreError>>()?,
            outlook: row.outlook.try_into()?,
        })
    }
}

impl Store {
    /// Asks for announcements, of ends or of all moves: `tidegate.watch`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn watch(&self, moves: bool) -> Result<(), StoreError> {
        ask!(
            self,
            sqlx::query(include_str!("../../sql/queries/watch.sql")).bind(moves),
            execute
        );
        Ok(())
    }

    /// Says something, though nothing in particular, on a channel.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn notify(&self, channel: &str) -> Result<(), StoreError> {
        ask!(
            self,
            sqlx::query(include_str!("../../sql/queries/notify.sql")).bind(channel),
            execute
        );
        Ok(())
    }

    /// Announces requests that ended, and those that only moved: `tidegate.announce`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn announce(&self, ended: &[RequestId], moved: &[RequestId]) -> Result<(), StoreError> {
        ask!(
            self,
            sqlx::query(include_str!("../../sql/queries/announce.sql"))
                .bind(uuids(ended.iter()))
                .bind(uuids(moved.iter())),
            execute
        );
        Ok(())
    }

    /// Which of these requests have another transition number than the one known, if one is: `tidegate.moved_since`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn moved_since(&self, known: &[(RequestId, Option<i32>)]) -> Result<Vec<Seen>, StoreError> {
        let numbers: Vec<_> = known.iter().map(|(_, number)| *number).collect();
        let rows: Vec<(Uuid, Option<i32>, Option<String>)> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/moved_since.sql"))
                .bind(uuids(known.iter().map(|(id, _)| id)))
                .bind(numbers),
            fetch_all
        );
        rows.into_iter()
            .map(|(id, number, status)| {
                Ok(Seen {
                    id: RequestId(id),
                    at: number.zip(status.map(decode).transpose()?),
                })
            })
            .collect()
    }

    /// Where these requests stand, in one statement: an answer for each, `None` for an unknown id.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn progress(&self, known: &[(RequestId, Option<i32>)]) -> Result<Vec<Option<Progress>>, StoreError> {
        let numbers: Vec<_> = known.iter().map(|(_, number)| *number).collect();
        let rows: Vec<ProgressRow> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/request_progress.sql"))
                .bind(uuids(known.iter().map(|(id, _)| id)))
                .bind(numbers),
            fetch_all
        );
        let mut answers: Vec<_> = known.iter().map(|_| None).collect();
        for row in rows {
            let asked = usize::try_from(row.asked).unwrap_or(usize::MAX);
            if let Some(answer) = answers.get_mut(asked) {
                *answer = Some(row.try_into()?);
            }
        }
        Ok(answers)
    }
}

fn uuids<'a>(ids: impl Iterator<Item = &'a RequestId>) -> Vec<Uuid> {
    ids.map(|id| id.0).collect()
}
