//! Whole processes with faults in their way. Afterwards the chain is compared with the requests: each has one transaction,
//! and no nonce is missing.

use std::time::Duration;

use tidegate_fhevm_stand_ins::{
    chain::Mining,
    rpc_proxy::{Fault, Rule},
};
use tokio::time::Instant;
use url::Url;

use super::{
    orders::CONTRACT,
    process::{Process, Role, Setup},
    scene::Scene,
};
use crate::support::{campaign, eventually, rest};

const SEND: &str = "eth_sendRawTransaction";

/// A chain with a block each second, and requests that are tried for an hour.
pub async fn scene() -> Scene {
    let scene = Scene::new(Mining::Every(1)).await;
    scene
        .database
        .execute(
            "update tidegate.policy
             set attempts = 11, base_ms = 500, factor = 1, cap_ms = 500, jitter_ms = 50, timeout_ms = 300000,
               deadline_ms = 3600000, margin_ms = 1000
             where stage = 'tx' and kind = 'direct';
             update tidegate.policy_change set at = at - interval '1 minute';
             update tidegate.policy_in_force set since = since - interval '1 minute'",
        )
        .await;
    scene
}

/// A process that asks these endpoints.
pub fn process(scene: &Scene, role: Role, endpoints: &[&Url], failpoint: Option<&str>) -> Process {
    let setup = Setup {
        database: scene.database.url.clone(),
        endpoints: endpoints.iter().map(|url| url.to_string()).collect(),
        contract: CONTRACT,
        keys: vec![1],
        role,
    };
    Process::start(&setup, failpoint)
}

/// Two workers and two keepers, of which one works.
fn fleet(scene: &Scene, endpoints: &[&Url]) -> [Process; 4] {
    [Role::Keep, Role::Keep, Role::Work, Role::Work].map(|role| process(scene, role, endpoints, None))
}

/// Submits requests.
async fn submit(scene: &Scene, count: i32) {
    sqlx::query("select count(*) from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[$1]))")
        .bind(count)
        .execute(&scene.database.pool)
        .await
        .unwrap();
}

async fn next_block(scene: &Scene) {
    let head = scene.anvil.block_number().await.unwrap();
    eventually("a block was made", || async { scene.anvil.block_number().await.unwrap() > head }).await;
}

/// Submits so many requests, 40 in each block.
async fn load(scene: &Scene, mut count: i32) {
    while count > 0 {
        submit(scene, count.min(40)).await;
        next_block(scene).await;
        count -= 40;
    }
}

async fn live(scene: &Scene) -> i64 {
    scene.database.number("select count(*) from tidegate.request where finished_at is null").await
}

/// Waits until no request is live and no nonce open, as long as something moves.
async fn until_at_rest(scene: &Scene) {
    let open = "select count(*) from evm.tx where state in ('signed', 'sent')";
    let mut last = (i64::MAX, 0);
    loop {
        let left = live(scene).await + scene.database.number(open).await;
        if left == 0 {
            return;
        }
        let head = scene.anvil.block_number().await.unwrap();
        if left < last.0 {
            last = (left, head);
        }
        assert!(head - last.1 < 40, "{left} are left for 40 blocks: {:?}", scene.state().await);
        next_block(scene).await;
    }
}

/// All are completed, and the chain has what it should.
pub async fn assert_complete(scene: &Scene) {
    until_at_rest(scene).await;
    let failed = "select count(*) from tidegate.request where req_status <> 'completed'";
    assert_eq!(scene.database.number(failed).await, 0);
    scene.assert_sound().await;
}

/// The 99th percentile of the requests' times, in seconds.
async fn p99(scene: &Scene) -> f64 {
    let sql =
        "select percentile_cont(0.99) within group (order by extract(epoch from finished_at - submitted_at))::float8
               from tidegate.request where finished_at is not null";
    sqlx::query_scalar(sql).fetch_one(&scene.database.pool).await.unwrap()
}

/// Submits requests, so many with each block, until a worker has ended itself.
pub async fn until_ended(scene: &Scene, worker: &mut Process, per_block: i32) {
    for _ in 0..60 {
        submit(scene, per_block).await;
        let head = scene.anvil.block_number().await.unwrap();
        while scene.anvil.block_number().await.unwrap() == head {
            if worker.ended().is_some() {
                return;
            }
            rest().await;
        }
    }
    panic!("a worker has not ended within 60 blocks: {:?}", scene.state().await);
}

