//! Functions that are wrong on purpose, one at a time: the short campaign has to detect each.

use rand::seq::IndexedRandom;
use tidegate::internals::schema;

use super::{agreement, database::Database, random_seeds};
use crate::support::campaign;

/// A wrong version of functions.
#[derive(Debug)]
struct Mutant {
    name: &'static str,
    /// The function whose file it is, what stands in it once, and what stands there instead.
    changes: &'static [(&'static str, &'static str, &'static str)],
}

/// The seeds of sequences that detect mutants: every campaign begins with them.
pub const TELLING: [u64; 39] = [
    0x6f9056bd6911e7c7, // a lost send that counts as unsent
    0x03c57c24845cc295, // a lost send that counts as unsent
    0x4157f41b89657877, // a refusal that forgets an earlier send
    0xa0c25edfcfaf32c8, // a cancel that is forgotten
    0xe76ece984618e8dd, // a settle without its fence
    0x14387c9630c6124e, // a settle without its fence
    0x5bc1510e68dfa592, // a token that stays when a message is given back
    0xa5da017c4e9db5b7, // a token that stays when a message is given back
    0x84d11fa9b1513c1c, // a window that never passes
    0x96999ea8ed000bde, // a window that never passes
    0x86867d8358ffb880, // a key that keeps a request that was not executed
    0xe797d51796877e59, // a key that keeps a request that was not executed
    0x6c103afd1fd8231a, // a claim with one slot too many
    0x0fdd66e123363211, // a claim with one slot too many
    0xa7fcd53431b837f8, // a claim in the other order
    0x711cfbb532736466, // a claim in the other order
    0xe76a9cd73747ab32, // a claim with one attempt less
    0xec7dd37f2184adff, // a claim with one attempt less
    0x72940fc46dee7999, // an extend of a lease that has run out
    0xd85829a30274305c, // an extend of a lease that has run out
    0x5f39dbac4d1e394a, // a gate that opens one request too early
    0xb316f978674da337, // a gate that opens one request too early
    0x9548f0e766ab3529, // a gate that opens one request too late
    0x9c5a7f2bb2caf5ba, // a gate that opens one request too late
    0xb49a753f4bcefa92, // a receipt that forgets the inbox
    0xc900362a467114e8, // a receipt that forgets the inbox
    0xcb991b241ef6e260, // a receipt taken back before it is there; a release whose claim was deleted by hand
    0xc8d8ad94eb9d6cf5, // an ended request that keeps its message
    0x911ef9acdfe9cd70, // an ended request that keeps its message
    0xaa569c095dc39ebe, // a retry against at_most_once
    0xbd7dbdda83c90be6, // a retry against at_most_once
    0xbb9977af6b11a8d1, // a rebuilt message that stays invisible
    0x10a72ddfd9fe2714, // a rebuilt message that stays invisible
    0x6d8681074b5b7022, // a release that keeps its attempt
    0x50ffc8460bea6691, // a release that keeps its attempt
    0x6cfe0913d22c3ca5, // a share too many
    0xd269cf2defed5080, // a share too many
    0x36c2e9d3def6de77, // a share too many in a group
    0x6c161befa4913d91, // a group whose second response answers, too
];

