//! A high-availability cluster on loopback: three `PostgreSQL` servers under Patroni, with etcd, behind `HAProxy`.
//!
//! `tests/ha/prepare` installs the programs. The faults of the cluster are in [`crate::inject`].

mod settings;

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use anyhow::Context;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tidegate_cli::embedded_postgres::BinarySearch;
use tokio::{
    process::Child,
    time::{Instant, sleep},
};

use self::settings::haproxy_settings;
use crate::{
    launcher::{Launcher, free_port},
    proxy::{Proxy, Upstream},
    server::DATABASE,
};

/// How many servers there are.
pub const MEMBERS: usize = 3;

/// How long the cluster may take to be whole again after a fault.
const WHOLE: Duration = Duration::from_secs(150);

/// How long a session with it may take to begin.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause between two reads of its state.
const PAUSE: Duration = Duration::from_millis(200);

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Replication {
    /// A standby has it, or nothing is acknowledged.
    Synchronous,
    /// Nothing: a control, because the death of a leader loses what was acknowledged.
    Asynchronous,
}

/// The cluster. Its processes end with the value.
#[derive(Debug)]
pub struct Cluster {
    /// Where `HAProxy` leads to the leader.
    pub address: SocketAddr,
    /// The servers.
    pub members: Vec<Member>,
    replication: Replication,
    client: reqwest::Client,
    launcher: Launcher,
    others: Mutex<Vec<Child>>,
}

/// One server, with the Patroni that keeps it.
#[derive(Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its network to etcd.
    pub to_etcd: Proxy,
    /// The network by which standbys follow it.
    pub to_standbys: Proxy,
    data: PathBuf,
    settings: PathBuf,
    port: u16,
    rest: u16,
    patroni: Mutex<Option<Child>>,
}