/// S6.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_sends_are_lost_late_or_errors() {
    let scene = scene().await;
    let _fleet = fleet(&scene, &[scene.proxy.url()]);
    for (fault, rate) in
        [(Fault::DropAfter, 0.3), (Fault::Delay(Duration::from_secs(4)), 0.1), (Fault::Status(500), 0.1)]
    {
        scene.proxy.add(Rule::new(SEND, fault).rate(rate));
    }
    load(&scene, campaign(80, 500)).await;
    assert_complete(&scene).await;
    println!("S6: {} faults", scene.proxy.faults());
    assert!(scene.proxy.faults() > 10);
}

/// S7.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_that_an_endpoint_swallows_are_sent_again() {
    let scene = scene().await;
    let _fleet = fleet(&scene, &[scene.proxy.url()]);
    scene.proxy.add(Rule::new(SEND, Fault::Swallow).rate(0.05));
    load(&scene, campaign(120, 500)).await;
    assert_complete(&scene).await;
    let p99 = p99(&scene).await;
    let (swallowed, sends) = (scene.proxy.faults(), scene.proxy.calls(SEND));
    println!("S7: {swallowed} of {sends} sends swallowed, p99 {p99:.1} s");
    assert!(swallowed > 0 && p99 <= 15.0, "{p99}");
}

/// S7, one of two endpoints, and all that it gets.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_takes_everything_and_forwards_nothing_stops_nothing() {
    let scene = scene().await;
    let _fleet = fleet(&scene, &[scene.proxy.url(), scene.anvil.url()]);
    scene.proxy.add(Rule::new(SEND, Fault::Swallow));
    load(&scene, campaign(40, 200)).await;
    assert_complete(&scene).await;
    let p99 = p99(&scene).await;
    println!("S7: all of {} sends swallowed, p99 {p99:.1} s", scene.proxy.faults());
    assert!(p99 <= 15.0, "{p99}");
}

/// The figure of a take-over, after SIGKILL.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_keeper_is_replaced_within_ten_seconds() {
    let scene = Scene::new(Mining::OnDemand).await;
    let keep = || process(&scene, Role::Keep, &[scene.proxy.url()], None);
    let epoch = async || scene.database.number("select coalesce(max(epoch), 0) from evm.keeper").await;
    let mut holder = keep();
    eventually("it keeps the wallet", || async { epoch().await > 0 }).await;
    let mut longest = Duration::ZERO;
    for round in 0..campaign(1, 8) {
        let began = scene.database.number("select extract(epoch from clock_timestamp()) * 1000000").await;
        let heir = keep();
        // A process may have used more than one session for its lease.
        let waiting = format!(
            "select count(*) from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid() and query like '%tidegate.lease_take%'
               and extract(epoch from backend_start) * 1000000 >= {began}"
        );
        eventually("another one waits for its lease", || async { scene.database.number(&waiting).await > 0 }).await;
        scene.proxy.add(Rule::new(SEND, Fault::Swallow));
        let sends = scene.begin(&scene.orders(3).await).await;
        let before = epoch().await;
        drop(holder);
        let killed = Instant::now();
        scene.proxy.clear();
        assert_eq!(scene.counts().await, (round * 3, round * 3), "they were swallowed");
        eventually("all are in the pool", || async { scene.counts().await.1 == (round + 1) * 3 }).await;
        longest = longest.max(killed.elapsed());
        assert!(epoch().await > before);
        scene.anvil.mine(1).await.unwrap();
        super::scene::outcomes(sends).await;
        holder = heir;
    }
    println!("take-over of a keeper: {:.1} s at most", longest.as_secs_f64());
    assert!(longest <= Duration::from_secs(10), "{longest:?}");
    scene.assert_sound().await;
}

/// S8, all endpoints.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_all_endpoints_fails_nothing() {
    let scene = scene().await;
    let _fleet = fleet(&scene, &[scene.proxy.url()]);
    load(&scene, 40).await;
    scene.proxy.add(Rule::all(Fault::DropBefore));
    let (began, seconds) = (Instant::now(), campaign(8, 60));
    load(&scene, campaign(80, 400)).await;
    while began.elapsed() < Duration::from_secs(seconds) {
        next_block(&scene).await;
    }
    scene.proxy.clear();
    assert_complete(&scene).await;
}

