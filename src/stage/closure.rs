//! Stages that are closures: they take the request itself, with its payload parsed.

use std::{future::ready, marker::PhantomData};

use serde::de::DeserializeOwned;

use super::{AnyReadiness, AnyTransact, Check, Found, Pending, Sent, payload::parsed};
use crate::request::{Request, RequestError};

/// A readiness check or a send by a closure that takes requests with payload `P`.
pub(super) struct Closure<F, P>(F, PhantomData<fn(P)>);

impl<F, P> Closure<F, P> {
    pub(super) const fn new(closure: F) -> Self {
        Self(closure, PhantomData)
    }
}

impl<F, P, R> AnyReadiness for Closure<F, P>
where
    P: DeserializeOwned + Send,
    F: Fn(Request<P>) -> R + Send + Sync,
    R: Future<Output = Check> + Send + 'static,
{
    fn check<'a>(&'a self, request: &'a Request) -> Pending<'a, Check> {
        match parsed(request) {
            Ok(request) => Box::pin((self.0)(request)),
            Err(error) => Box::pin(ready(Check::Failed(error))),
        }
    }
}

impl<F, P, R> AnyTransact for Closure<F, P>
where
    P: DeserializeOwned + Send,
    F: Fn(Request<P>) -> R + Send + Sync,
    R: Future<Output = Sent> + Send + 'static,
{
    fn send<'a>(&'a self, request: &'a Request) -> Pending<'a, Sent> {
        match parsed(request) {
            Ok(request) => Box::pin((self.0)(request)),
            Err(error) => Box::pin(ready(Sent::Rejected(error))),
        }
    }

    fn find_receipt<'a>(&'a self, _: &'a Request) -> Pending<'a, Result<Found, RequestError>> {
        Box::pin(ready(Ok(Found::Nothing)))
    }
}
