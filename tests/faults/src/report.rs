//! The report of a run.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    checker::{self, Verdict},
    evidence::{Evidence, PolicyFigures},
    inject::is_sort_of_cluster,
    journal::Disturbance,
    ledger::Entries,
};

/// How many violations of a rule are shown with everything known about their requests.
const SHOWN: usize = 5;

/// The results of a run.
#[derive(Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// How long faults were injected.
    pub time: Duration,
    /// Faults by sort.
    pub injected: Vec<(&'static str, u64)>,
    /// Requests by kind and status.
    pub requests: Vec<(String, String, u64)>,
    /// How many passed checks and receipts each worker has settled.
    pub settled: BTreeMap<String, u64>,
    /// The callers' ledger.
    pub ledger: Entries,
    /// For each sort of fault of a cluster, the longest time without a promise around each, in seconds, the shortest first.
    pub gaps: BTreeMap<&'static str, Vec<f64>>,
    /// The checks.
    pub verdict: Verdict,
    /// Violations with everything known about their requests.
    pub shown: Vec<String>,
    /// Sends that arrived.
    pub sends: u64,
    /// The retries that were measured, and the figures of their policy.
    pub retries: Option<(checker::Retries, PolicyFigures)>,
    /// Each quota: how often its requests were counted, how many there were at most, how many there may be.
    pub quotas: BTreeMap<String, (u64, i64, i64)>,
    /// Requests of which it is unknown whether they were executed.
    pub unresolved: usize,
    /// Requests that retention has deleted.
    pub removed: usize,
    /// Requests that were redriven.
    pub redriven: usize,
    /// Sends of hedged kinds beyond one for each claim.
    pub hedges: usize,
    /// How often a breaker opened.
    pub opened: usize,
    /// The process figures.
    pub processes: Processes,
}

/// Figures of the processes of a run.
#[derive(Debug, Clone, Copy)]
pub struct Processes {
    /// The most memory that a node has needed, in KiB.
    pub node_memory: u64,
    /// Starts that gave up because there was no database, and were repeated.
    pub given_up: u64,
}

impl Report {
    /// The results in the evidence, with the checker's verdict.
    #[must_use]
    pub fn of(
        (seed, time): (u64, Duration),
        injected: Vec<(&'static str, u64)>,
        ledger: Entries,
        disturbances: &[Disturbance],
        processes: Processes,
        evidence: &Evidence,
        verdict: Verdict,
    ) -> Self {
        let mut requests = BTreeMap::<(String, String), u64>::new();
        let mut settled = BTreeMap::new();
        for life in evidence.lives.values() {
            let key = (life.kind.to_string(), life.status.to_string());
            *requests.entry(key).or_default() += 1;
            for event in &life.events {
                if let ("readiness_passed" | "receipt", Some(worker)) = (&*event.cause, &event.worker) {
                    *settled.entry(worker.to_string()).or_default() += 1;
                }
            }
        }
        let mut shown = Vec::new();
        for check in &verdict.0 {
            for violation in check.violations.iter().take(SHOWN) {
                let life = violation.id.map(|id| checker::whole_life(evidence, id));
                shown.push(format!(
                    "VIOLATION of \"{}\": {}\n    {}",
                    check.rule,
                    violation.what,
                    life.unwrap_or_default()
                ));
            }
        }
        let mut quotas = BTreeMap::new();
        for count in &evidence.quota_counts {
            let (counts, most, high_water) = quotas.entry(count.gate.clone()).or_insert((0, 0, 0));
            *counts += 1;
            *most = count.live.max(*most);
            *high_water = count.high_water;
        }
        let sends = evidence.downstream.iter().filter(|seen| &*seen.event == "send");
        Self {
            seed,
            time,
            injected,
            requests: requests.into_iter().map(|((kind, status), count)| (kind, status, count)).collect(),
            settled,
            gaps: gaps(disturbances, &ledger.promised_us),
            ledger,
            sends: sends.count() as u64,
            shown,
            removed: evidence.lives.values().filter(|life| life.removed_us.is_some()).count(),
            unresolved: evidence.lives.values().filter(|life| &*life.executed == "unknown").count(),
            redriven: evidence.redriven.len(),
            hedges: checker::hedges(evidence).values().map(|(_, hedges)| hedges).sum(),
            opened: evidence.flips.iter().filter(|flip| &*flip.state == "open").count(),
            retries: evidence
                .measured
                .as_ref()
                .map(|measured| (checker::Retries::of(evidence), measured.policy.clone())),
            quotas,
            verdict,
            processes,
        }
    }

    /// Whether every promise held.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.verdict.holds()
    }
}