/// S8, one of two.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_one_endpoint_of_two_is_hardly_felt() {
    let mut times = Vec::new();
    for is_away in [false, true] {
        let scene = scene().await;
        let _fleet = fleet(&scene, &[scene.proxy.url(), scene.anvil.url()]);
        if is_away {
            scene.proxy.add(Rule::all(Fault::DropBefore));
        }
        load(&scene, campaign(80, 500)).await;
        assert_complete(&scene).await;
        times.push(p99(&scene).await);
    }
    println!("S8: p99 {:.1} s, {:.1} s with one of two endpoints", times[0], times[1]);
    assert!(times[1] - times[0] <= 3.0, "{times:?}");
}

/// S11.
#[tokio::test(flavor = "multi_thread")]
async fn a_base_fee_that_rises_threefold_holds_nothing_up() {
    let scene = Scene::new(Mining::OnDemand).await;
    let orders = scene.orders(64).await;
    let sends = scene.begin(&orders).await;
    let max_fee: i64 = scene.database.number("select max(max_fee) from evm.attempt").await;
    scene.anvil.set_next_base_fee(u128::try_from(max_fee).unwrap() * 3).await.unwrap();
    scene.anvil.mine(1).await.unwrap();
    assert_eq!(scene.counts().await.0, 0, "none could be mined");
    let keeper = scene.keeper().await;
    let mut blocks = 0;
    while scene.counts().await.0 < 64 {
        keeper.step(1).await.unwrap();
        scene.anvil.mine(1).await.unwrap();
        blocks += 1;
        assert!(blocks <= 30, "{:?}", scene.counts().await);
    }
    super::scene::outcomes(sends).await;
    let versions = scene.versions().await;
    println!("S11: mined after {blocks} blocks, {} versions at most", versions.iter().max().unwrap());
    assert!(versions.iter().all(|versions| *versions <= 3), "{versions:?}");
    let rises = "select bool_and(b.max_fee >= a.max_fee * 1.125 and b.tip >= a.tip * 1.125)::text
                 from evm.attempt as a join evm.attempt as b using (wallet, nonce) where b.n = a.n + 1";
    assert_eq!(scene.database.text(rises).await.unwrap(), "true");
    let report = scene.assert_sound().await;
    assert_eq!(report.wallets[0].mined, 64);
}

/// S12a, between claim and allocation: no nonce.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_ends_before_its_allocation_gets_no_nonce() {
    let scene = Scene::new(Mining::OnDemand).await;
    let mut orders = scene.orders(campaign(15, 50)).await;
    let sender = scene.sender();
    for (number, order) in orders.iter_mut().enumerate() {
        let id = order.request;
        match number % 3 {
            0 => scene.end(id).await,
            1 => {
                let lapse =
                    format!("update tidegate.claim set until = tidegate.clock() where token = {}", order.lease.token);
                scene.database.execute(&lapse).await;
            }
            // Another worker has it.
            _ => order.lease.token ^= 1,
        }
        let sending = sender.send(order).await;
        assert!(matches!(sending, tidegate_evm::Sending::Ended), "{number}: {sending:?}");
    }
    assert!(scene.states().await.is_empty());
}

/// S12a, between commit and broadcast: a filler, or the own bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_ends_before_its_broadcast_leaves_no_hole() {
    let scene = scene().await;
    let urls = [scene.anvil.url()];
    let _survivors = fleet(&scene, &urls);
    for _ in 0..campaign(3, 50) {
        let mut victim = process(&scene, Role::Work, &urls, Some("committed:1"));
        until_ended(&scene, &mut victim, 6).await;
        scene
            .database
            .execute(
                "select f.outcome from evm.tx as t, lateral tidegate.fail_request(t.order_id, 'a test ends it') as f
                 where t.state in ('signed', 'sent')",
            )
            .await;
    }
    until_at_rest(&scene).await;
    let report = scene.assert_sound().await;
    println!("S12a: {} fillers", report.wallets[0].fillers);
}