impl Cluster {
    /// Starts everything in `directory`; returns when a standby follows as `replication` has it.
    ///
    /// # Errors
    ///
    /// When a program is missing, or the cluster does not come up.
    pub async fn start(tools: &Path, directory: &Path, replication: Replication) -> anyhow::Result<Self> {
        fs::create_dir_all(directory)?;
        let launcher = Launcher::new(tools, directory).context("run tests/ha/prepare")?;
        launcher.own(directory)?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
        let bin = BinarySearch::from_environment().find(None)?;
        anyhow::ensure!(bin.join("pg_rewind").is_file(), "there is no pg_rewind in {}", bin.display());

        let (etcd, peers) = (free_port()?, free_port()?);
        let [clients, peers] = [etcd, peers].map(|port| format!("http://127.0.0.1:{port}"));
        let etcd = SocketAddr::from(([127, 0, 0, 1], etcd));
        let members = format!("default={peers}");
        let mut others = vec![launcher.start(
            "etcd",
            "root/usr/bin/etcd",
            &[
                "--data-dir",
                "etcd",
                "--listen-client-urls",
                &clients,
                "--advertise-client-urls",
                &clients,
                "--listen-peer-urls",
                &peers,
                "--initial-advertise-peer-urls",
                &peers,
                "--initial-cluster",
                &members,
            ],
        )?];

        let mut servers = String::new();
        let mut members = Vec::new();
        for number in 1..=MEMBERS {
            let name = format!("member-{number}");
            let (port, rest) = (free_port()?, free_port()?);
            let to_etcd = Proxy::start(Upstream::Tcp(vec![etcd])).await?;
            let to_standbys = Proxy::start(Upstream::Tcp(vec![SocketAddr::from(([127, 0, 0, 1], port))])).await?;
            let data = directory.join(format!("data-{number}"));
            let settings = directory.join(format!("{name}.yml"));
            servers += &format!("  server {name} 127.0.0.1:{port} check port {rest}\n");
            let patroni = Mutex::default();
            let member = Member { name, to_etcd, to_standbys, data, settings, port, rest, patroni };
            // Every JSON text is YAML.
            fs::write(&member.settings, member.patroni_settings(directory, &bin, replication).to_string())?;
            members.push(member);
        }
        let port = free_port()?;
        fs::write(directory.join("haproxy.cfg"), haproxy_settings(port) + &servers)?;
        others.push(launcher.start("haproxy", "root/usr/sbin/haproxy", &["-f", "haproxy.cfg"])?);

        let cluster = Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            members,
            replication,
            client: reqwest::Client::builder().timeout(Duration::from_secs(3)).build()?,
            launcher,
            others: Mutex::new(others),
        };
        // The first one makes the cluster, and the others copy it.
        cluster.revive(0)?;
        cluster.until("a leader", WHOLE, async || cluster.leader().await.is_some()).await?;
        for number in 1..MEMBERS {
            cluster.revive(number)?;
        }
        cluster.until_whole().await?;
        let mut session = PgConnection::connect(&cluster.url("postgres")).await?;
        sqlx::raw_sql(&format!("create database {DATABASE}")).execute(&mut session).await?;
        Ok(cluster)
    }

    /// The URL of a database on the leader.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://tidegate@{}/{database}?sslmode=disable", self.address)
    }

    /// Which member is the leader, if one says so.
    pub async fn leader(&self) -> Option<usize> {
        for (number, member) in self.members.iter().enumerate() {
            let asked = self.client.get(format!("http://127.0.0.1:{}/primary", member.rest)).send().await;
            if asked.is_ok_and(|answer| answer.status() == 200) {
                return Some(number);
            }
        }
        None
    }

    /// Waits for a leader; returns which member it is.
    ///
    /// # Errors
    ///
    /// When there is none in time.
    pub async fn any_leader(&self) -> anyhow::Result<usize> {
        self.until("a leader", WHOLE, async || self.leader().await.is_some()).await?;
        self.leader().await.context("the leader is gone")
    }

    /// Waits until another member than this is the leader.
    ///
    /// # Errors
    ///
    /// When there is none in time.
    pub async fn until_another_leads(&self, before: usize) -> anyhow::Result<()> {
        let other = async || self.leader().await.is_some_and(|leader| leader != before);
        self.until("another leader", WHOLE, other).await
    }

    /// Waits until `HAProxy` leads to the leader, and every standby follows it: with synchronous replication one of them as the
    /// one that may take over, by Patroni's own account, which is later than `PostgreSQL`'s.
    ///
    /// # Errors
    ///
    /// When they do not in time.
    pub async fn until_whole(&self) -> anyhow::Result<()> {
        self.until("all standbys to follow", WHOLE, async || self.is_whole().await.unwrap_or(false)).await
    }

    async fn is_whole(&self) -> anyhow::Result<bool> {
        let Some(leader) = self.leader().await else {
            return Ok(false);
        };
        let asked = self.client.get(format!("http://127.0.0.1:{}/cluster", self.members[leader].rest)).send();
        let state: Value = asked.await?.json().await?;
        let members = state["members"].as_array().context("no members")?;
        let following = members.iter().filter(|member| member["state"] == "streaming");
        let is_replaceable = members.iter().any(|member| member["role"] == "sync_standby");
        let mut session = tokio::time::timeout(PATIENCE, PgConnection::connect(&self.url("postgres"))).await??;
        let is_leader: bool = sqlx::query_scalar("select not pg_is_in_recovery()").fetch_one(&mut session).await?;
        let is_synchronous = self.replication == Replication::Synchronous;
        Ok(following.count() == MEMBERS - 1 && (is_replaceable || !is_synchronous) && is_leader)
    }

    async fn until(&self, what: &str, patience: Duration, holds: impl AsyncFn() -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience;
        while !holds().await {
            anyhow::ensure!(Instant::now() < deadline, "the cluster waits for {what}");
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Starts the Patroni of a member, which starts its server.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn revive(&self, number: usize) -> anyhow::Result<()> {
        let member = &self.members[number];
        let settings = member.settings.to_string_lossy();
        let child = self.launcher.start(&member.name, "venv/bin/patroni", &[&settings])?;
        *member.patroni.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(child);
        Ok(())
    }

    /// Sends a signal to the Patroni of a member, and to all processes of its server.
    ///
    /// # Errors
    ///
    /// When one cannot be signalled.
    pub fn signal(&self, number: usize, signal: Signal) -> anyhow::Result<()> {
        let member = &self.members[number];
        let patroni = member.patroni.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut pids: Vec<_> = patroni.iter().filter_map(Child::id).collect();
        drop(patroni);
        let file = fs::read_to_string(member.data.join("postmaster.pid")).unwrap_or_default();
        if let Some(postmaster) = file.lines().next().and_then(|line| line.trim().parse().ok()) {
            pids.push(postmaster);
            pids.extend(children(postmaster));
        }
        for pid in pids {
            // One may have ended meanwhile.
            let _ = kill(Pid::from_raw(i32::try_from(pid)?), signal);
        }
        Ok(())
    }

    /// Hands the lead to another member, as an operator does.
    ///
    /// # Errors
    ///
    /// When Patroni refuses.
    pub async fn switch_over(&self, leader: usize, candidate: usize) -> anyhow::Result<()> {
        let body = json!({"leader": self.members[leader].name, "candidate": self.members[candidate].name});
        let url = format!("http://127.0.0.1:{}/switchover", self.members[leader].rest);
        let asked = self.client.post(url).timeout(Duration::from_secs(60)).json(&body);
        let answer = asked.send().await?;
        anyhow::ensure!(answer.status().is_success(), "switchover: {} {}", answer.status(), answer.text().await?);
        Ok(())
    }

    /// Ends everything.
    ///
    /// # Errors
    ///
    /// When a process cannot be signalled.
    pub fn end(&self) -> anyhow::Result<()> {
        for number in 0..MEMBERS {
            self.signal(number, Signal::SIGKILL)?;
        }
        self.others.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The processes that a process has started.
fn children(parent: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