const MUTANTS: [Mutant; 25] = [
    Mutant {
        name: "a settle without its fence",
        changes: &[
            ("lock_held", "r.lease = l.token", "r.lease is not null"),
            ("settle_receipt", "r.lease = h.token", "r.lease is not null"),
        ],
    },
    Mutant {
        name: "a token that stays when a message is given back",
        changes: &[
            ("settle_snooze", "lease = null,", "lease = case when j.ended is null then r.lease end,"),
            ("settle_retry", "lease = null,", "lease = case j.cause when 'send_retried' then r.lease end,"),
        ],
    },
    Mutant {
        name: "a window that never passes",
        changes: &[(
            "key_stands",
            "return p_now < tidegate_internal.window_end(p_key.first_seen, p_key.dedup_window)",
            "return true",
        )],
    },
    Mutant {
        name: "a key that keeps a request that was not executed",
        changes: &[("key_stands", "when e.executed = 'no' or", "when")],
    },
    Mutant {
        name: "a key that is free after a send that may have been executed",
        changes: &[(
            "key_stands",
            "else p_now < tidegate_internal.window_end(p_request.finished_at, p_key.dedup_window)",
            "else false",
        )],
    },
    Mutant {
        name: "a window that ends while its request lives",
        changes: &[(
            "key_stands",
            "return true;",
            "return p_now < tidegate_internal.window_end(p_key.first_seen, p_key.dedup_window);",
        )],
    },
    Mutant {
        name: "a refusal that forgets an earlier send",
        changes: &[(
            "settle_ended",
            "tx_unsent = r.tx_unsent + h.refused,",
            "tx_unsent = case h.refused when 1 then r.tx_attempt else r.tx_unsent end,",
        )],
    },
    Mutant {
        name: "a lost send that counts as unsent",
        changes: &[
            (
                "executed_of_failed",
                "case when request.tx_attempt > request.tx_unsent then 'unknown' else 'no' end",
                "'no'",
            ),
            (
                "request_history",
                "and (r.tx_attempt > r.tx_unsent or e.evidence is not null)",
                "and r.tx_attempt > r.tx_unsent and r.cause not in ('deadline_exceeded', 'attempts_exhausted')",
            ),
        ],
    },
    Mutant {
        name: "a cancel that is forgotten",
        changes: &[("settle_retry", "when a.is_cancelled then 'cancelled'", "when false then 'cancelled'")],
    },
    Mutant {
        name: "a claim with one slot too many",
        changes: &[(
            "claim_limits",
            "v_concurrency - tidegate_internal.held_count(",
            "v_concurrency + 1 - tidegate_internal.held_count(",
        )],
    },
    Mutant {
        name: "a claim in the other order",
        changes: &[(
            "take_messages",
            "order by m.msg_id\n            limit p_limit - coalesce(",
            "order by m.msg_id desc\n            limit p_limit - coalesce(",
        )],
    },
    Mutant {
        name: "a claim with one attempt less",
        changes: &[
            ("claim_tx", "r.tx_attempt - r.tx_unsent <= (", "r.tx_attempt - r.tx_unsent < ("),
            (
                "end_unclaimed",
                "r.tx_attempt - r.tx_unsent > case p.semantics",
                "r.tx_attempt - r.tx_unsent >= case p.semantics",
            ),
            ("lock_lapsed", "h.tx_attempt - h.tx_unsent > p.attempts", "h.tx_attempt - h.tx_unsent >= p.attempts"),
        ],
    },
    Mutant {
        name: "an extend of a lease that has run out",
        changes: &[("extend", " or v_claim.until <= tidegate.clock()", "")],
    },
    Mutant {
        name: "a gate that opens one request too early",
        changes: &[
            ("gate_flip", "then p_depth <= g.low_water", "then p_depth <= g.low_water + 1"),
            ("gate_evaluate", "return v_depth <= v_gate.low_water and", "return v_depth <= v_gate.low_water + 1 and"),
        ],
    },
    Mutant {
        name: "a gate that opens one request too late",
        changes: &[(
            "gate_evaluate",
            "return v_depth <= v_gate.low_water and",
            "return v_depth < v_gate.low_water and",
        )],
    },
    Mutant {
        name: "a receipt that forgets the inbox",
        changes: &[("settle_receipt", "perform tidegate_internal.apply_inbox(v_moved.waiting);", "null;")],
    },
    Mutant {
        name: "a receipt that is taken back before it is there",
        changes: &[(
            "fail_receipt",
            "'{receipt_received}', 'failure', '{rejected}'",
            "'{receipt_received,tx_in_flight}', 'failure', '{rejected,rejected}'",
        )],
    },
    Mutant {
        name: "an ended request that keeps its message",
        changes: &[(
            "end_requests",
            "delete_messages(v_queue, v_unlocked)",
            "delete_messages(v_queue, v_unlocked[:0])",
        )],
    },
    Mutant {
        name: "a retry against at_most_once",
        changes: &[(
            "settle_retry",
            "when 'at_most_once' in ((a.policy).semantics, a.semantics) and a.left then",
            "when false then",
        )],
    },
    Mutant {
        name: "a rebuilt message that stays invisible",
        changes: &[("recover_queue", "select m.msg_id, '-infinity', jsonb", "select m.msg_id, 'infinity', jsonb")],
    },
    Mutant {
        name: "a release that keeps its attempt",
        changes: &[(
            "settle_released",
            "tx_attempt = r.tx_attempt - (h.to_status = 'processing' and r.tx_attempt > 0)::integer",
            "tx_attempt = r.tx_attempt",
        )],
    },
    Mutant {
        name: "a share too many",
        changes: &[("apply_response", "< v_request.response_threshold then", "<= v_request.response_threshold then")],
    },
    Mutant {
        name: "a share too many in a group",
        changes: &[(
            "judge_responses",
            "when b.shares_before + 1 = b.response_threshold",
            "when b.shares_before = b.response_threshold",
        )],
    },
    Mutant {
        name: "a group whose second response answers, too",
        changes: &[("judge_responses", "case b.nth when 1 then 'answer' else 'singly' end", "'answer'")],
    },
    Mutant {
        name: "a group that forgets which requests have ended",
        changes: &[("judge_responses", "when b.is_of_an_ended then", "when false then")],
    },
];

impl Mutant {
    /// The files that it changes, as they are then.
    fn sql(&self) -> Vec<String> {
        let files = schema::sql_files();
        let changed = self.changes.iter().map(|(function, from, to)| {
            let path = format!("/{function}.sql");
            let file = files.iter().find(|(name, _)| name.ends_with(&path));
            let (_, sql) = file.unwrap_or_else(|| panic!("{}: there is no {path}", self.name));
            assert_eq!(sql.matches(from).count(), 1, "{}: {path} has {from:?} once", self.name);
            sql.replace(from, to)
        });
        changed.collect()
    }

    /// The database, with it.
    fn database(&self) -> Database {
        let database = Database::new();
        for sql in self.sql() {
            database.apply(&sql);
        }
        database.apply("select tidegate_internal.build_queue_functions()");
        database
    }

    /// What to do about a mutant that the telling sequences no longer find.
    fn searched_for(&self) -> String {
        let seeds: Vec<u64> = random_seeds(5000).collect();
        match agreement(self.database(), &seeds, 0) {
            Err(found) => format!("add {:#018x} to TELLING", seeds[found.after]),
            Ok(_) => "no sequence detects it".to_owned(),
        }
    }
}

#[test]
fn every_mutant_fits_the_functions_of_today() {
    for mutant in &MUTANTS {
        mutant.sql();
    }
}

/// One at random in a short campaign.
#[test]
fn a_short_campaign_finds_every_mutant() {
    let mut random = rand::rng();
    let mut missed = Vec::new();
    for mutant in MUTANTS.choose_multiple(&mut random, campaign(1, MUTANTS.len())) {
        let name = mutant.name;
        match agreement(mutant.database(), &TELLING, 0) {
            Err(found) => println!("{name}: found after {} sequences", found.after),
            Ok(_) => missed.push(format!("{name} is not found: {}", mutant.searched_for())),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
