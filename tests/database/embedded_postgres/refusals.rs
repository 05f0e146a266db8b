//! Does a private server that cannot start say why?

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use tidegate_cli::embedded_postgres::{BinarySearch, EmbeddedPostgres, EmbeddedPostgresError};

use super::{open_directory, options};

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let directory = open_directory();
    let file = directory.path().join("data/precious");
    fs::create_dir(directory.path().join("data")).expect("a directory");
    fs::write(&file, "mine").expect("a file");
    let error = EmbeddedPostgres::start(&options(directory.path())).expect_err("a refusal");
    assert!(matches!(error, EmbeddedPostgresError::UnusableDirectory { .. }), "{error}");
    assert_eq!(fs::read_to_string(&file).expect("the file"), "mine");
}

#[test]
fn a_directory_closed_to_the_server_is_named() {
    let directory = open_directory();
    if fs::metadata(directory.path()).expect("a directory").uid() != 0 {
        // The server runs as this user, to whom nothing here is closed.
        return;
    }
    let closed = directory.path().join("closed");
    fs::create_dir(&closed).expect("a directory");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("its mode");
    let error = EmbeddedPostgres::start(&options(&closed.join("inside"))).expect_err("a refusal");
    let message = error.to_string();
    assert!(message.contains("TIDEGATE_POSTGRES_DIR"), "{message}");
    assert!(message.contains(&format!("may not enter {}, ", closed.display())), "{message}");
}

#[test]
fn a_machine_without_postgres_is_told_what_to_install() {
    let nowhere = BinarySearch::default().find(None).expect_err("nothing to find");
    let empty = open_directory();
    let misled = BinarySearch { configured: Some(empty.path().to_owned()), ..BinarySearch::from_environment() };
    let misled = misled.find(None).expect_err("nothing to find");
    assert!(matches!(misled, EmbeddedPostgresError::ConfiguredBinariesMissing { .. }));
    for message in [nowhere.to_string(), misled.to_string()] {
        for hint in [
            "apt-get install postgresql",
            "brew install postgresql@17",
            "docker compose up",
            "DATABASE_URL",
            "TIDEGATE_POSTGRES_BIN",
        ] {
            assert!(message.contains(hint), "{hint} is missing from: {message}");
        }
    }
}

#[test]
fn programs_of_another_version_are_refused() {
    let search = BinarySearch::from_environment();
    search.find(None).expect("PostgreSQL");
    let error = search.find(Some(9)).expect_err("nothing that old");
    assert!(error.to_string().contains("no PostgreSQL 9"), "{error}");
}
