//! What a watcher says while it cannot read.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tidegate_fhevm_stand_ins::rpc_proxy::{Fault, Rule};
use tracing::{Event, Level, Metadata, Subscriber, span};

use super::scene::{Recorder, Scene};
use crate::support::eventually;

/// Counts what watchers say: what operators see, and all of it.
#[derive(Clone, Default)]
struct Log {
    warnings: Arc<AtomicU64>,
    all: Arc<AtomicU64>,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tidegate_evm::watcher"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        self.all.fetch_add(1, Relaxed);
        if *event.metadata().level() <= Level::WARN {
            self.warnings.fetch_add(1, Relaxed);
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn a_watcher_that_cannot_read_says_so_once_and_then_once_a_minute() {
    let scene = Scene::new().await;
    let log = Log::default();
    let _log = tracing::subscriber::set_default(log.clone());
    scene.block(1).await;
    let _watching = scene.watch(1, scene.options(), &Recorder::default());
    scene.caught_up().await;
    assert_eq!(log.all.load(Relaxed), 0);
    for endpoint in [&scene.first, &scene.second] {
        endpoint.add(Rule::new("eth_getLogs", Fault::Refuse(-32000, "not now")));
    }
    scene.block(1).await;
    for (minute, warnings) in [(0, 1), (1, 2), (2, 3)] {
        let before = log.all.load(Relaxed);
        eventually("it has tried ten times", || async { log.all.load(Relaxed) >= before + 10 }).await;
        assert_eq!(log.warnings.load(Relaxed), warnings, "after {minute} minutes");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(61)).await;
        tokio::time::resume();
    }
    for endpoint in [&scene.first, &scene.second] {
        endpoint.clear();
    }
    scene.caught_up().await;
}
