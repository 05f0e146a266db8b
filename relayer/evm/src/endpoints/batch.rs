//! Calls that share an HTTP call.

use futures_util::future::{join_all, try_join_all};
use serde_json::value::RawValue;

use super::{Chain, RpcCall, RpcError};
use crate::node_error::Class;

const CALLS_MAX: usize = 50;

const BYTES_MAX: usize = 1_000_000;

/// The results of calls, in their order.
pub(crate) type Results = Vec<Result<Box<RawValue>, RpcError>>;

impl Chain {
    /// Makes calls that read, many in one HTTP call, and returns their results in the same order.
    ///
    /// Each HTTP call goes to one endpoint, and to the next if that does not answer all of its calls; a revert is an
    /// answer.
    ///
    /// # Errors
    ///
    /// When no endpoint answers. If none answers all calls, the results hold what the first one refused.
    pub async fn batch(&self, calls: &[RpcCall]) -> Result<Results, RpcError> {
        let parts = parts(calls).into_iter().map(|part| self.batch_part(part));
        Ok(try_join_all(parts).await?.into_iter().flatten().collect())
    }

    /// One HTTP call; two halves if it is too large for every endpoint.
    async fn batch_part(&self, calls: &[RpcCall]) -> Result<Results, RpcError> {
        let mut incomplete = None;
        let complete = |_: &str, results: Results| {
            let mut errors = results.iter().filter_map(|result| result.as_ref().err());
            match errors.find(|error| error.class() != Class::Revert).cloned() {
                None => Ok(results),
                Some(error) => {
                    incomplete.get_or_insert(results);
                    Err(error)
                }
            }
        };
        let outcome = self.batch_if(calls, complete).await;
        match outcome.or_else(|error| incomplete.ok_or(error)) {
            Err(error) if error.class() == Class::Limited && calls.len() > 1 => {
                let (left, right) = calls.split_at(calls.len() / 2);
                let mut results = Box::pin(self.batch_part(left)).await?;
                results.extend(Box::pin(self.batch_part(right)).await?);
                Ok(results)
            }
            outcome => outcome,
        }
    }

    /// Makes calls that read in one HTTP call to each endpoint that may be asked, and returns the results of each.
    pub async fn batch_everywhere(&self, calls: &[RpcCall]) -> Vec<Result<Results, RpcError>> {
        let asked = self.endpoints.current().map(|endpoint| async {
            let answers = self.endpoints.post(endpoint, calls).await;
            endpoint.note(&answers);
            answers.inspect_err(|error| endpoint.count(error))
        });
        match join_all(asked).await {
            none if none.is_empty() => vec![Err(RpcError::NoEndpoint(self.id()))],
            answers => answers,
        }
    }

    /// Makes all calls in one HTTP call, on the first endpoint whose results `accept` takes. It gets the endpoint's name.
    pub(crate) async fn batch_if<T>(
        &self,
        calls: &[RpcCall],
        mut accept: impl FnMut(&str, Results) -> Result<T, RpcError>,
    ) -> Result<T, RpcError> {
        let mut last = RpcError::NoEndpoint(self.id());
        for endpoint in self.endpoints.current() {
            let answers = self.endpoints.post(endpoint, calls).await;
            endpoint.note(&answers);
            match answers.and_then(|results| accept(&endpoint.name, results)) {
                Ok(accepted) => return Ok(accepted),
                Err(error) => {
                    endpoint.count(&error);
                    last = error;
                }
            }
        }
        Err(last)
    }
}

fn parts(calls: &[RpcCall]) -> Vec<&[RpcCall]> {
    let mut parts = Vec::new();
    let mut rest = calls;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(CALLS_MAX).take_while(|call| {
            bytes += call.params.get().len() + 100;
            bytes <= BYTES_MAX
        });
        let (part, after) = rest.split_at(fits.count().max(1));
        parts.push(part);
        rest = after;
    }
    parts
}
