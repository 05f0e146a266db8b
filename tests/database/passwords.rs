//! Can a password be given without a command line, and does no message have it?

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::{private_cluster::Cluster, tls::write_as_owner};
use crate::cli::commands::{err, out, tidegate};

const PASSWORD: &str = "hunter2-of-the-database";

/// A file that only this account may read.
fn write(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_comes_from_a_variable_or_a_file_and_is_in_no_message() {
    let cluster = Cluster::start().await;
    let create = format!("create role guarded superuser login password '{PASSWORD}'");
    cluster.execute(&[&create]).await;
    let hosts = "local all guarded scram-sha-256\nlocal all all trust\n";
    write_as_owner(&cluster.data(), "pg_hba.conf", hosts);
    cluster.restart().await;
    let url = cluster.url("postgres");
    let (_, server) = url.split_once('@').unwrap();
    let url = |password: &str| format!("postgres://guarded{password}@{server}");
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    write(Path::new(&file(".pgpass")), &format!("*:*:*:guarded:{PASSWORD}\n"));
    write(Path::new(&file("url")), &format!("{}\n", url(&format!(":{PASSWORD}"))));
    write(Path::new(&file("wrong")), &url(&format!(":{PASSWORD}-of-long-ago")));
    write(Path::new(&file("empty")), "\n");

    let none = ("LANG", String::new());
    let refused = "password authentication failed";
    for (given, variable, arguments, failure) in [
        (url(""), ("PGPASSWORD", PASSWORD.to_owned()), vec![], None),
        (url(""), ("PGPASSFILE", file(".pgpass")), vec![], None),
        (url(""), ("HOME", file("")), vec![], None),
        (String::new(), ("DATABASE_URL_FILE", file("url")), vec![], None),
        (String::new(), none.clone(), vec!["--database-url-file".to_owned(), file("url")], None),
        (url(&format!(":{PASSWORD}")), ("DATABASE_URL_FILE", file("wrong")), vec![], None),
        (url(""), none.clone(), vec![], Some("password")),
        (url(""), ("PGPASSWORD", format!("{PASSWORD}-of-long-ago")), vec![], Some(refused)),
        (String::new(), ("DATABASE_URL_FILE", file("wrong")), vec![], Some(refused)),
        (String::new(), ("DATABASE_URL_FILE", file("empty")), vec![], Some("no database URL in the file")),
        (String::new(), ("DATABASE_URL_FILE", file("missing")), vec![], Some("No such file")),
        (format!("{}?sslpassword={PASSWORD}", url("")), none.clone(), vec![], Some("password")),
    ] {
        let mut command = tidegate(&given);
        for name in ["PGPASSWORD", "PGPASSFILE", "DATABASE_URL_FILE"] {
            command.env_remove(name);
        }
        let ran = command
            .env("HOME", file("no-home"))
            .env("RUST_LOG", "trace")
            .env(variable.0, &variable.1)
            .args(["migrate", "--dry-run"])
            .args(&arguments)
            .output()
            .await
            .unwrap();

        let said = out(&ran) + &err(&ran);
        assert_eq!(ran.status.success(), failure.is_none(), "{variable:?} {arguments:?}: {said}");
        assert!(said.contains(failure.unwrap_or("would apply")), "{variable:?}: {said}");
        assert!(!said.contains("hunter2"), "{variable:?} {arguments:?}: {said}");
    }
}
