//! Workers that are lost at the worst moments: each request is sent once, and no nonce is unused for long.

use std::{collections::VecDeque, time::Duration};

use rand::Rng;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    process::Role,
    scenarios::{assert_complete, process, scene, until_ended},
    scene::Scene,
};
use crate::support::campaign;

/// How long a nonce may be in no pool and no block after it was taken.
const HOLE_MAX: Duration = Duration::from_secs(2);

/// Watches nonces until `stop`; returns the longest time from when one was taken to when the chain had it, which is a few
/// milliseconds less.
async fn longest_hole(scene: &Scene, stop: &CancellationToken) -> Duration {
    let mut longest = Duration::ZERO;
    // Nonces below these are taken since then, at the latest; the chain lacks them.
    let mut taken: VecDeque<(u64, Instant)> = VecDeque::new();
    let (mut next, mut looked) = (0, Instant::now());
    // A machine that stands still for so long delays the keeper as well.
    let mut longest_look = Duration::ZERO;
    while !stop.is_cancelled() {
        let now = Instant::now();
        longest_look = longest_look.max(now - looked);
        let number = scene.database.number("select coalesce(max(nonce) + 1, 0) from evm.tx").await;
        let number = number.cast_unsigned();
        if number > next {
            taken.push_back((number, looked));
            next = number;
        }
        looked = now;
        let (_, pending) = scene.counts().await;
        while let Some((below, since)) = taken.front().copied().filter(|(below, _)| *below <= pending) {
            taken.pop_front();
            let hole = since.elapsed();
            longest = longest.max(hole);
            longest_look = longest_look.max(looked.elapsed());
            if hole > HOLE_MAX + longest_look {
                panic!(
                    "{hole:?} below nonce {below}; the longest look took {longest_look:?}: {}",
                    account(scene, below).await
                );
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
    assert!(taken.is_empty(), "{taken:?}");
    longest
}

/// What is known of the nonces just below one, and of the keeper.
async fn account(scene: &Scene, below: u64) -> String {
    let sql = format!(
        "select jsonb_pretty(jsonb_build_object('now', tidegate.clock(),
           'keeper', (select jsonb_agg(to_jsonb(s)) from tidegate.singleton as s),
           'attempts', (select jsonb_agg(to_jsonb(a) - 'raw' order by a.nonce, a.n) from evm.attempt as a
             where a.nonce between {below} - 4 and {below})))"
    );
    scene.database.text(&sql).await.unwrap_or_default()
}

async fn lose_workers_at(step: &str) {
    let scene = scene().await;
    let urls = [scene.anvil.url()];
    let _survivors = [Role::Keep, Role::Keep, Role::Work].map(|role| process(&scene, role, &urls, None));
    let stop = CancellationToken::new();
    let kills = campaign(6, 50);
    let losses = async {
        for _ in 0..kills {
            let failpoint = format!("{step}:{}", rand::rng().random_range(1..=3));
            let mut victim = process(&scene, Role::Work, &urls, Some(&failpoint));
            until_ended(&scene, &mut victim, 20).await;
        }
        assert_complete(&scene).await;
        stop.cancel();
    };
    let (longest, ()) = tokio::join!(longest_hole(&scene, &stop), losses);
    println!("{kills} workers were lost at \"{step}\"; a nonce was unused for {longest:.1?} at most");
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_commit() {
    lose_workers_at("signed").await;
}

/// S4.
#[tokio::test(flavor = "multi_thread")]
async fn between_the_commit_and_the_broadcast() {
    lose_workers_at("committed").await;
}

/// S5.
#[tokio::test(flavor = "multi_thread")]
async fn between_the_broadcast_and_its_record() {
    lose_workers_at("sent").await;
}

/// S5.
#[tokio::test(flavor = "multi_thread")]
async fn between_the_mining_and_the_settle() {
    lose_workers_at("mined").await;
}
