//! Which roles make API keys, follow them, and read the secrets of webhooks?

use super::{calls_no_inner_function, is_denied, login, reads, writes_nothing};
use crate::support::{
    TestDatabase,
    sql::{column, run, value},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_makes_a_key_a_node_follows_it_and_no_other_role_reads_its_hash() {
    let database = TestDatabase::uninitialised().await;
    let create = "key_create('0123456789abcdef', 'shop', sha256('x'), '{submit}')";
    let revoke = "key_revoke('0123456789abcdef')";
    let changes = "key_changes()";

    for (role, may) in [
        ("admin", &[create, revoke, changes][..]),
        ("node", &[changes]),
        ("api", &[]),
        ("worker", &[]),
        ("reader", &[]),
    ] {
        let mut session = login(&database, role).await;
        for call in [create, revoke, changes] {
            let sql = format!("select * from tidegate.{call}");
            if may.contains(&call) {
                assert_eq!(column(&mut session, &sql).await.len(), 1, "{role}: {call}");
            } else {
                is_denied(&mut session, &sql).await;
            }
        }
        assert_eq!(value(&mut session, "select created_by from tidegate.key_list").await, "tidegate_test_admin");
        for sql in [
            "select secret_hash from tidegate.api_key",
            "select id from tidegate.api_key",
            "insert into tidegate.api_key default values",
            "update tidegate.api_key set scopes = '{admin}'",
            "delete from tidegate.api_key",
            "truncate tidegate.api_key",
        ] {
            is_denied(&mut session, sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_may_what_an_application_may_and_delivers_webhooks_whose_secrets_no_application_reads() {
    let database = TestDatabase::new().await;
    database
        .execute("select tidegate.webhook_host_add('a.example'); select tidegate.webhook_secret_rotate('a.example')")
        .await;
    let submit = "select outcome from tidegate.submit_with_callback('direct', '{}', 'https://a.example/')";
    let mut api = login(&database, "api").await;
    assert_eq!(value(&mut api, submit).await, "accepted");
    database.execute("select tidegate.fail_internal(array_agg(id)) from tidegate.request").await;
    let claim = "select secrets[1] from tidegate.webhook_claim(10)";
    for role in ["api", "worker", "reader"] {
        is_denied(&mut login(&database, role).await, claim).await;
    }

    let mut node = login(&database, "node").await;
    assert!(value(&mut node, claim).await.starts_with("whsec_"));
    assert_eq!(value(&mut node, submit).await, "accepted");
    run(&mut node, "call tidegate.maintain()").await;
    reads(&mut node).await;
    writes_nothing(&mut node).await;
    calls_no_inner_function(&mut node).await;
    // All that an application may call.
    let missing = "select p.oid::regprocedure from pg_proc as p
                   where p.pronamespace = 'tidegate'::regnamespace
                     and has_function_privilege('tidegate_api', p.oid, 'execute')
                     and not has_function_privilege('tidegate_node', p.oid, 'execute')";
    assert_eq!(column(&mut node, missing).await, [""; 0]);
    for call in
        ["claim_tx('tx', 'w', 1, '30 s')", "recover()", "key_create('0123456789abcdef', 'x', sha256('x'), '{submit}')"]
    {
        is_denied(&mut node, &format!("select * from tidegate.{call}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn applying_the_roles_again_takes_back_what_was_granted_on_keys() {
    let database = TestDatabase::uninitialised().await;
    database.execute("grant all on tidegate.api_key to tidegate_reader").await;

    let roles = tidegate::internals::schema::sql_files();
    let (_, roles) = roles.iter().find(|(path, _)| *path == "grants.sql").unwrap();
    database.execute(roles).await;

    let mut reader = login(&database, "reader").await;
    is_denied(&mut reader, "select secret_hash from tidegate.api_key").await;
}
