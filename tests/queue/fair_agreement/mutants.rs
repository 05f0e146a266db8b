//! Functions of fair queues that are wrong on purpose, one at a time: the telling sequence has to detect each.

use rand::seq::IndexedRandom;
use tidegate::internals::schema;

use super::{STEPS, TELLING, agree, given_seed};
use crate::{
    queue::fair_queues::fair_queue,
    support::{TestDatabase, campaign},
};

/// A wrong version of a function.
struct Mutant {
    name: &'static str,
    function: &'static str,
    /// What stands in its file once, and what stands there instead.
    from: &'static str,
    to: &'static str,
}

const MUTANTS: [Mutant; 11] = [
    Mutant {
        name: "a key that comes back before its own tag",
        function: "fold_arrivals",
        from: "then greatest(t.tag, v_time)",
        to: "then v_time",
    },
    Mutant {
        name: "a new key that catches up with all others",
        function: "fold_arrivals",
        from: "k.key, v_time + case",
        to: "k.key, 0 + case",
    },
    Mutant {
        name: "keys that become active in the wrong order",
        function: "fold_arrivals",
        from: "order by known.first",
        to: "order by known.first desc",
    },
    Mutant {
        name: "a released message that its key has gone past",
        function: "fold_arrivals",
        from: "least(t.head, k.head)",
        to: "t.head",
    },
    Mutant {
        name: "a busy period that ends at the smallest tag",
        function: "virtual_time",
        from: "order by t.tag desc",
        to: "order by t.tag",
    },
    Mutant {
        name: "a key that ends although it has one more message",
        function: "serve_turns",
        from: "limit w.wanted + 1",
        to: "limit w.wanted",
    },
    Mutant {
        name: "a released message that waits for the duty",
        function: "put_back_to_turns",
        from: "count(*), true",
        to: "count(*), false",
    },
    Mutant {
        name: "marks that a rollback of two claims leaves too high",
        function: "take_turns",
        from: "v_marks := current_setting",
        to: "v_marks := true or current_setting",
    },
    Mutant {
        name: "a cancelled message that stays counted",
        function: "delete_from_turns",
        from: "-count(*)",
        to: "0",
    },
    Mutant {
        name: "a tag that is forgotten too early",
        function: "fold_turns",
        from: "when v_marks then v_time else",
        to: "when v_marks then v_time + 3 * 720720 else",
    },
    Mutant {
        name: "a position that leaves out an equal tag",
        function: "turns_before",
        from: "p.starts - k.tag - (k.no > p.no)::integer",
        to: "p.starts - k.tag - 1",
    },
];

impl Mutant {
    /// The file of the function, as it is then.
    fn sql(&self) -> String {
        let path = format!("fair/{}.sql", self.function);
        let file = schema::sql_files().into_iter().find(|(name, _)| name.ends_with(&path));
        let (_, sql) = file.unwrap_or_else(|| panic!("{}: there is no {path}", self.name));
        assert_eq!(sql.matches(self.from).count(), 1, "{}: {path} has {:?} once", self.name, self.from);
        sql.replace(self.from, self.to)
    }

    async fn database(&self) -> TestDatabase {
        let database = fair_queue("submitter").await;
        database.execute(&self.sql()).await;
        database.execute("select tidegate_internal.build_queue_functions()").await;
        database
    }
}

#[test]
fn every_mutant_fits_the_functions_of_today() {
    for mutant in &MUTANTS {
        mutant.sql();
    }
}

/// One at random in a short campaign.
#[tokio::test(flavor = "multi_thread")]
async fn the_telling_sequence_finds_every_mutant() {
    let some: Vec<_> = MUTANTS.choose_multiple(&mut rand::rng(), campaign(1, MUTANTS.len())).collect();
    let seed = given_seed().unwrap_or(TELLING);
    let mut missed = Vec::new();
    for mutant in some {
        match agree(&mutant.database().await, seed, STEPS).await {
            Err(found) => println!("{}: found {}", mutant.name, found.lines().next().unwrap_or_default()),
            Ok(()) => missed.push(mutant.name),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}
