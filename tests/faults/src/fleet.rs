//! The processes of a run: database, API nodes, workers, downstream, and the networks between them.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;

use crate::{
    journal::Journal,
    options::Options,
    proxy::{Proxy, Upstream},
    scene,
    server::Server,
    unit::Unit,
};

/// The lease of a worker: short, so that the requests of a killed one are reaped soon.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// The programs of a fleet.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `tidegate`.
    pub tidegate: PathBuf,
    /// `tidegate-worker`.
    pub worker: PathBuf,
    /// `tidegate-faults`.
    pub faults: PathBuf,
}

impl Programs {
    /// The programs in a directory.
    ///
    /// # Errors
    ///
    /// When one is missing.
    pub fn in_directory(directory: &Path) -> anyhow::Result<Self> {
        let program = |name: &str| {
            let path = directory.join(name);
            anyhow::ensure!(path.exists(), "{} is missing: build the workspace", path.display());
            Ok(path)
        };
        Ok(Self {
            tidegate: program("tidegate")?,
            worker: program("tidegate-worker")?,
            faults: program("tidegate-faults")?,
        })
    }
}

/// The programs that the processes of a fleet are.
#[derive(Debug)]
pub struct Builds {
    own: Programs,
    beside: Option<Programs>,
    their_schema: bool,
}

impl Builds {
    /// Those that the options name.
    ///
    /// # Errors
    ///
    /// When a program is missing.
    pub fn of(options: &Options) -> anyhow::Result<Self> {
        let own = match &options.programs {
            Some(directory) => Programs::in_directory(directory)?,
            None => {
                let program = std::env::current_exe()?;
                Programs::in_directory(program.parent().context("this program is nowhere")?)?
            }
        };
        let beside = options.beside.as_deref().map(Programs::in_directory).transpose()?;
        Ok(Self { own, beside, their_schema: options.their_schema })
    }

    /// The programs of the build that judges.
    #[must_use]
    pub const fn own(&self) -> &Programs {
        &self.own
    }

    /// The programs of the build whose functions are in the database.
    #[must_use]
    pub fn of_schema(&self) -> &Programs {
        self.beside.as_ref().filter(|_| self.their_schema).unwrap_or(&self.own)
    }

    /// The programs of the n-th process of a sort, from 1.
    fn nth(&self, number: usize) -> &Programs {
        self.beside.as_ref().filter(|_| !number.is_multiple_of(2)).unwrap_or(&self.own)
    }
}

/// All that runs. It ends with the value.
#[derive(Debug)]
pub struct Fleet {
    /// What operators run.
    pub programs: Programs,
    server: Mutex<Server>,
    /// API nodes.
    pub nodes: Vec<Arc<Unit>>,
    /// Where they listen.
    pub addresses: Vec<SocketAddr>,
    /// Workers that call the downstream over HTTP; those in other languages are among them.
    pub workers: Vec<Arc<Unit>>,
    /// Workers with an effect in the database.
    pub bookers: Vec<Arc<Unit>>,
    /// The receiver of webhooks.
    pub receiver: Arc<Unit>,
    /// Where it listens.
    pub receiver_address: SocketAddr,
    /// Its log.
    pub receiver_log: PathBuf,
    /// The downstream.
    pub downstream: Arc<Unit>,
    /// The network between workers and downstream.
    pub to_downstream: Proxy,
    /// The network between the callers that submit by SQL and the database.
    pub callers: Proxy,
    /// The downstream's log.
    pub downstream_log: PathBuf,
    // Nodes are reached by the downstream through it.
    _to_nodes: Proxy,
}

