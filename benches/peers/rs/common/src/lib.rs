//! What the Rust drivers share: the contract with `bench.py` (see ../../README.md).

use std::{
    future::Future,
    io::{BufRead, Write},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

static HANDLED: AtomicU64 = AtomicU64::new(0);
static STARTS: OnceLock<mpsc::UnboundedSender<Instant>> = OnceLock::new();

/// Called by every job handler.
pub fn hit() {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    if let Some(starts) = STARTS.get() {
        let _ = starts.send(Instant::now());
    }
}

pub fn url() -> String {
    std::env::var("DATABASE_URL").expect("DATABASE_URL")
}

/// A word from the environment.
pub fn word(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Whether the environment sets a variable to 1.
pub fn is_set(name: &str) -> bool {
    word(name, "") == "1"
}

pub fn tuned() -> bool {
    word("PEER_MODE", "default") == "tuned"
}

/// Whether each single insert is to bring a key that no other one has.
pub fn keyed() -> bool {
    is_set("PEER_KEYED")
}

/// A key that was not there before.
pub fn key() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    format!("key-{}-{number}", std::process::id())
}

pub fn command() -> String {
    std::env::args().nth(1).unwrap_or_default()
}

/// The number behind `--name`.
pub fn option(name: &str, default: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let key = format!("--{name}");
    arguments
        .iter()
        .position(|argument| *argument == key)
        .and_then(|place| arguments.get(place + 1))
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

pub fn report(n: u64, begun: Instant) {
    println!(
        "{{\"n\":{n},\"secs\":{:.6}}}",
        begun.elapsed().as_secs_f64()
    );
}

/// Says READY and waits for a line.
pub fn ready_go() {
    println!("READY");
    std::io::stdout().flush().unwrap();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
}

/// Tells how many jobs were handled, at most every 20 ms, until a line comes.
pub async fn serve() {
    let stop = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        let _ = std::io::stdin().lock().read_line(&mut line);
    });
    let mut last = 0;
    loop {
        let handled = HANDLED.load(Ordering::Relaxed);
        if handled != last {
            println!("C {handled}");
            let _ = std::io::stdout().flush();
            last = handled;
        }
        if stop.is_finished() {
            std::process::exit(0);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Remembers when handlers start; call it before the worker starts.
pub fn arm() -> mpsc::UnboundedReceiver<Instant> {
    let (starts, receiver) = mpsc::unbounded_channel();
    let _ = STARTS.set(starts);
    receiver
}

/// One job at a time into an idle queue: a gap, an insert, a wait for the handler.
pub async fn latency<F, Fut>(mut starts: mpsc::UnboundedReceiver<Instant>, mut add: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = ()>,
{
    let samples = option("n", 500);
    let longest = Duration::from_secs(option("secs", 60));
    let gap_ms = option("gap", 20);
    tokio::time::sleep(Duration::from_millis(option("warm", 1500))).await;
    let begun = Instant::now();
    let mut seed: u64 = 0x9E37_79B9_7F4A_7C15;
    let (mut latencies, mut inserts) = (Vec::new(), Vec::new());
    for i in 0..samples + 5 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        tokio::time::sleep(Duration::from_micros(5000 + seed % (gap_ms * 1000 + 1))).await;
        while starts.try_recv().is_ok() {} // a job that was handled twice
        let before = Instant::now();
        add().await;
        let after = Instant::now();
        let Ok(Some(start)) = tokio::time::timeout(Duration::from_secs(70), starts.recv()).await
        else {
            break;
        };
        if i >= 5 {
            latencies.push(start.duration_since(before).as_micros());
            inserts.push((after - before).as_micros());
        }
        if begun.elapsed() > longest {
            break;
        }
    }
    println!("{{\"lat_us\":{latencies:?},\"ins_us\":{inserts:?}}}");
    std::process::exit(0);
}

/// Single inserts by `--c` tasks: `--n` in all, or as many as `--secs` allow.
pub async fn insert1<F, Fut>(add: F)
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let tasks = option("c", 8);
    let most = option("n", 10_000) / tasks;
    let longest = Duration::from_secs(option("secs", 3600));
    let begun = Instant::now();
    let mut running = Vec::new();
    for _ in 0..tasks {
        let add = add.clone();
        running.push(tokio::spawn(async move {
            let mut done = 0;
            while done < most && begun.elapsed() < longest {
                add().await;
                done += 1;
            }
            done
        }));
    }
    let mut done = 0;
    for task in running {
        done += task.await.unwrap();
    }
    report(done, begun);
}
