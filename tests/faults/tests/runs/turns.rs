//! Does a fair queue keep the order of its turns while sessions are killed, and the server recovers?

use std::{path::Path, time::Duration};

use tidegate::internals::{
    database::{self, PoolSettings},
    schema,
    store::Store,
};
use tidegate_faults::{
    server::{DATABASE, Server},
    turns::{Ends, Storm},
};

use crate::support::campaign;

#[tokio::test(flavor = "multi_thread")]
async fn every_claim_serves_whose_turn_it_is_however_often_the_server_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let keeper = Path::new(env!("CARGO_BIN_EXE_tidegate-faults"));
    let server = Server::start(&directory.path().join("postgres"), keeper).await.unwrap();
    let url = server.url(DATABASE);
    schema::migrate(&url).await.unwrap();
    let pool = database::connect(&url, &PoolSettings::default()).await.unwrap();
    Store::new(pool.clone()).initialise(Some("relayer"), None).await.unwrap();
    pool.close().await;

    let seed = rand::random();
    println!("seed {seed}");
    let time = Duration::from_secs(campaign(30, 120));
    let replay = Storm { url, time, seed, ends: (Ends::Killed, campaign(3, 8)), mutant: None }.run().await.unwrap();
    println!("{replay}");
    server.end().await.unwrap();
    assert!(replay.problems.is_empty(), "{replay}");
    assert!(replay.services > 1000 && replay.broken > 3, "{replay}");
}
