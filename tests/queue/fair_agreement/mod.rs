//! Does a fair queue serve in the order of the model, whatever happens to its requests?
//!
//! Random steps on both: submissions under many submitters, few of which submit most, claims, settles, snoozes,
//! cancels, leases that run out, duties, and transactions that roll back. Each claim must take the messages that the
//! model says, in its order; positions must be those of the model, and the counts of turns and journal add up to the
//! messages. The clock stands still between the steps.
//!
//! `TIDEGATE_SEED` names one sequence (a failure prints its own). `mutants` shows that the steps find what is wrong.

mod model;
mod mutants;

use std::{collections::BTreeMap, env};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::fair_queues::fair_queue;
use crate::support::{
    TestDatabase, campaign,
    race::{Held, Session, leases, sound},
};

use self::model::{Instant, Key, Model, Number};

/// The seed of a sequence that finds the mutants in this many steps.
const TELLING: u64 = 15;
const STEPS: u32 = 100;
/// How many submitters there are.
const KEYS: u32 = 40;
/// Keys whose counts are wrong. Turns and journal together count each message once, and those that are due count the
/// messages that may be taken.
const WRONG_COUNTS: &str = "
    with counted as (
      select t.key, t.waiting as n, true as is_due from tidegate.turn_payf as t
      union all
      select a.key, a.n, a.at <= tidegate.clock() from tidegate.arrival_payf as a
      union all
      select m.fair_key, -1, m.vt <= tidegate.clock() from pgmq.q_payf as m
    )
    select c.key, sum(c.n), sum(c.n) filter (where c.is_due)
    from counted as c
    group by c.key
    having sum(c.n) <> 0 or sum(c.n) filter (where c.is_due) <> 0";

/// What is put back when a transaction rolls back.
#[derive(Clone, Default)]
struct State {
    model: Model,
    /// The keys and ids of all requests.
    requests: BTreeMap<Number, (Key, String)>,
    held: Vec<Held>,
}

/// A fair queue and its model.
struct Trial {
    session: Session,
    random: StdRng,
    state: State,
    /// Whether more is submitted than claimed.
    is_filling: bool,
    /// What has been done.
    done: Vec<String>,
}

impl Trial {
    async fn begin(database: &TestDatabase, seed: u64) -> Self {
        database
            .execute(
                "update tidegate.kind set deadline = '30 days' where name = 'pay';
                 update tidegate.policy
                 set base_ms = 0, jitter_ms = 0, deadline_ms = 2000000000, retry_on = '{5xx}',
                   respect_retry_after = true
                 where kind = 'pay' and stage = 'tx'",
            )
            .await;
        database.stop_clock().await;
        let now = database.number("extract(epoch from tidegate.clock()) * 1000000").await;
        let state = State { model: Model::new(now), ..State::default() };
        let random = StdRng::seed_from_u64(seed);
        let session = Session::open(database).await;
        Self { session, random, state, is_filling: true, done: Vec::new() }
    }

    /// One step of any sort; how the database and the model differ.
    async fn step(&mut self) -> Result<(), String> {
        if self.random.random_bool(0.02) {
            self.is_filling = !self.is_filling;
        }
        let submissions = if self.is_filling { 40 } else { 15 };
        match self.random.random_range(0..100) {
            0..5 => self.roll_back().await?,
            5..11 => self.pass().await,
            11..16 => self.cancel().await,
            16..20 => self.fold().await,
            20..22 => self.execute("select tidegate.rescan_queue('payf')").await,
            22..24 => self.lapse().await?,
            24..26 => self.compare_positions().await?,
            26..40 => self.settle().await,
            roll if roll < 40 + submissions => self.submit().await,
            _ => self.claim().await?,
        }
        Ok(())
    }

    async fn execute(&mut self, sql: &str) {
        self.done.push(sql.to_owned());
        self.session.execute(sql).await;
    }

    /// A submitter: half of the time one of five.
    fn key(&mut self) -> Key {
        let place = f64::from(KEYS) * self.random.random::<f64>().powi(3);
        (1..KEYS).take_while(|key| f64::from(*key) <= place).count()
    }

