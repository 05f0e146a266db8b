//! A TCP proxy on loopback: the network between two processes, and everything that can go wrong with it.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
    sync::watch,
};

/// Where a proxy leads to.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// The first of these that takes a connection; whose turn it is goes round.
    Tcp(Vec<SocketAddr>),
    /// A Unix socket, such as `PostgreSQL`'s.
    Unix(PathBuf),
}

/// The fate of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// They pass.
    Open,
    /// No byte passes, either way, and no connection is closed.
    Stalled,
    /// The caller's bytes arrive; the answers do not.
    Mute,
    /// Connections end at once.
    Refused,
}

/// Which end of a connection learns that it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Both.
    Both,
    /// The server alone: the caller waits for an answer that never comes, until the network heals.
    Server,
    /// The caller's side alone: the server keeps an unused session until the network heals.
    Caller,
}

#[derive(Debug, Clone, Copy)]
struct State {
    flow: Flow,
    /// Connections of an earlier generation are over.
    generation: u64,
    told: Told,
}

/// A listening proxy; it stops, and its connections end, with the value.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    state: watch::Sender<State>,
    upstream: Arc<Mutex<Upstream>>,
    listening: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of loopback.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub async fn start(upstream: Upstream) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (state, _) = watch::channel(State { flow: Flow::Open, generation: 0, told: Told::Both });
        let upstream = Arc::new(Mutex::new(upstream));
        let (shared, states) = (upstream.clone(), state.clone());
        let listening = tokio::spawn(async move {
            let mut turn = 0;
            loop {
                let Ok((caller, _)) = listener.accept().await else {
                    continue;
                };
                turn += 1;
                let upstream = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
                tokio::spawn(carry(caller, upstream, turn, states.subscribe()));
            }
        });
        Ok(Self { address, state, upstream, listening })
    }

    /// The fate of bytes from now on, in new connections too.
    pub fn flow(&self, flow: Flow) {
        self.state.send_modify(|state| state.flow = flow);
    }

    /// Ends every connection there is, and tells whom of it.
    pub fn cut(&self, told: Told) {
        self.state.send_modify(|state| {
            state.generation += 1;
            state.told = told;
        });
    }

    /// Everything passes again. Ends that were not closed at a cut are closed now.
    pub fn heal(&self) {
        self.state.send_modify(|state| {
            state.flow = Flow::Open;
            state.told = Told::Both;
        });
    }

    /// Leads new connections elsewhere.
    pub fn lead_to(&self, upstream: Upstream) {
        *self.upstream.lock().unwrap_or_else(PoisonError::into_inner) = upstream;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
        self.cut(Told::Both);
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn connect(upstream: &Upstream, turn: usize) -> Option<Box<dyn Stream>> {
    match upstream {
        Upstream::Unix(path) => Some(Box::new(UnixStream::connect(path).await.ok()?)),
        Upstream::Tcp(addresses) => {
            for number in 0..addresses.len() {
                let address = addresses[(turn + number) % addresses.len()];
                if let Ok(stream) = TcpStream::connect(address).await {
                    let _ = stream.set_nodelay(true);
                    return Some(Box::new(stream));
                }
            }
            None
        }
    }
}

async fn carry(caller: TcpStream, upstream: Upstream, turn: usize, mut states: watch::Receiver<State>) {
    let _ = caller.set_nodelay(true);
    let born = states.borrow().generation;
    // A stalled network does not make connections either.
    let passable = states.wait_for(|state| state.flow != Flow::Stalled || state.generation > born);
    match passable.await.map(|state| *state) {
        Ok(state) if state.flow != Flow::Refused && state.generation == born => {}
        _ => return,
    }
    let Some(server) = connect(&upstream, turn).await else {
        return;
    };
    let (mut from_caller, mut to_caller) = tokio::io::split(caller);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let ended = async {
        let mut states = states.clone();
        let over = |state: &State| state.generation > born || state.flow == Flow::Refused;
        states.wait_for(over).await.map_or(Told::Both, |state| state.told)
    };
    let told = {
        let asked = pump(&mut from_caller, &mut to_server, states.clone(), false);
        let answered = pump(&mut from_server, &mut to_caller, states.clone(), true);
        tokio::select! {
            told = ended => told,
            () = async { tokio::join!(asked, answered); } => return,
        }
    };
    // The end that is not closed keeps its connection until the network heals.
    match told {
        Told::Both => return,
        Told::Server => drop((from_server, to_server)),
        Told::Caller => drop((from_caller, to_caller)),
    }
    let _ = states.wait_for(|state| state.told == Told::Both).await;
}

/// Carries bytes one way until one end closes, and passes the closing on.
async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut states: watch::Receiver<State>,
    answers: bool,
) {
    let mut buffer = vec![0; 32 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let passes = |state: &State| match state.flow {
            Flow::Stalled => false,
            Flow::Mute => !answers,
            Flow::Open | Flow::Refused => true,
        };
        if states.wait_for(passes).await.is_err() || to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
