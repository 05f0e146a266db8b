//! Does `migrate` make of a database of an earlier version, with its requests, exactly this version?
//!
//! `earlier/` has dumps of databases that these commits of Tidegate had made, with the kinds of the example and requests
//! in every status: `pg_dump --no-owner --inserts --rows-per-insert=100`, without comments, empty lines and default privileges.

use std::{fs, process::Command};

use super::schemas::{catalog, different, migrated};
use crate::{
    cli::commands::{err, run},
    support::TestDatabase,
};

/// The dump in a file.
fn dump(file: &std::path::Path) -> String {
    let unpacked = Command::new("gzip").args(["-dc"]).arg(file).output().unwrap();
    assert!(unpacked.status.success(), "{unpacked:?}");
    String::from_utf8(unpacked.stdout).unwrap()
}

/// All definitions, without parentheses: a restore leaves out some that are not needed.
async fn definitions(database: &TestDatabase) -> Vec<String> {
    let catalog = catalog(&database.url).await;
    catalog.iter().map(|text| text.replace(['(', ')'], "")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_an_earlier_version_becomes_this_version_with_its_requests() {
    let mut files: Vec<_> = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/database/earlier"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 2, "{files:?}");
    let fresh = definitions(&TestDatabase::new().await).await;
    for file in files {
        let database = TestDatabase::empty().await;
        sqlx::raw_sql(&dump(&file))
            .execute(&mut database.superuser_session().await)
            .await
            .unwrap();

        migrated(&database.url, &[]).await;

        assert_eq!(different(&definitions(&database).await, &fresh), [""; 0], "{file:?}");
        assert_eq!(migrated(&database.url, &[]).await, "the database is up to date\n");
        let counted = "select count(*) from tidegate.request";
        assert_eq!(database.number(counted).await, 13);
        assert_eq!(
            database
                .number("select sum(requests) from tidegate.request_overview")
                .await,
            13
        );
        // Their deadlines are over; what the program of that version left behind is not there.
        let recovered = run(&database.url, &["recover", "--all", "--force"]).await;
        assert!(recovered.status.success(), "{}", err(&recovered));
        for _ in 0..3 {
            database
                .execute("update tidegate.maintenance set ran_at = '-infinity'")
                .await;
            database.execute("call tidegate.maintain()").await;
        }
        assert_eq!(database.violations().await, [""; 0], "{file:?}");
        // And it works.
        database.submit("direct").await;
        assert_eq!(database.number(counted).await, 14);
    }
}
