//! Is a checker that says "every promise held" to be believed? A database, a log and a ledger made by hand, in which all
//! is well, and then one thing wrong at a time: each is found, by the rule it breaks and by no other.

mod breakers;
mod keys;
mod limits;
mod lives;
mod promises;
mod redrive;
mod retention;
mod sends;
mod story;
mod webhooks;

use tidegate_faults::checker::Verdict;

use self::story::told;

const ENDED: &str = "every request has reached exactly one terminal status";
const LEGAL: &str = "events form a legal path";
const TOLD_BY_EVENTS: &str = "events tell what the row says";
const POISON: &str = "poison payloads end in failure with their reason";
const CARRIED: &str = "a default policy gives up no request in half of its deadline";
const REST: &str = "no queue holds a message when all is at rest";
const PROMISED: &str = "every request that was promised exists, with its own payload";
const TOLD: &str = "what callers were told of an end is what it was";
const ANSWERED: &str = "what the downstream answered and was taken is what the caller gets";
const KEYS: &str = "no idempotency key is lost: the same key is the same request";
const EXECUTED: &str = "no key is executed twice while it stands";
const FACTS: &str = "what the database says of an execution is so";
const TOLD_OF_EXECUTION: &str = "what callers are told of an execution is so";
const NOT_SENT_AGAIN: &str = "a request whose cancel was answered is not sent again";
const KNOWN: &str = "every send belongs to a submitted request";
const CLAIMED: &str = "each send was claimed before it left";
const ONCE: &str = "what may leave once only left once at most";
const DONE: &str = "what has a receipt was taken by the downstream once, and not rejected";
const TWICE: &str = "the downstream has taken nothing twice";
const SINGLE: &str = "one submission without a key makes one request";
const GIVEN: &str = "no request has an answer that the downstream has not given";
const EFFECTS: &str = "an exactly_once request has one effect if it has its receipt, or else none";
const CLAIM_RATE: &str = "claims keep the rate D, also after kills";
const SEND_RATE: &str = "the downstream sees no more than its rate in any second";
const CHECKS: &str = "no more readiness checks run at once than allowed";
const QUOTA: &str = "no quota is exceeded at any moment";
const QUOTA_AT_REST: &str = "a quota is free and open when all is at rest";
const EARLY: &str = "only requests that have ended are deleted, after their retention";
const LATE: &str = "a request is deleted when its retention is over";
const GONE: &str = "a request that is deleted leaves no history";
const DAYS: &str = "the partition of a day goes with its last request, and not before";
const REDRIVEN: &str = "a failed request is redriven once at most, as a request like it";
const REACHED: &str = "each end with a callback reaches its receiver, and no other end";
const SAME: &str = "every attempt of a delivery has its id, its body and a number of its own";
const TOLD_BY_WEBHOOK: &str = "a webhook tells the end that its request has";
const SIGNED: &str = "each webhook is signed with a secret that was in force";
const HEDGES: &str = "hedges are no larger a share of the calls than their policy allows";
const FLIPS: &str = "a breaker goes from closed to open, to half open after its time, and back";
const PROBES: &str = "while a breaker is not closed nothing is sent but its probes";
const BESIDES: &str = "nothing unexpected was answered, and no process ended by itself";

/// The rules that are broken.
fn broken(verdict: &Verdict) -> Vec<&'static str> {
    let broken = verdict.0.iter().filter(|check| !check.violations.is_empty());
    broken.map(|check| check.rule).collect()
}

/// An error in the database alone breaks these rules and no others.
async fn found(sql: &str, rules: &[&str]) {
    let verdict = told(sql, &[], |_| {}).await;
    assert_eq!(broken(&verdict), rules, "{sql}\n{verdict}");
}

/// An error in the downstream's log alone breaks these rules and no others.
async fn seen(log: &[(f64, u128, &str, &str)], rules: &[&str]) {
    let verdict = told("", log, |_| {}).await;
    assert_eq!(broken(&verdict), rules, "{log:?}\n{verdict}");
}

#[tokio::test]
async fn a_story_in_which_all_is_well_breaks_no_rule_and_every_rule_has_looked() {
    let verdict = told("", &[], |_| {}).await;
    assert!(verdict.holds(), "{verdict}");
    for check in &verdict.0 {
        assert!(check.examined > 0, "nothing was looked at: {}", check.rule);
    }
}