    async fn submit(&mut self) {
        let count = if self.random.random_bool(0.8) { 1 } else { self.random.random_range(2..40) };
        let delay = if self.random.random_bool(0.1) { self.random.random_range(1..4000) } else { 0 };
        let keys: Vec<Key> = (0..count).map(|_| self.key()).collect();
        let names: Vec<_> = keys.iter().map(|key| format!("'k{key}'")).collect();
        let not_before =
            if delay > 0 { format!("tidegate.clock() + interval '{delay} ms'") } else { "null".to_owned() };
        let submit = format!(
            "select id from tidegate.submit_group('pay', array_fill('{{}}'::jsonb, array[{count}]),
               submitters => array[{}], not_before => {not_before})",
            names.join(", ")
        );
        self.done.push(format!("submit under {keys:?} to be taken after {delay} ms"));
        let ids = self.session.texts(&submit).await;
        let numbers = format!(
            "select r.msg_id from unnest('{{{}}}'::uuid[]) with ordinality as i(id, place)
             join tidegate.request as r on r.id = i.id order by i.place",
            ids.join(",")
        );
        let numbers: Vec<Number> = self.session.texts(&numbers).await.iter().map(|n| n.parse().unwrap()).collect();
        let messages: Vec<_> = keys.iter().copied().zip(numbers).collect();
        for ((key, number), id) in messages.iter().zip(ids) {
            self.state.requests.insert(*number, (*key, id));
        }
        let at = if delay > 0 { self.state.model.now + delay * 1000 } else { Instant::MIN };
        self.state.model.arrive(&messages, at, true);
    }

    async fn claim(&mut self) -> Result<(), String> {
        let limit = *[1, 1, 1, 2, 5, 20, 100].choose(&mut self.random).unwrap();
        self.done.push(format!("claim {limit}"));
        let held = self.session.claim_for("payf", limit, "24 hours").await;
        let taken: Vec<_> = held.iter().map(|held| self.message(held)).collect();
        let expected = self.state.model.claim(limit.try_into().unwrap());
        self.state.held.extend(held);
        if taken == expected { Ok(()) } else { Err(format!("taken:\n{taken:?}\nthe model:\n{expected:?}")) }
    }

    /// The key and the number of what is held.
    fn message(&self, held: &Held) -> (Key, Number) {
        (self.state.requests[&held.msg_id].0, held.msg_id)
    }

    /// Some of what is held, which is held no more.
    fn some_held(&mut self) -> Vec<Held> {
        let count = *[1, 5, 20].choose(&mut self.random).unwrap();
        let count = count.min(self.state.held.len());
        (0..count).map(|_| self.state.held.swap_remove(self.random.random_range(0..self.state.held.len()))).collect()
    }

    async fn settle(&mut self) {
        let held = self.some_held();
        let messages: Vec<_> = held.iter().map(|held| self.message(held)).collect();
        let (count, leases) = (held.len(), leases(&held));
        let (settle, back) = match self.random.random_range(0..10) {
            0..6 => (format!("'{{receipt}}', responses => array_fill('1'::jsonb, array[{count}])"), None),
            6..8 => ("'{released}'".to_owned(), Some(Instant::MIN)),
            _ => {
                let after = *[0, 500, 2000, 5000].choose(&mut self.random).unwrap();
                let retry = format!(
                    r#"'{{retry}}', errors => array_fill('{{"code": "http_503"}}'::jsonb, array[{count}]),
                       after => array_fill(interval '{after} ms', array[{count}]),
                       may_have_left => array_fill(false, array[{count}])"#
                );
                (retry, Some(self.state.model.now + after * 1000))
            }
        };
        self.done.push(format!("settle {messages:?} as {settle}"));
        let settled = self.session.texts(&format!("select req_status from tidegate.settle({leases}, {settle})")).await;
        let status = if back.is_some() { "processing" } else { "completed" };
        assert_eq!(settled, vec![status; count], "{settle}");
        if let Some(at) = back {
            self.state.model.arrive(&messages, at, false);
        }
    }

    /// A lease runs out: the next claim puts its requests back, and takes none.
    async fn lapse(&mut self) -> Result<(), String> {
        let token = |held: &Held| held.lease.split(',').nth(1).unwrap().to_owned();
        let Some(lapsed) = self.state.held.choose(&mut self.random).map(token) else { return Ok(()) };
        self.execute(&format!("update tidegate.claim set until = tidegate.clock() where token = {lapsed}")).await;
        let taken = self.session.claim_for("payf", 5, "24 hours").await;
        let lost: Vec<_> = self.state.held.extract_if(.., |held| token(held) == lapsed).collect();
        let messages: Vec<_> = lost.iter().map(|held| self.message(held)).collect();
        self.done.push(format!("a claim that puts back {messages:?}"));
        self.state.model.arrive(&messages, Instant::MIN, false);
        if taken.is_empty() { Ok(()) } else { Err(format!("taken beside a lease that has run out: {taken:?}")) }
    }

    /// One message, or those of a key.
    async fn cancel(&mut self) {
        let messages = self.state.model.messages();
        let Some(chosen) = messages.choose(&mut self.random) else { return };
        let is_alone = self.random.random_bool(0.5);
        for message in
            messages.iter().filter(|message| *message == chosen || !is_alone && message.0 == chosen.0).take(20)
        {
            let (_, id) = self.state.requests[&message.1].clone();
            self.done.push(format!("cancel {message:?}"));
            let outcome = self.session.text(&format!("select outcome from tidegate.cancel('{id}')")).await;
            assert_eq!(outcome, "cancelled");
            self.state.model.remove(*message);
        }
    }

    async fn fold(&mut self) {
        self.execute("select tidegate.fold_turns('payf')").await;
        self.state.model.fold();
    }

    /// How many are served before some requests that wait, if no other comes.
    async fn compare_positions(&mut self) -> Result<(), String> {
        self.fold().await;
        let line = self.state.model.line();
        let places: Vec<usize> = (0..line.len()).collect();
        let places: Vec<usize> = places.choose_multiple(&mut self.random, 5).copied().collect();
        let ids: Vec<_> = places.iter().map(|place| self.state.requests[&line[*place].1].1.clone()).collect();
        let positions = format!(
            "select tidegate.request_position(i.id) from unnest('{{{}}}'::uuid[]) with ordinality as i(id, place)
             order by i.place",
            ids.join(",")
        );
        let positions = self.session.texts(&positions).await;
        let expected: Vec<_> = places.iter().map(usize::to_string).collect();
        if positions == expected {
            return Ok(());
        }
        let messages: Vec<_> = places.iter().map(|place| line[*place]).collect();
        Err(format!("positions of {messages:?}:\n{positions:?}\nthe model:\n{expected:?}"))
    }

    async fn pass(&mut self) {
        let passed = self.random.random_range(1..3000);
        self.execute(&format!("update public.test_clock set at = at + interval '{passed} ms'")).await;
        self.state.model.now += passed * 1000;
    }

    /// A transaction of some steps that rolls back.
    async fn roll_back(&mut self) -> Result<(), String> {
        let before = self.state.clone();
        self.execute("begin").await;
        for _ in 0..self.random.random_range(1..4) {
            match self.random.random_range(0..6) {
                0 => self.submit().await,
                1 => self.settle().await,
                2 => self.cancel().await,
                _ => self.claim().await?,
            }
        }
        self.execute("rollback").await;
        self.state = before;
        Ok(())
    }

    /// Every message is counted once.
    async fn count(&mut self) -> Result<(), String> {
        let wrong = self.session.texts(WRONG_COUNTS).await;
        if wrong.is_empty() { Ok(()) } else { Err(format!("keys, all and what is due too many:\n{wrong:#?}")) }
    }
}

