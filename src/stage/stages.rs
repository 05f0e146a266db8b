//! The stages of a worker, by kind.

use std::{collections::BTreeMap, sync::Arc};

use serde::de::DeserializeOwned;

use super::{AnyReadiness, AnyTransact, Check, Effect, Readiness, Sent, Transact, closure::Closure, effect::AnyEffect};
use crate::request::{Request, Stage};

/// A tx stage, and the writer of its effects if it has any.
#[derive(Clone)]
pub(crate) struct TransactStage {
    pub(crate) sends: Arc<dyn AnyTransact>,
    pub(crate) effects: Option<Arc<dyn AnyEffect>>,
}

/// The stages a worker runs, by kind.
///
/// A worker takes the kinds that it has stages for, and leaves the others in its queues to other workers.
#[derive(Clone, Default)]
pub struct Stages {
    pub(crate) readiness: BTreeMap<String, Arc<dyn AnyReadiness>>,
    pub(crate) transact: BTreeMap<String, TransactStage>,
}

impl Stages {
    /// No stages yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `stage` for the readiness checks of `kind`.
    #[must_use]
    pub fn readiness(mut self, kind: impl Into<String>, stage: impl Readiness) -> Self {
        self.readiness.insert(kind.into(), Arc::new(stage));
        self
    }

    /// Runs `stage` for the sends of `kind`.
    #[must_use]
    pub fn transact(self, kind: impl Into<String>, stage: impl Transact) -> Self {
        self.insert(kind.into(), Arc::new(stage), None)
    }

    /// Runs a closure for the readiness checks of `kind`, as [`Readiness::check`].
    #[must_use]
    pub fn check<P, F, R>(mut self, kind: impl Into<String>, check: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(Request<P>) -> R + Send + Sync + 'static,
        R: Future<Output = Check> + Send + 'static,
    {
        self.readiness.insert(kind.into(), Arc::new(Closure::new(check)));
        self
    }

    /// Runs a closure for the sends of `kind`, as [`Transact::send`]. It finds no receipts of earlier attempts.
    #[must_use]
    pub fn send<P, F, R>(self, kind: impl Into<String>, send: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(Request<P>) -> R + Send + Sync + 'static,
        R: Future<Output = Sent> + Send + 'static,
    {
        self.insert(kind.into(), Arc::new(Closure::new(send)), None)
    }

    /// Runs `stage` for the sends of `kind`, and commits each receipt together with its effect.
    #[must_use]
    pub fn transact_with_effect(self, kind: impl Into<String>, stage: impl Effect) -> Self {
        let stage = Arc::new(stage);
        self.insert(kind.into(), stage.clone(), Some(stage))
    }

    fn insert(mut self, kind: String, sends: Arc<dyn AnyTransact>, effects: Option<Arc<dyn AnyEffect>>) -> Self {
        self.transact.insert(kind, TransactStage { sends, effects });
        self
    }

    /// The kinds that have one.
    pub(crate) fn kinds(&self, stage: Stage) -> Vec<String> {
        match stage {
            Stage::Readiness => self.readiness.keys().cloned().collect(),
            Stage::Tx => self.transact.keys().cloned().collect(),
        }
    }

    /// The kinds whose stage asks for responses.
    pub(crate) fn asking(&self) -> Vec<String> {
        let asking = self.transact.iter().filter(|(_, stage)| stage.sends.asks());
        asking.map(|(kind, _)| kind.clone()).collect()
    }

    /// Whether each receipt of a kind commits together with its effect.
    pub(crate) fn has_effect(&self, kind: &str) -> bool {
        let stage = self.transact.get(kind);
        stage.is_some_and(|stage| stage.effects.is_some())
    }
}

impl std::fmt::Debug for Stages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stages")
            .field("readiness", &self.readiness.keys().collect::<Vec<_>>())
            .field("transact", &self.transact.keys().collect::<Vec<_>>())
            .finish()
    }
}