impl Fleet {
    /// Starts everything, on a server whose scene is set and to which `upstream` leads.
    ///
    /// # Errors
    ///
    /// When a part does not start.
    pub async fn start(
        builds: &Builds,
        server: &Server,
        upstream: &Upstream,
        options: &Options,
        directory: &Path,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let logs = directory.join("logs");
        std::fs::create_dir_all(&logs)?;
        let network = async || Proxy::start(upstream.clone()).await;

        let mut nodes = Vec::new();
        let mut addresses = Vec::new();
        for number in 1..=2 {
            let name = format!("node-{number}");
            let serve = |listen: &str| ["serve", "--listen", listen].map(str::to_owned).to_vec();
            let (node, said) =
                Unit::start(&name, &builds.nth(number).tidegate, serve("127.0.0.1:0"), network().await?, &logs).await?;
            let address = address_in(&said)?;
            nodes.push(node.with_arguments(serve(&address.to_string())));
            addresses.push(address);
        }
        let to_nodes = Proxy::start(Upstream::Tcp(addresses.clone())).await?;

        let receiver_log = directory.join("receiver.jsonl");
        let receives = |listen: &str| {
            let log = receiver_log.to_string_lossy();
            ["receiver", "--listen", listen, "--event-log", &log].map(str::to_owned).to_vec()
        };
        let start = Unit::start("receiver", &builds.own.faults, receives("127.0.0.1:0"), network().await?, &logs);
        let (receiver, said) = start.await?;
        let receiver_address = address_in(&said)?;
        let receiver = receiver.with_arguments(receives(&receiver_address.to_string()));

        let downstream_log = directory.join("downstream.jsonl");
        let mut arguments = scene::downstream(options);
        for argument in [
            "--listen",
            "127.0.0.1:0",
            "--callback-url",
            &format!("http://{}", to_nodes.address),
            "--check-concurrency",
            &scene::CHECKS_AT_ONCE.to_string(),
            "--seed",
            &seed.to_string(),
            "--event-log",
            &downstream_log.to_string_lossy(),
        ] {
            arguments.push(argument.to_owned());
        }
        arguments.insert(0, "downstream".to_owned());
        let (downstream, said) =
            Unit::start("downstream", &builds.own.worker, arguments, network().await?, &logs).await?;
        let to_downstream = Proxy::start(Upstream::Tcp(vec![address_in(&said)?])).await?;
        let service = format!("http://{}", to_downstream.address);

        let mut workers = Vec::new();
        for number in 1..=3 {
            let name = format!("worker-{number}");
            let arguments = [
                "http",
                "--name",
                &name,
                "--lease",
                &format!("{}s", LEASE.as_secs()),
                "--grace",
                "5s",
                "--batch",
                "64",
                "--answer",
                "envelope",
                "--check-url",
                &format!("{service}/check/{{kind}}"),
                "--send-url",
                &format!("{service}/send/{{kind}}"),
                "--receipt-url",
                &format!("{service}/receipt/{{kind}}/{{id}}"),
                // Its first line says that it has its database.
                "--metrics-listen",
                "127.0.0.1:0",
            ]
            .map(str::to_owned)
            .into_iter()
            .chain(scene::kinds_of("tx").flat_map(|kind| ["--kind".to_owned(), kind.to_owned()]))
            .collect();
            let (worker, _) =
                Unit::start(&name, &builds.nth(number).worker, arguments, network().await?, &logs).await?;
            workers.push(worker);
        }
        if options.foreign {
            for (name, arguments) in foreign(&builds.own, to_downstream.address)? {
                let (worker, _) = Unit::start(name, Path::new("env"), arguments, network().await?, &logs).await?;
                workers.push(worker);
            }
        }
        let mut bookers = Vec::new();
        for number in 1..=2 {
            let name = format!("booker-{number}");
            let arguments = ["booker", "--name", &name, "--downstream", &service].map(str::to_owned).to_vec();
            let (booker, _) =
                Unit::start(&name, &builds.nth(number).faults, arguments, network().await?, &logs).await?;
            bookers.push(booker);
        }
        Ok(Self {
            programs: builds.of_schema().clone(),
            server: Mutex::new(server.clone()),
            nodes,
            addresses,
            workers,
            bookers,
            receiver,
            receiver_address,
            receiver_log,
            downstream,
            to_downstream,
            callers: network().await?,
            downstream_log,
            _to_nodes: to_nodes,
        })
    }

    /// The database.
    #[must_use]
    pub fn server(&self) -> Server {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another server is the database from now on: the shared address leads there.
    ///
    /// # Errors
    ///
    /// When it is nowhere.
    pub fn fail_over_to(&self, server: &Server) -> anyhow::Result<()> {
        let upstream = server.upstream()?;
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = server.clone();
        for network in self.units().map(|unit| &unit.database).chain([&self.callers]) {
            network.lead_to(upstream.clone());
        }
        Ok(())
    }

    /// Every process that works on the database.
    pub fn units(&self) -> impl Iterator<Item = &Arc<Unit>> {
        self.nodes.iter().chain(&self.workers).chain(&self.bookers)
    }

    fn all_units(&self) -> impl Iterator<Item = &Arc<Unit>> {
        self.units().chain([&self.downstream, &self.receiver])
    }

    /// Undoes whatever was done to processes and networks.
    ///
    /// # Errors
    ///
    /// When a process cannot be started.
    pub async fn heal(&self) -> anyhow::Result<()> {
        self.to_downstream.heal();
        self.callers.heal();
        for unit in self.all_units() {
            unit.database.heal();
            unit.freeze(false).await?;
            unit.revive().await?;
        }
        Ok(())
    }

    /// Restarts processes that have ended by themselves.
    pub async fn look_after(&self, journal: &Journal) {
        for unit in self.all_units() {
            unit.look_after(journal).await;
        }
    }

    /// Ends every process but the database, politely.
    ///
    /// # Errors
    ///
    /// When one cannot be signalled.
    pub async fn stop(&self, journal: &Journal) -> anyhow::Result<()> {
        for unit in self.all_units() {
            if !unit.terminate().await? {
                journal.wrong(format!("{} did not stop well when it was asked to", unit.name));
            }
        }
        Ok(())
    }
}

/// The workers in Python and TypeScript, each with what `env` is told to run: they call the downstream over HTTP, too.
fn foreign(programs: &Programs, downstream: SocketAddr) -> anyhow::Result<[(&'static str, Vec<String>); 2]> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = programs.faults.with_file_name("../foreign_workers");
    let typescript = installed.join("typescript/dist/http_stages.js");
    anyhow::ensure!(typescript.exists(), "{} is missing: run tests/foreign_workers/prepare", typescript.display());
    let command = |name, program: PathBuf, script: PathBuf| {
        let options = serde_json::json!({
            "name": name,
            "queues": ["readiness", "tx"],
            "lease": LEASE.as_secs(),
            "grace": 5,
            "downstream": downstream.to_string(),
            "kinds": scene::kinds_of("tx").collect::<Vec<_>>(),
        });
        let arguments = [
            format!("OPTIONS={options}"),
            format!("PYTHONPATH={}", sources.join("workers/python").display()),
            "PYTHONDONTWRITEBYTECODE=1".to_owned(),
            program.display().to_string(),
            script.display().to_string(),
        ];
        (name, arguments.to_vec())
    };
    let python = sources.join("tests/foreign_workers/http_stages.py");
    Ok([command("python", installed.join("venv/bin/python"), python), command("typescript", "node".into(), typescript)])
}

/// The address in a server's first line.
pub(crate) fn address_in(line: &str) -> anyhow::Result<SocketAddr> {
    line.split_whitespace()
        .find_map(|word| word.strip_prefix("http://").unwrap_or(word).parse().ok())
        .with_context(|| format!("no address in: {line}"))
}