/// The longest time without a promise while each fault of a cluster lasted.
fn gaps(disturbances: &[Disturbance], promised_us: &[i64]) -> BTreeMap<&'static str, Vec<f64>> {
    let mut promised = promised_us.to_vec();
    promised.sort_unstable();
    let mut gaps = BTreeMap::<_, Vec<f64>>::new();
    for fault in disturbances.iter().filter(|fault| is_sort_of_cluster(fault.sort)) {
        let (from, to) = (fault.from_us, fault.to_us);
        let longest =
            promised.windows(2).filter(|pair| pair[1] > from && pair[0] < to).map(|pair| pair[1] - pair[0]).max();
        gaps.entry(fault.sort).or_default().push(longest.unwrap_or_default() as f64 / 1e6);
    }
    for gaps in gaps.values_mut() {
        gaps.sort_by(f64::total_cmp);
    }
    gaps
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.shown {
            writeln!(f, "{violation}")?;
        }
        let injected: u64 = self.injected.iter().map(|(_, count)| count).sum();
        writeln!(f, "\nSeed {}: {injected} faults in {}", self.seed, humantime::format_duration(self.time))?;
        for (sort, count) in &self.injected {
            writeln!(f, "  {sort:<24} {count:>6}")?;
        }
        let requests: u64 = self.requests.iter().map(|(_, _, count)| count).sum();
        writeln!(f, "{requests} requests")?;
        for (kind, status, count) in &self.requests {
            writeln!(f, "  {kind:<24} {status:<18} {count:>9}")?;
        }
        let settled: Vec<_> = self.settled.iter().map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(f, "passed checks and receipts, by worker: {}", settled.join(", "))?;
        let ledger = &self.ledger;
        writeln!(
            f,
            "{} promises, {} submissions repeated under their key, {} times told to come later, {} requests without an \
             answer, {} calls of nonsense, {} ends told, {} sends arrived, {} starts without a database, {} MiB in a node \
             at most",
            ledger.promises.len(),
            ledger.repeated,
            ledger.put_off,
            ledger.unanswered,
            ledger.nonsense,
            ledger.told.len(),
            self.sends,
            self.processes.given_up,
            self.processes.node_memory >> 10,
        )?;
        let answered = |status| ledger.cancels.iter().filter(|cancel| cancel.status == status).count();
        let resolved = |executed| ledger.resolutions.iter().filter(|word| word.executed == executed).count();
        writeln!(
            f,
            "cancels: {} at once, {} during a send, {} too late; operators: {} executed, {} not executed; {} requests \
             unresolved",
            answered(200),
            answered(202),
            answered(409),
            resolved(true),
            resolved(false),
            self.unresolved,
        )?;
        if let Some((retries, policy)) = &self.retries {
            writeln!(f, "retries of {retries}\n  computed: {policy}")?;
        }
        for (gate, (counts, most, high_water)) in &self.quotas {
            writeln!(f, "quota \"{gate}\": at most {most} of {high_water} requests, counted {counts} times")?;
        }
        for (sort, gaps) in &self.gaps {
            let [median, worst] = [gaps[gaps.len() / 2], gaps[gaps.len() - 1]];
            let times = gaps.len();
            writeln!(f, "{sort}: {times} times, without a promise for {median:.1} s (median), {worst:.1} s (worst)")?;
        }
        writeln!(
            f,
            "{} requests deleted by retention, {} redriven, {} hedges, a breaker opened {} times",
            self.removed, self.redriven, self.hedges, self.opened
        )?;
        writeln!(f, "Checked")?;
        write!(f, "{}", self.verdict)?;
        write!(
            f,
            "{}",
            match self.verdict.violations() {
                0 => "Every promise held.".to_owned(),
                count => format!("{count} VIOLATIONS. Again with: --seed {}", self.seed),
            }
        )
    }
}
