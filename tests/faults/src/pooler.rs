//! A `PgBouncer` in transaction mode, through which every process of the fleet reaches the database.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use anyhow::Context;
use sqlx::{Connection, PgConnection};
use tokio::{
    net::TcpStream,
    process::Child,
    time::{Instant, sleep},
};

use crate::{
    launcher::{Launcher, free_port},
    proxy::Upstream,
    server::{DATABASE, Server},
};

/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// The role of its sessions: the pooler passes no options on, so the role has the parameters that `docs/install.md` names.
const ROLE: &str = "
    create role pooled login superuser;
    alter role pooled set synchronous_commit = 'on';
    alter role pooled set jit = off;
    alter role pooled set default_transaction_isolation = 'read committed';
    alter role pooled set search_path = pg_catalog, pg_temp;
    alter role pooled set statement_timeout = '15s';
    alter role pooled set idle_in_transaction_session_timeout = '60s';";

/// The pooler. Its process ends with the value.
#[derive(Debug)]
pub struct Pooler {
    address: SocketAddr,
    _process: Child,
}

impl Pooler {
    /// Starts `program` in `directory`, in front of a private server.
    ///
    /// # Errors
    ///
    /// When the server is a cluster, or the program does not listen.
    pub async fn start(program: &Path, directory: &Path, server: &Server) -> anyhow::Result<Self> {
        let mut session = PgConnection::connect(&server.url("postgres")).await?;
        sqlx::raw_sql(ROLE).execute(&mut session).await?;
        session.close().await?;
        fs::create_dir_all(directory)?;
        let socket = server.socket()?;
        let host = socket.parent().context("the server's socket is nowhere")?.display();
        let port = free_port()?;
        fs::write(
            directory.join("pgbouncer.ini"),
            format!(
                "[databases]\n{DATABASE} = host={host} port=5432 user=pooled\n\
                 [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
                 pool_mode = transaction\nmax_prepared_statements = 200\ndefault_pool_size = 60\nmax_client_conn = 1000\n\
                 ignore_startup_parameters = options,extra_float_digits\n"
            ),
        )?;
        let tools = program.parent().with_context(|| format!("{} is in no directory", program.display()))?;
        let launcher = Launcher::new(tools, directory)?;
        launcher.own(directory)?;
        let name = program.file_name().with_context(|| format!("{} is no program", program.display()))?;
        let process = launcher.start("pgbouncer", &name.to_string_lossy(), &["pgbouncer.ini"])?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).await.is_err() {
            anyhow::ensure!(Instant::now() < deadline, "{} does not listen: see its log", program.display());
            sleep(Duration::from_millis(50)).await;
        }
        Ok(Self { address, _process: process })
    }

    /// Where proxies lead to.
    #[must_use]
    pub fn upstream(&self) -> Upstream {
        Upstream::Tcp(vec![self.address])
    }
}
