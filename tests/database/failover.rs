//! What does a standby that takes over bring with it?

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::Path,
    process::Stdio,
};

use sqlx::{Connection, PgConnection};
use tidegate::schema;
use tokio::process::Command;

use super::private_cluster::Cluster;
use crate::{
    cli::commands::err,
    support::{eventually, sql},
};

const DATABASE: &str = "failover";

/// A primary, and a standby that has everything that the primary has acknowledged.
struct Pair {
    primary: Cluster,
    standby: Cluster,
}

impl Pair {
    async fn start() -> Self {
        let primary = Cluster::start().await;
        primary.execute(&[&format!("create database {DATABASE}")]).await;
        let directory = Cluster::directory();
        let data = directory.path().join("data");
        let copied = Command::new(primary.server().bin().join("pg_basebackup"))
            .args(["-X", "stream", "-c", "fast", "-R", "-C", "-S", "standby", "-d"])
            .arg(primary.url("postgres"))
            .arg("-D")
            .arg(&data)
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        assert!(copied.status.success(), "{}", err(&copied));
        let owner = fs::metadata(primary.data()).unwrap();
        give(&data, owner.uid(), owner.gid());
        let standby = Cluster::start_in(directory).await;
        primary
            .execute(&[
                "alter system set synchronous_standby_names = '*'",
                "select pg_reload_conf()",
            ])
            .await;
        eventually("the standby is synchronous", || async {
            let mut session = primary.session().await;
            let synchronous = "select exists (select from pg_stat_replication where sync_state = 'sync')";
            sqlx::query_scalar(synchronous).fetch_one(&mut session).await.unwrap()
        })
        .await;
        Self { primary, standby }
    }

    async fn promote(&self) {
        let mut session = self.standby.session().await;
        assert_eq!(sql::value(&mut session, "select pg_promote()").await, "t");
    }
}

fn give(path: &Path, user: u32, group: u32) {
    chown(path, Some(user), Some(group)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user, group);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_counter_that_a_promotion_has_emptied_delays_no_answer_and_is_made_again() {
    let pair = Pair::start().await;
    let primary = pair.primary.url(DATABASE);
    schema::migrate(&primary).await.unwrap();
    let mut session = PgConnection::connect(&primary).await.unwrap();
    sql::run(&mut session, "select tidegate.initialise('relayer', null)").await;
    let replay = "select outcome from tidegate.submit('direct', '1', 'a')";
    assert_eq!(sql::value(&mut session, replay).await, "accepted");
    assert_eq!(sql::value(&mut session, replay).await, "replayed");
    let standby = pair.standby.url(DATABASE);

    pair.promote().await;

    let mut session = PgConnection::connect(&standby).await.unwrap();
    let count = "select nextval('tidegate.replays_direct')";
    let error = sql::refused(&mut session, count).await;
    assert_eq!(error.code, "XX000", "{error:?}");
    let counted = "select replays from tidegate.replay_counts() where kind = 'direct'";
    // A transaction that has tried to count keeps the counter until it ends.
    let mut holder = PgConnection::connect(&standby).await.unwrap();
    sql::run(&mut holder, "begin").await;
    assert_eq!(sql::value(&mut holder, replay).await, "replayed");
    for (held, expected) in [(true, "0"), (false, "1")] {
        if !held {
            sql::run(&mut holder, "commit").await;
        }
        sql::run(&mut session, "select tidegate.fold_counts()").await;
        assert_eq!(sql::value(&mut session, replay).await, "replayed");
        assert_eq!(sql::value(&mut session, counted).await, expected);
    }
}
