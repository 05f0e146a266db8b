//! Faults of networks: between a process and the database, and between workers and the downstream.

use std::time::Duration;

use rand::{Rng, rngs::StdRng};
use tokio::time::sleep;

use super::{Injector, seconds};
use crate::proxy::{Flow, Proxy, Told};

impl Injector {
    /// The connections of one process to the database, or of the callers that submit by SQL.
    fn a_network(&self, random: &mut StdRng) -> (&str, &Proxy) {
        let units: Vec<_> = self.fleet.units().collect();
        match random.random_range(0..=units.len()) {
            0 => ("callers", &self.fleet.callers),
            number => (&units[number - 1].name, &units[number - 1].database),
        }
    }

    /// No byte passes, or no answer does, and no connection is closed. Then it heals, or the connections are lost.
    pub(super) async fn stall(&self, random: &mut StdRng, mute: bool) -> anyhow::Result<()> {
        let (name, network) = self.a_network(random);
        let time = seconds(random, 1.0..12.0);
        let lost = random.random_bool(0.5);
        let sort = if mute { "network_mute" } else { "network_stalled" };
        let running = self.journal.inject(
            sort,
            &format!(
                "{name} for {:.1} s, {}",
                time.as_secs_f64(),
                if lost { "and the connections are lost" } else { "and then it goes on" }
            ),
        );
        network.flow(if mute { Flow::Mute } else { Flow::Stalled });
        sleep(time).await;
        if lost {
            network.cut(Told::Both);
        }
        network.heal();
        self.journal.over(&running);
        Ok(())
    }

    /// Connections are lost: both ends learn it, or one of them only after a while.
    pub(super) async fn cut(&self, random: &mut StdRng, half: bool) -> anyhow::Result<()> {
        let (name, network) = self.a_network(random);
        let (sort, told, words) = match (half, random.random_bool(0.5)) {
            (false, _) => ("network_cut", Told::Both, "both ends know"),
            (true, false) => ("network_half_open", Told::Server, "the database knows"),
            (true, true) => ("network_half_open", Told::Caller, "the process knows"),
        };
        let time = seconds(random, 0.5..8.0);
        let running = self.journal.inject(sort, &format!("{name} for {:.1} s, {words}", time.as_secs_f64()));
        network.cut(told);
        if !half {
            network.flow(Flow::Refused);
        }
        sleep(time).await;
        network.heal();
        self.journal.over(&running);
        Ok(())
    }

    /// Workers do not reach the downstream, or get no answers from it.
    pub(super) async fn lose_the_downstream(
        &self,
        sort: &'static str,
        time: Duration,
        flow: Flow,
    ) -> anyhow::Result<()> {
        let running = self.journal.inject(sort, &format!("{flow:?} for {:.1} s", time.as_secs_f64()));
        let network = &self.fleet.to_downstream;
        network.flow(flow);
        sleep(time).await;
        network.heal();
        self.journal.over(&running);
        Ok(())
    }
}