/// Gives a sequence of steps to both; where they differ.
async fn agree(database: &TestDatabase, seed: u64, steps: u32) -> Result<(), String> {
    let mut trial = Trial::begin(database, seed).await;
    for step in 0..steps {
        let mut outcome = trial.step().await;
        if step % 5 == 4 && outcome.is_ok() {
            outcome = trial.count().await;
        }
        outcome.map_err(|difference| {
            let done = trial.done[trial.done.len().saturating_sub(60)..].join("\n");
            format!("with TIDEGATE_SEED={seed}, in step {step}, after\n{done}\n{difference}")
        })?;
    }
    sound(database).await;
    Ok(())
}

fn given_seed() -> Option<u64> {
    let seed = env::var("TIDEGATE_SEED").ok().filter(|seed| !seed.is_empty());
    seed.map(|seed| seed.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fair_queue_serves_in_the_order_of_the_model() {
    for seed in given_seed().map_or_else(|| vec![TELLING, rand::random()], |seed| vec![seed]) {
        // A panic does not.
        println!("TIDEGATE_SEED={seed}");
        let database = fair_queue("submitter").await;
        let agreed = agree(&database, seed, campaign(250, 25_000)).await;
        agreed.unwrap_or_else(|difference| panic!("{difference}"));
    }
}
