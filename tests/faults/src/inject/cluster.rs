//! Faults of a high-availability cluster. Each ends when the cluster is whole again.

use std::time::Duration;

use nix::sys::signal::Signal;
use rand::{Rng, rngs::StdRng};
use tokio::time::sleep;

use super::{Injector, seconds};
use crate::{
    cluster::{Cluster, MEMBERS, Member},
    proxy::{Flow, Proxy, Told},
};

/// How long a member is away so that the others notice: its lease of the lead is over.
pub(super) const LONGER_THAN_A_LEASE: std::ops::Range<f64> = 25.0..35.0;

impl Injector {
    /// SIGKILL for the leader with its Patroni; if it is `ahead`, its standbys have not received what it wrote last.
    pub(super) async fn kill_the_leader(
        &self,
        sort: &'static str,
        ahead: bool,
        random: &mut StdRng,
    ) -> anyhow::Result<()> {
        let cluster = self.cluster()?;
        let leader = cluster.any_leader().await?;
        let member = &cluster.members[leader];
        let behind = if ahead { seconds(random, 1.0..2.0) } else { Duration::ZERO };
        let what = format!("{}, {:.1} s ahead of its standbys", member.name, behind.as_secs_f64());
        let running = self.journal.inject(sort, &what);
        if ahead {
            member.to_standbys.flow(Flow::Stalled);
            sleep(behind).await;
        }
        cluster.signal(leader, Signal::SIGKILL)?;
        // What is under way is lost with it: nothing passes before the connections have ended.
        member.to_standbys.cut(Told::Both);
        let taken_over = cluster.until_another_leads(leader).await;
        member.to_standbys.heal();
        cluster.revive(leader)?;
        taken_over?;
        cluster.until_whole().await?;
        self.journal.over(&running);
        Ok(())
    }

    /// The leader stands still until another has taken over, and then goes on as if nothing had been.
    pub(super) async fn freeze_the_leader(&self, sort: &'static str, random: &mut StdRng) -> anyhow::Result<()> {
        let cluster = self.cluster()?;
        let leader = cluster.any_leader().await?;
        let time = seconds(random, LONGER_THAN_A_LEASE);
        let what = format!("{} for {:.1} s", cluster.members[leader].name, time.as_secs_f64());
        let running = self.journal.inject(sort, &what);
        cluster.signal(leader, Signal::SIGSTOP)?;
        sleep(time).await;
        cluster.signal(leader, Signal::SIGCONT)?;
        cluster.until_another_leads(leader).await?;
        cluster.until_whole().await?;
        self.journal.over(&running);
        Ok(())
    }

    /// Nothing passes one of the leader's networks: without etcd it gives up the lead, without standbys nothing commits.
    pub(super) async fn cut_off_the_leader(
        &self,
        sort: &'static str,
        network: fn(&Member) -> &Proxy,
        time: Duration,
    ) -> anyhow::Result<()> {
        let cluster = self.cluster()?;
        let member = &cluster.members[cluster.any_leader().await?];
        let running = self.journal.inject(sort, &format!("{} for {:.1} s", member.name, time.as_secs_f64()));
        network(member).flow(Flow::Stalled);
        sleep(time).await;
        network(member).cut(Told::Both);
        network(member).heal();
        cluster.until_whole().await?;
        self.journal.over(&running);
        Ok(())
    }

    /// Both standbys die: nothing is acknowledged until one is back.
    pub(super) async fn lose_the_standbys(&self, sort: &'static str, random: &mut StdRng) -> anyhow::Result<()> {
        let cluster = self.cluster()?;
        let leader = cluster.any_leader().await?;
        let time = seconds(random, 2.0..12.0);
        let running = self.journal.inject(sort, &format!("for {:.1} s", time.as_secs_f64()));
        for standby in (0..MEMBERS).filter(|member| *member != leader) {
            cluster.signal(standby, Signal::SIGKILL)?;
        }
        sleep(time).await;
        for standby in (0..MEMBERS).filter(|member| *member != leader) {
            cluster.revive(standby)?;
        }
        cluster.until_whole().await?;
        self.journal.over(&running);
        Ok(())
    }

    /// An operator hands the lead to another member.
    pub(super) async fn switch_over(&self, sort: &'static str, random: &mut StdRng) -> anyhow::Result<()> {
        let cluster = self.cluster()?;
        let leader = cluster.any_leader().await?;
        // With synchronous replication only a standby that a commit waits for may take over: Patroni refuses the other.
        let first = (leader + random.random_range(1..MEMBERS)) % MEMBERS;
        let second = (0..MEMBERS).find(|member| ![leader, first].contains(member)).unwrap_or(first);
        let running = self.journal.inject(sort, &format!("from {}", cluster.members[leader].name));
        if cluster.switch_over(leader, first).await.is_err() {
            cluster.switch_over(leader, second).await?;
        }
        cluster.until_another_leads(leader).await?;
        cluster.until_whole().await?;
        self.journal.over(&running);
        Ok(())
    }

    fn cluster(&self) -> anyhow::Result<std::sync::Arc<Cluster>> {
        self.fleet.server().cluster()
    }
}
