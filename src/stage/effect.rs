//! Effects in the database, exactly once.

use std::future::Future;

use sqlx::PgConnection;

use super::{Pending, Receipt, Transact, payload::Typed};
use crate::request::Request;

/// A [`Transact`] stage whose receipts have an effect in Tidegate's own database, in tables of the embedder's.
///
/// The effect commits with the settle of the receipt, or neither does: it is there exactly once for each request whose
/// receipt is stored, however many workers are killed and however often the request is sent. Given to the engine by
/// [`Stages::transact_with_effect`](super::Stages::transact_with_effect).
pub trait Effect: Transact {
    /// Writes the effect of one receipt, in the transaction that settles it.
    ///
    /// Called only for a request that this settle has moved, and for the requests of a batch in the order of their
    /// messages. Run statements on `transaction`, and neither commit it nor roll it back. The requests of the batch and
    /// their messages are locked meanwhile, so be brief: a batch that takes longer than a quarter of the lease fails.
    ///
    /// # Errors
    ///
    /// Then nothing is settled, and the request is tried again with the error `effect_failed`, as its policy allows:
    /// [`Transact::find_receipt`] finds its receipt, and the effect is written again. Other requests are not affected.
    fn write(
        &self,
        transaction: &mut PgConnection,
        request: &Request<Self::Payload>,
        receipt: &Receipt,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// [`Effect`] behind a pointer.
pub(crate) trait AnyEffect: Send + Sync {
    fn write<'a>(
        &'a self,
        transaction: &'a mut PgConnection,
        request: &'a Request,
        receipt: &'a Receipt,
    ) -> Pending<'a, Result<(), sqlx::Error>>;
}

impl<S: Effect> AnyEffect for S {
    fn write<'a>(
        &'a self,
        transaction: &'a mut PgConnection,
        request: &'a Request,
        receipt: &'a Receipt,
    ) -> Pending<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            let request = Typed::of(request).map_err(|error| sqlx::Error::Decode(error.message.into()))?;
            Effect::write(self, transaction, &request, receipt).await
        })
    }
}
