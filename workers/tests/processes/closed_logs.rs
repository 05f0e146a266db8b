//! The reader of what a program logs and prints has gone: does it work all the same, and stop when it is told to?

use std::{process::Stdio, time::Duration};

use tokio::process::Command;

use super::{
    command, first_line, stop,
    support::{TestDatabase, eventually},
    until,
};

/// A pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// The program logs each step, without a reader.
fn unread(mut command: Command) -> Command {
    command.env("RUST_LOG", "debug").stderr(closed());
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_and_a_downstream_without_a_reader_of_their_logs_work_and_stop() {
    let database = TestDatabase::unlimited().await;
    let downstream = unread(command(&["downstream", "--listen", "127.0.0.1:0"]));
    let (downstream, address) = first_line(downstream, "listening on ").await;
    let url = format!("{address}/send/{{kind}}");

    for arguments in [
        &["http", "--name", "unread", "--queue", "tx", "--kind", "direct", "--send-url", &url][..],
        &["simulate", "--name", "unread", "--metrics-listen", "127.0.0.1:0"],
    ] {
        let mut worker = unread(command(arguments));
        worker.env("DATABASE_URL", &database.url).stdout(closed());
        let worker = worker.spawn().unwrap();
        database.submit("direct").await;
        until(&database, "it works", "tidegate.request where req_status <> 'completed'", 0).await;

        tokio::time::timeout(Duration::from_secs(30), stop(worker)).await.unwrap();

        let said = "select count(*) from tidegate.worker where name = 'unread' and stopped_at is not null";
        eventually("it has said that it stops", || async { database.number(said).await == 1 }).await;
    }
    tokio::time::timeout(Duration::from_secs(30), stop(downstream)).await.unwrap();
}
