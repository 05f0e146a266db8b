//! Do the database and a plain model agree, whatever several actors do, and in which order?
//!
//! Random sequences of commands by callers, two workers, a downstream, operators and time are given to both. After each
//! command both must have answered the same, and be in the same state: statuses, attempts and causes, messages in their
//! order and their holders, gates and depths, keys, kept responses.
//!
//! `TIDEGATE_SEED` names one sequence (a failure prints its own), `TIDEGATE_SEQUENCES` how many random ones there are. `mutants`
//! shows that a short campaign notices when a function is wrong.

mod commands;
mod database;
mod model;
mod mutants;

use std::{
    cell::{Cell, RefCell},
    env,
};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestCaseResult, TestError, TestRng, TestRunner};

use crate::support::campaign;

use self::{
    commands::{
        Command,
        choice::{self, Choice},
    },
    database::Database,
    model::{Answer, Model},
    mutants::TELLING,
};

fn number(variable: &str) -> Option<u64> {
    let number = env::var(variable).ok().filter(|number| !number.is_empty());
    number.map(|number| number.parse().unwrap())
}

/// In which order several rows come says nothing, except where a claim hands them out.
fn in_order(command: &Command, answer: Answer) -> Answer {
    let mut answer = answer;
    if let (Ok(rows), false) = (&mut answer, matches!(command, Command::Claim { .. })) {
        rows.sort();
    }
    answer
}

/// Gives one sequence to both; how many commands it was.
fn agree(database: &mut Database, choices: &[Choice]) -> Result<u64, TestCaseError> {
    let mut model = Model::default();
    let mut done: Vec<String> = Vec::new();
    for (place, choice) in choices.iter().enumerate() {
        let Some(command) = choice.command(&model) else {
            continue;
        };
        done.push(format!("{command:?}"));
        let expected = in_order(&command, model.perform(&command));
        let answered = in_order(&command, database.perform(&command));
        let differ = |what: &str, database: &str, model: &str| {
            TestCaseError::fail(format!(
                "{what} differ after\n{}\nthe database:\n{database}\nthe model:\n{model}\n",
                done.join("\n")
            ))
        };
        if answered != expected {
            let (answered, expected) = (format!("{answered:?}"), format!("{expected:?}"));
            return Err(differ("answers", &answered, &expected));
        }
        // Every other time costs half, and what differs stays so.
        if place % 2 == 1 || place + 1 == choices.len() {
            let (described, expected) = (database.describe(), model.describe());
            if described != expected {
                return Err(differ("states", &described, &expected));
            }
        }
    }
    Ok(done.len() as u64)
}

/// Where a database and the model differ.
struct Difference {
    /// How many sequences agreed before.
    after: usize,
    reason: String,
}

/// Gives one random sequence for each seed to a database and to the model: how many commands those were, or where both
/// differ, after at most `shrinks` attempts at a shorter sequence.
fn agreement(database: Database, seeds: &[u64], shrinks: u32) -> Result<u64, Difference> {
    let database = RefCell::new(database);
    let commands = Cell::new(0);
    for (after, seed) in seeds.iter().enumerate() {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let config = Config { cases: 1, failure_persistence: None, max_shrink_iters: shrinks, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
        let outcome = runner.run(&choice::choices(), |choices| -> TestCaseResult {
            let mut database = database.borrow_mut();
            database.begin();
            commands.set(commands.get() + agree(&mut database, &choices)?);
            Ok(())
        });
        if let Err(TestError::Fail(reason, _) | TestError::Abort(reason)) = outcome {
            let reason = format!("with TIDEGATE_SEED={seed}, {reason}");
            return Err(Difference { after, reason });
        }
    }
    database.borrow_mut().begin();
    let violations = database.borrow().violations();
    if violations.is_empty() {
        Ok(commands.get())
    } else {
        Err(Difference { after: seeds.len(), reason: format!("{violations:#?}") })
    }
}

/// New random seeds.
fn random_seeds(count: usize) -> impl Iterator<Item = u64> {
    std::iter::repeat_with(rand::random).take(count)
}

#[test]
fn the_database_does_what_the_model_says() {
    let seeds: Vec<u64> = match (number("TIDEGATE_SEED"), number("TIDEGATE_SEQUENCES")) {
        (Some(seed), _) => vec![seed],
        (None, Some(count)) => random_seeds(count.try_into().unwrap()).collect(),
        (None, None) => TELLING.into_iter().chain(random_seeds(campaign(40, 1000))).collect(),
    };
    let commands =
        agreement(Database::new(), &seeds, 2000).unwrap_or_else(|difference| panic!("{}", difference.reason));
    println!("{} sequences, {commands} commands", seeds.len());
}
