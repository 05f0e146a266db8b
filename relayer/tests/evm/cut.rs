//! A way to the database that breaks at a commit.

use std::{str::FromStr, sync::Arc};

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
    sync::Semaphore,
};
use tokio_util::task::AbortOnDropHandle;

use crate::support::TestDatabase;

/// Where a commit is lost.
#[derive(Clone, Copy, Debug)]
pub enum At {
    /// The server does not get it.
    Question,
    /// The server gets it, and its answer is lost.
    Answer,
}

/// Connections whose next commits are lost.
pub struct Cut {
    pub pool: PgPool,
    /// How many commits are still to be lost.
    pub commits: Arc<Semaphore>,
    _listener: AbortOnDropHandle<()>,
}

impl Cut {
    pub async fn new(database: &TestDatabase, at: At) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let commits = Arc::new(Semaphore::new(0));
        let server = PgConnectOptions::from_str(&database.url).unwrap();
        let options = PgConnectOptions::from_str(&format!("postgres://127.0.0.1:{port}")).unwrap();
        let options = options.username(server.get_username()).database(&database.name);
        let accepting = {
            let commits = Arc::clone(&commits);
            async move {
                loop {
                    let (client, _) = listener.accept().await.unwrap();
                    let commits = Arc::clone(&commits);
                    match server.get_socket() {
                        Some(directory) => {
                            let path = directory.join(format!(".s.PGSQL.{}", server.get_port()));
                            let server = UnixStream::connect(path).await.unwrap();
                            tokio::spawn(carry(client, server, at, commits));
                        }
                        None => {
                            let server = TcpStream::connect((server.get_host(), server.get_port())).await.unwrap();
                            tokio::spawn(carry(client, server, at, commits));
                        }
                    }
                }
            }
        };
        Self {
            pool: PgPoolOptions::new().max_connections(10).connect_lazy_with(options),
            commits,
            _listener: AbortOnDropHandle::new(tokio::spawn(accepting)),
        }
    }
}

/// Carries bytes both ways, until one side ends or a commit is lost.
async fn carry<S>(client: TcpStream, server: S, at: At, commits: Arc<Semaphore>)
where
    S: AsyncRead + AsyncWrite,
{
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let there = async {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = from_client.read(&mut bytes).await.unwrap_or_default();
            let is_commit = bytes[..count].windows(7).any(|part| part == b"commit\0");
            if count == 0 {
                return false;
            }
            if is_commit && let Ok(lost) = commits.try_acquire() {
                lost.forget();
                if matches!(at, At::Answer) {
                    to_server.write_all(&bytes[..count]).await.ok();
                }
                return true;
            }
            if to_server.write_all(&bytes[..count]).await.is_err() {
                return false;
            }
        }
    };
    let back = tokio::io::copy(&mut from_server, &mut to_client);
    let is_lost = tokio::select! {
        is_lost = there => is_lost,
        _ = back => false,
    };
    drop((from_client, to_client));
    if is_lost && matches!(at, At::Answer) {
        // The server goes on with its commit, which the client has left.
        from_server.read_u8().await.ok();
    }
}
