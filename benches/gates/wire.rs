//! A proxy between a node and its database that counts every statement by the function it calls.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, Mutex},
};

use sqlx::{ConnectOptions, postgres::PgConnectOptions};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream, UnixStream},
};

/// Statements since the last reset, by the function they call.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Forwards a node's connections to the database, and counts.
pub(crate) struct Wire {
    /// The database's URL through this proxy.
    pub(crate) url: String,
    counts: Arc<Mutex<Counts>>,
}

impl Wire {
    /// A proxy to the database of a URL, which must accept clients without TLS.
    pub(crate) async fn to(url: &str) -> Self {
        let server: PgConnectOptions = url.parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let way = with_host(url, &listener.local_addr().unwrap().to_string());
        let counts = Arc::<Mutex<Counts>>::default();
        let counting = Arc::clone(&counts);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                client.set_nodelay(true).unwrap();
                let directory = server.get_socket().cloned();
                let directory = directory.or_else(|| {
                    let host = server.get_host();
                    host.starts_with('/').then(|| host.into())
                });
                let counting = Arc::clone(&counting);
                if let Some(directory) = directory {
                    let name = format!(".s.PGSQL.{}", server.get_port());
                    let database = UnixStream::connect(Path::new(&directory).join(name));
                    tokio::spawn(pass(client, database.await.unwrap(), counting));
                } else {
                    let database = TcpStream::connect((server.get_host(), server.get_port()));
                    let database = database.await.unwrap();
                    database.set_nodelay(true).unwrap();
                    tokio::spawn(pass(client, database, counting));
                }
            }
        });
        Self { url: way, counts }
    }

    /// Returns the counts since the last call.
    pub(crate) fn take(&self) -> Counts {
        std::mem::take(&mut *self.counts.lock().unwrap())
    }
}

/// The same database at another address, without TLS.
fn with_host(url: &str, host: &str) -> String {
    let url = url.split_once('?').map_or(url, |(url, _)| url);
    let (scheme, rest) = url.split_once("://").unwrap();
    let (authority, database) = rest.split_once('/').unwrap();
    let user = match authority.rsplit_once('@') {
        Some((user, _)) => user.to_owned(),
        None => {
            let options: PgConnectOptions = url.parse().unwrap();
            options.to_url_lossy().username().to_owned()
        }
    };
    format!("{scheme}://{user}@{host}/{database}?sslmode=disable")
}

async fn pass<S>(client: TcpStream, database: S, counts: Arc<Mutex<Counts>>)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_database, mut to_database) = tokio::io::split(database);
    let back = tokio::spawn(async move { copy(&mut from_database, &mut to_client).await });
    let mut reader = Reader::default();
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from_client.read(&mut bytes).await {
        reader.read(&bytes[..read], &counts);
        if to_database.write_all(&bytes[..read]).await.is_err() {
            break;
        }
    }
    let _ = to_database.shutdown().await;
    let _ = back.await;
}

/// Parses a client's bytes: its greeting, then messages with a letter, a length and a body.
#[derive(Default)]
struct Reader {
    greeted: bool,
    unread: Vec<u8>,
    /// The function that each prepared statement calls.
    prepared: HashMap<Vec<u8>, String>,
    bound: String,
}

impl Reader {
    fn read(&mut self, bytes: &[u8], counts: &Mutex<Counts>) {
        self.unread.extend_from_slice(bytes);
        loop {
            let at = usize::from(self.greeted);
            let Some(length) = self.unread.get(at..at + 4) else {
                return;
            };
            let length = u32::from_be_bytes(length.try_into().unwrap());
            let end = at + usize::try_from(length).unwrap();
            if self.unread.len() < end {
                return;
            }
            let message: Vec<u8> = self.unread.drain(..end).collect();
            if self.greeted {
                self.message(message[0], &message[5..], counts);
            }
            self.greeted = true;
        }
    }

    fn message(&mut self, letter: u8, body: &[u8], counts: &Mutex<Counts>) {
        let mut words = body.split(|byte| *byte == 0);
        let asked = match letter {
            b'P' => {
                let name = words.next().unwrap().to_vec();
                self.prepared.insert(name, called(words.next().unwrap()));
                return;
            }
            b'B' => {
                let name = words.nth(1).unwrap();
                self.bound = self.prepared[name].clone();
                return;
            }
            b'E' => self.bound.clone(),
            b'Q' => called(words.next().unwrap()),
            _ => return,
        };
        *counts.lock().unwrap().entry(asked).or_default() += 1;
    }
}

/// The function or view of Tidegate that a statement reads from, or names first, else its beginning.
fn called(statement: &[u8]) -> String {
    let statement = String::from_utf8_lossy(statement);
    let name = statement
        .split_once("from tidegate.")
        .or_else(|| statement.split_once("tidegate."))
        .map_or(&*statement, |(_, rest)| rest);
    let word = |letter: char| letter.is_alphanumeric() || letter == '_';
    if name.len() < statement.len() {
        name.chars().take_while(|letter| word(*letter)).collect()
    } else {
        name.chars().take(30).collect()
    }
}
