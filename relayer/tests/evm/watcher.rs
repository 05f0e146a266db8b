//! A watcher applies each log once, whatever the endpoints and the chain do.

mod log;
mod reorg;
pub mod scene;

use std::sync::atomic::Ordering::Relaxed;

use futures_util::future::join_all;
use tidegate::Tidegate;
use tidegate_evm::{WatchOptions, store::BlockId};
use tidegate_fhevm_stand_ins::rpc_proxy::{Fault, Rule};
use tokio_util::sync::CancellationToken;

use self::scene::{OTHER, Recorder, Scene};
use crate::support::eventually;

#[tokio::test]
async fn each_log_of_ours_is_applied_once_and_in_order() {
    let scene = Scene::new().await;
    scene.first.add(Rule::new("eth_getLogs", Fault::RepeatLogs));
    scene.first.add(Rule::new("eth_getLogs", Fault::Reverse));
    scene.emit(OTHER).await;
    scene.block(3).await;
    scene.block(0).await;
    scene.block(2).await;
    let recorder = Recorder::default();
    let _watching = scene.watch(1, scene.options(), &recorder);
    scene.caught_up().await;
    scene.block(2).await;
    scene.caught_up().await;
    assert_eq!(scene.applied().await.len(), 7);
    assert_eq!(recorder.pages.load(Relaxed), 2, "blocks that are there together are one page");
}

#[tokio::test]
async fn a_watcher_begins_at_the_newest_block() {
    let scene = Scene::new().await;
    scene.block(3).await;
    let options = WatchOptions { after: None, ..scene.options() };
    let _watching = scene.watch(1, options, &Recorder::default());
    eventually("it has begun", || async { scene.cursor().await == 1 }).await;
    scene.block(1).await;
    eventually("the next log is applied", || async { scene.applied().await == [(2, 3)] }).await;
}

#[tokio::test]
async fn an_endpoint_that_is_behind_does_not_hide_logs() {
    let scene = Scene::new().await;
    let recorder = Recorder::default();
    let _watching = scene.watch(1, scene.options(), &recorder);
    scene.block(1).await;
    scene.caught_up().await;
    // It has the number of the newest block, and not yet the block: it answers with the logs that it has, and no error.
    scene.first.add(Rule::new("eth_getLogs", Fault::OldHead(2)));
    scene.first.add(Rule::new("eth_getBlockByNumber", Fault::OldHead(2)));
    scene.block(2).await;
    scene.block(2).await;
    scene.caught_up().await;
    // It is stuck, and says so.
    scene.first.clear();
    scene.first.add(Rule::all(Fault::OldHead(3)));
    scene.block(1).await;
    scene.block(1).await;
    scene.caught_up().await;
    assert!(scene.second.calls("eth_getLogs") > 0);
}

#[tokio::test]
async fn ranges_shrink_to_what_the_endpoints_allow() {
    let scene = Scene::new().await;
    for endpoint in [&scene.first, &scene.second] {
        endpoint.add(Rule::new("eth_getLogs", Fault::LimitRange(3)));
    }
    for _ in 0..40 {
        scene.block(1).await;
    }
    let recorder = Recorder::default();
    let options = WatchOptions { range_max: 16, ..scene.options() };
    let _watching = scene.watch(1, options, &recorder);
    scene.caught_up().await;
    let pages = recorder.pages.load(Relaxed);
    assert!((20..40).contains(&pages), "ranges of two, and some of four that were refused: {pages}");
}

#[tokio::test]
async fn a_page_that_is_interrupted_is_read_again() {
    let scene = Scene::new().await;
    scene.block(2).await;
    let recorder = Recorder::default();
    recorder.stops.store(true, Relaxed);
    let (stop, task) = scene.watch(1, scene.options(), &recorder);
    recorder.stopped.notified().await;
    drop(stop);
    task.await.unwrap();
    assert!(scene.applied().await.is_empty());
    assert_eq!(scene.cursor().await, 0);

    recorder.fails.store(true, Relaxed);
    let _watching = scene.watch(2, scene.options(), &recorder);
    scene.caught_up().await;
    assert_eq!(recorder.pages.load(Relaxed), 2, "one failed");
}

#[tokio::test]
async fn a_handler_gets_the_block_that_it_asks_for_with_the_page_again() {
    let scene = Scene::new().await;
    scene.block(0).await;
    scene.block(2).await;
    let recorder = Recorder { needs: Some(1), ..Recorder::default() };
    let _watching = scene.watch(1, scene.options(), &recorder);
    scene.caught_up().await;
    let block = scene.anvil.block(1).await.unwrap().unwrap();
    let told = [BlockId::of(&block.header)];
    assert_eq!(*recorder.told.lock().unwrap(), told);
    assert_eq!(recorder.pages.load(Relaxed), 2, "nothing was kept the first time");
}

#[tokio::test]
async fn two_watchers_apply_each_log_once() {
    let scene = Scene::new().await;
    for _ in 0..30 {
        scene.block(2).await;
    }
    let recorder = Recorder::default();
    let options = || WatchOptions { range_max: 1, ..scene.options() };
    let both = [scene.watch(1, options(), &recorder), scene.watch(1, options(), &recorder)];
    scene.caught_up().await;
    scene.anvil.reorg(4).await.unwrap();
    scene.block(2).await;
    scene.caught_up().await;

    // A later epoch ends those of earlier ones.
    let _watching = scene.watch(2, options(), &recorder);
    scene.block(1).await;
    scene.caught_up().await;
    for ended in join_all(both.map(|(_, task)| task)).await {
        ended.unwrap();
    }
}

#[tokio::test]
async fn one_process_watches_and_another_takes_over() {
    let scene = Scene::new().await;
    let tidegate = Tidegate::from_pool(scene.database.pool.clone());
    let recorder = Recorder::default();
    let (watchers, stops): (Vec<_>, Vec<_>) =
        (0..2).map(|_| (scene.watcher(scene.options(), &recorder), CancellationToken::new())).unzip();
    let both = async {
        let runs = watchers.iter().zip(&stops).map(|(watcher, stop)| watcher.watch(&tidegate, stop.clone()));
        for run in join_all(runs).await {
            run.unwrap();
        }
    };
    let story = async {
        scene.block(1).await;
        scene.caught_up().await;
        stops[0].cancel();
        scene.block(1).await;
        scene.caught_up().await;
        stops[1].cancel();
    };
    tokio::join!(both, story);
    assert_eq!(recorder.pages.load(Relaxed), 2);
}
