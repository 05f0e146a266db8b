//! An API node: `tidegate serve`.
#![allow(dead_code, reason = "each benchmark uses its own part")]

use std::{net::SocketAddr, process::Stdio};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// A server's process; killed when dropped.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    process: Child,
}

impl Node {
    pub(crate) async fn start(url: &str) -> Self {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        serve.args(["serve", "--listen", "127.0.0.1:0"]).env("DATABASE_URL", url).env("RUST_LOG", "error");
        Self::listening(serve).await
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id().unwrap()
    }

    /// A server that prints its address on its first line.
    pub(crate) async fn listening(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().unwrap();
        let (_, address) = line.rsplit_once('/').unwrap();
        // If the pipe were closed, its next line would fail.
        let address = address.parse().unwrap();
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { address, process }
    }
}
