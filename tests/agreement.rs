//! Do the database and a plain model agree, whatever several actors do, and in which order?
//!
//! Random sequences of commands by callers, two workers, a downstream, operators and time are given to both. After each
//! command both must have answered the same, and be in the same state: statuses, attempts and causes, messages in their
//! order and who holds them, gates and depths, keys, kept responses.
//!
//! `TIDEGATE_SEED` names the sequences (a failure tells its own), `TIDEGATE_SEQUENCES` how many there are.

mod commands;
mod database;
mod model;

use std::{
    cell::{Cell, RefCell},
    env,
};

use proptest::test_runner::{
    Config, RngAlgorithm, TestCaseError, TestCaseResult, TestError, TestRng, TestRunner,
};

use self::{
    commands::{Choice, Command},
    database::Database,
    model::{Answer, Model},
};

fn number(variable: &str) -> Option<u64> {
    let number = env::var(variable).ok().filter(|number| !number.is_empty());
    number.map(|number| number.parse().unwrap())
}

/// In which order several rows come is nobody's business, except where a claim hands them out.
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

#[test]
fn the_database_does_what_the_model_says() {
    let seed = number("TIDEGATE_SEED").unwrap_or_else(rand::random);
    let cases = number("TIDEGATE_SEQUENCES").unwrap_or(1000);
    println!("TIDEGATE_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: cases.try_into().unwrap(),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let database = RefCell::new(Database::new());
    let (sequences, commands) = (Cell::new(0), Cell::new(0));

    let outcome = runner.run(&commands::choices(), |choices| -> TestCaseResult {
        let mut database = database.borrow_mut();
        database.begin();
        commands.set(commands.get() + agree(&mut database, &choices)?);
        sequences.set(sequences.get() + 1);
        Ok(())
    });

    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("with TIDEGATE_SEED={seed}, {reason}"),
        Err(TestError::Abort(reason)) => panic!("with TIDEGATE_SEED={seed}: {reason}"),
    }
    println!("{} sequences, {} commands", sequences.get(), commands.get());
    database.borrow_mut().begin();
    assert_eq!(database.borrow().violations(), Vec::<String>::new());
}
