//! A fair queue for tests, whose requests are named by their payloads.

use crate::support::{TestDatabase, race::Session};

/// A database with the fair queue `payf`, which the kinds `pay` and `refund` use.
pub(super) async fn fair_queue(by: &str) -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute(&format!(
            "select tidegate.queue_add('payf', 'tx', high_water => 100000, fair_by => '{by}');
             select tidegate.kind_add('pay', 'direct', tx_queue => 'payf');
             select tidegate.kind_add('refund', 'direct', tx_queue => 'payf');
             select tidegate.config_set('pay.tx.attempts', '50')"
        ))
        .await;
    database
}

/// Submits requests by their names, of which the first letter is the submitter (`-`: none).
pub(super) async fn submit_names(session: &mut Session, kind: &str, names: &str) {
    let names: Vec<_> = names.split(' ').collect();
    let payloads: Vec<_> = names.iter().map(|name| format!("'\"{name}\"'")).collect();
    let submitters: Vec<_> = names.iter().map(|name| format!("nullif('{}', '-')", &name[..1])).collect();
    let sql = format!(
        "select outcome from tidegate.submit_group('{kind}', array[{}]::jsonb[], submitters => array[{}])",
        payloads.join(", "),
        submitters.join(", ")
    );
    assert_eq!(session.texts(&sql).await, vec!["accepted"; names.len()]);
}

/// Claims up to `limit`: the names, in the order of the services.
pub(super) async fn served(session: &mut Session, limit: usize) -> String {
    session
        .texts(&format!("select c.payload #>> '{{}}' from tidegate.claim_tx('payf', 'w', {limit}, '1 hour') as c"))
        .await
        .join(" ")
}

/// The id of the request of a name.
pub(super) fn id_of(name: &str) -> String {
    format!("(select r.id from tidegate.request as r where r.payload = '\"{name}\"')")
}
