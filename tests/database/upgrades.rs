//! Does `migrate` make of a database of an earlier version, with its requests, exactly this version?
//!
//! `earlier/` has dumps of databases that these commits of Tidegate had made, with the kinds of the example and requests
//! in every status: `pg_dump --no-owner --inserts --rows-per-insert=100`, without comments, empty lines and default privileges.

use std::{fs, process::Command};

use super::schemas::{catalog, different, migrated};
use crate::{
    cli::commands::run,
    support::{
        TestDatabase, invariants,
        server::superuser_url,
        sql::{self, is_15_or_newer, value},
    },
};

/// The dump in a file.
fn dump(file: &std::path::Path) -> String {
    let unpacked = Command::new("gzip").args(["-dc"]).arg(file).output().unwrap();
    assert!(unpacked.status.success(), "{unpacked:?}");
    String::from_utf8(unpacked.stdout).unwrap()
}

/// All definitions, without parentheses: a restore leaves out some that are not needed.
async fn definitions(url: &str) -> Vec<String> {
    let catalog = catalog(url).await;
    catalog.iter().map(|text| text.replace(['(', ')'], "")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_an_earlier_version_becomes_this_version_with_its_requests() {
    let mut files: Vec<_> = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/database/earlier"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 2, "{files:?}");
    // These versions could be installed by a superuser only.
    let fresh = TestDatabase::empty().await;
    let url = superuser_url(&fresh.name);
    migrated(&url, &[]).await;
    assert!(run(&url, &["init", "--example", "relayer"]).await.status.success());
    let fresh = definitions(&url).await;
    for file in files {
        let database = TestDatabase::empty().await;
        let url = superuser_url(&database.name);
        let mut session = database.superuser_session().await;
        let mut dump = dump(&file);
        if !is_15_or_newer(&session) {
            // These versions made logged ones there.
            dump = dump.replace("CREATE UNLOGGED SEQUENCE", "CREATE SEQUENCE");
        }
        sqlx::raw_sql(&dump).execute(&mut session).await.unwrap();
        // Another session: the dump has changed the settings of that one.
        let mut session = database.superuser_session().await;

        migrated(&url, &[]).await;

        assert_eq!(different(&definitions(&url).await, &fresh), [""; 0], "{file:?}");
        assert_eq!(migrated(&url, &[]).await, "the database is up to date\n");
        let counted = "select count(*) from tidegate.request";
        assert_eq!(value(&mut session, counted).await, "13");
        let shown = "select sum(requests) from tidegate.request_overview";
        assert_eq!(value(&mut session, shown).await, "13");
        // Deadlines are over by now, of more requests each day, and the workers of that version are gone.
        let recovered = run(&url, &["recover", "--all", "--force"]).await;
        assert!(matches!(recovered.status.code(), Some(0 | 3)), "{recovered:?}");
        for _ in 0..3 {
            let due = "update tidegate.maintenance set ran_at = '-infinity'";
            sql::run(&mut session, due).await;
            sql::run(&mut session, "call tidegate.maintain()").await;
        }
        assert_eq!(invariants::violations(&mut session).await, [""; 0], "{file:?}");
        // And it works.
        let submitted = "select outcome from tidegate.submit('direct', '{}')";
        assert_eq!(value(&mut session, submitted).await, "accepted");
    }
}
