//! Announcements of requests that have moved, and reads of those that did.

use sqlx::{FromRow, Row, postgres::PgRow};
use uuid::Uuid;

use super::{Outlook, Store};
use crate::{
    error::Result,
    request::{RequestId, Status},
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/news.sql");

/// A request that is no longer where it was last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The request.
    pub id: RequestId,
    /// The number of its latest transition and its status; `None` when the request was deleted.
    pub at: Option<(i32, Status)>,
}

/// Where a request stands, and how it came there.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The number of its latest transition.
    pub transition_no: i32,
    /// The transitions between the one that was known and the latest, by number, with the statuses they led to.
    pub missed: Vec<(i32, Status)>,
    /// Everything that a poll answers.
    pub outlook: Outlook,
}

impl FromRow<'_, PgRow> for Progress {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let (numbers, statuses): (Vec<i32>, Vec<Status>) = (row.try_get("transition_nos")?, row.try_get("statuses")?);
        Ok(Self {
            transition_no: row.try_get("transition_no")?,
            missed: numbers.into_iter().zip(statuses).collect(),
            outlook: Outlook::from_row(row)?,
        })
    }
}

impl Store {
    /// Subscribes this session to announcements, of ends or of all moves: `tidegate.watch`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn watch(&self, moves: bool) -> Result<()> {
        run!(self, execute query "watch"(moves)).map(|_| ())
    }

    /// Sends an empty notification on a channel.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn notify(&self, channel: &str) -> Result<()> {
        run!(self, execute query "notify"(channel)).map(|_| ())
    }

    /// Announces requests that ended, and those that only moved: `tidegate.announce`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn announce(&self, ended: &[RequestId], moved: &[RequestId]) -> Result<()> {
        let uuids = |ids: &[RequestId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
        run!(self, execute query "announce"(uuids(ended), uuids(moved))).map(|_| ())
    }

    /// Which of these requests have another transition number than the one known, if one is: `tidegate.moved_since`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn moved_since(&self, known: &[(RequestId, Option<i32>)]) -> Result<Vec<Seen>> {
        let (ids, numbers) = columns(known);
        let rows: Vec<(RequestId, Option<i32>, Option<Status>)> =
            run!(self, fetch_all query_as "moved_since"(ids, numbers))?;
        let seen = |(id, number, status): (_, Option<_>, _)| Seen { id, at: number.zip(status) };
        Ok(rows.into_iter().map(seen).collect())
    }

    /// Where these requests stand, in one statement: an answer for each, `None` for an unknown id.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn progress(&self, known: &[(RequestId, Option<i32>)]) -> Result<Vec<Option<Progress>>> {
        let (ids, numbers) = columns(known);
        let rows: Vec<PgRow> = run!(self, fetch_all query "request_progress"(ids, numbers))?;
        let mut answers: Vec<_> = known.iter().map(|_| None).collect();
        for row in rows {
            let asked = usize::try_from(row.try_get::<i32, _>("asked")?).unwrap_or(usize::MAX);
            if let Some(answer) = answers.get_mut(asked) {
                *answer = Some(Progress::from_row(&row)?);
            }
        }
        Ok(answers)
    }
}

/// The ids and the known numbers, as two arrays.
fn columns(known: &[(RequestId, Option<i32>)]) -> (Vec<Uuid>, Vec<Option<i32>>) {
    known.iter().map(|(id, number)| (id.0, *number)).unzip()
}
