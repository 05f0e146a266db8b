//! Do all programs connect with TLS, and refuse a server that is not the right one?

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU8, Ordering},
};

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, KeyPair, SanType};
use tempfile::TempDir;
use tidegate::internals::{database, store::Store};

use super::private_cluster::Cluster;
use crate::{
    cli::commands::{err, out, run, serve},
    support::{TestDatabase, eventually, patient},
    worker::lives::{Running, all_stages, options},
};

const GUIDE: &str = include_str!("../../docs/security.md");

/// The password of `owner`.
const PASSWORD: &str = "correct-horse";

/// A root certificate that signs others.
struct Root {
    certificate: Certificate,
    key: KeyPair,
}

impl Root {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { certificate: parameters.self_signed(&key).unwrap(), key }
    }

    /// A certificate with this common name and address, and its key.
    fn sign(&self, name: &str, address: Option<Ipv4Addr>) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.subject_alt_names = address.map(|address| SanType::IpAddress(address.into())).into_iter().collect();
        let certificate = parameters.signed_by(&key, &self.certificate, &self.key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// A server that takes network connections with TLS only: `owner` has a password and no right to make roles, and the
/// superuser a certificate. Its own certificate names `address` and not `other_address`.
struct TlsServer {
    cluster: Cluster,
    files: TempDir,
    address: Ipv4Addr,
    other_address: Ipv4Addr,
}

impl TlsServer {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        static STARTED: AtomicU8 = AtomicU8::new(0);
        // Every cluster has the same port, and addresses of its own.
        let ([_, _, high, low], network) =
            (std::process::id().to_be_bytes(), 2 * STARTED.fetch_add(1, Ordering::Relaxed));
        let (address, other_address) =
            (Ipv4Addr::new(127, 100 + network, high, low), Ipv4Addr::new(127, 101 + network, high, low));
        let root = Root::new("a root");
        let (certificate, key) = root.sign("a database", Some(address));
        let data = cluster.data();
        let hosts = "local all all trust\n\
                     hostssl all owner 127.0.0.0/8 scram-sha-256\n\
                     hostssl all tidegate 127.0.0.0/8 cert\n";
        for (name, text) in [
            ("server.crt", &*certificate),
            ("server.key", &*key),
            ("root.crt", &*root.certificate.pem()),
            ("pg_hba.conf", hosts),
        ] {
            write_as_owner(&data, name, text);
        }
        cluster
            .execute(&[
                "create role owner login password 'correct-horse'",
                "create database tls owner owner",
                "alter system set ssl = on",
                "alter system set ssl_ca_file = 'root.crt'",
                &format!("alter system set listen_addresses = '{address}, {other_address}'"),
            ])
            .await;
        cluster.restart().await;

        let files = tempfile::tempdir().unwrap();
        let (certificate, key) = root.sign("tidegate", None);
        let (owner_certificate, owner_key) = root.sign("owner", None);
        let stranger = Root::new("another root");
        let (strange_certificate, strange_key) = stranger.sign("tidegate", None);
        for (name, text) in [
            ("root.crt", root.certificate.pem()),
            ("other-root.crt", stranger.certificate.pem()),
            ("client.crt", certificate),
            ("client.key", key),
            ("owner.crt", owner_certificate),
            ("owner.key", owner_key),
            ("other-client.crt", strange_certificate),
            ("other-client.key", strange_key),
        ] {
            fs::write(files.path().join(name), text).unwrap();
        }
        Self { cluster, files, address, other_address }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// The URL for `owner`, with these parameters.
    fn url(&self, parameters: &str) -> String {
        format!("postgres://owner:{PASSWORD}@{}:5432/tls?{parameters}", self.address)
    }

    fn verified_url(&self) -> String {
        self.url(&format!("sslmode=verify-full&sslrootcert={}", self.file("root.crt").display()))
    }
}

/// A file of the server's account that only it may read.
pub(super) fn write_as_owner(data: &Path, name: &str, text: &str) {
    let owner = fs::metadata(data).unwrap();
    let file = data.join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_program_works_with_a_server_that_takes_tls_only_and_checks_its_certificate() {
    let server = TlsServer::start().await;
    let url = server.verified_url();

    let migrated = run(&url, &["migrate"]).await;
    assert!(migrated.status.success(), "{}", err(&migrated));
    assert!(err(&migrated).contains("role tidegate_api is missing and owner may not create it"), "{}", err(&migrated));
    let initialised = run(&url, &["init", "--example", "relayer"]).await;
    assert!(initialised.status.success(), "{}", err(&initialised));
    let (_node, api) = serve(&url, &[]).await;
    let client = reqwest::Client::new();
    let posted = client.post(format!("{api}/v1/direct")).json(&1).send().await.unwrap();
    assert_eq!(posted.status(), 202);
    let store = Store::new(database::connect(&url, &patient()).await.unwrap());
    let worker = Running::start(&store, all_stages(), options());
    let plain = "select count(*) from pg_stat_ssl as s join pg_stat_activity as a on a.pid = s.pid
                 where a.usename = 'owner' and not s.ssl";
    let listening = "select count(*) from pg_stat_ssl as s join pg_stat_activity as a on a.pid = s.pid
                     where a.usename = 'owner' and s.ssl and a.query like 'LISTEN%'";
    for (sessions, count) in [(listening, 2), (plain, 0)] {
        eventually("the node and the worker listen with TLS", || async {
            let mut session = server.cluster.session().await;
            sqlx::query_scalar::<_, i64>(sessions).fetch_one(&mut session).await.unwrap() == count
        })
        .await;
    }
    eventually("the request has its response", || async {
        let status = run(&url, &["status", "--json"]).await;
        out(&status).contains("\"completed\"")
    })
    .await;
    worker.stop().await;
    let recovered = run(&url, &["recover"]).await;
    assert_eq!(recovered.status.code(), Some(0), "{}{}", out(&recovered), err(&recovered));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_the_right_one_is_refused_with_what_to_do() {
    let server = TlsServer::start().await;
    let by_another_name = server.verified_url().replace(&server.address.to_string(), &server.other_address.to_string());
    let without_tls = TestDatabase::new().await;
    let (root, other_root) = (server.file("root.crt"), server.file("other-root.crt"));
    let as_superuser = |client: &str| {
        let (certificate, key) = (server.file(&format!("{client}.crt")), server.file(&format!("{client}.key")));
        let parameters = format!(
            "sslmode=verify-full&sslrootcert={}&sslcert={}&sslkey={}",
            root.display(),
            certificate.display(),
            key.display()
        );
        server.url(&parameters).replace(&format!("owner:{PASSWORD}"), "tidegate")
    };
    let without = |parameters: &[&str]| {
        let url = as_superuser("client");
        let kept = url.split('&').filter(|part| !parameters.iter().any(|name| part.starts_with(name)));
        kept.collect::<Vec<_>>().join("&")
    };
    for (url, sentence) in [
        (
            server.url(&format!("sslmode=verify-full&sslrootcert={}", other_root.display())),
            "no trusted root has signed the server's certificate",
        ),
        (server.url("sslmode=verify-ca"), "name the file of its root with sslrootcert"),
        (by_another_name.clone(), "the server's certificate is for other hosts"),
        // The driver compares names here, too.
        (by_another_name.replace("verify-full", "verify-ca"), "connect to a host that it names"),
        (
            server.url("sslmode=verify-full&sslrootcert=/nowhere/root.crt"),
            "sslrootcert names the file /nowhere/root.crt, which cannot be read",
        ),
        (
            server.url("sslmode=disable"),
            "the server may take this user with TLS only: set sslmode=verify-full and sslrootcert",
        ),
        (format!("{}?sslmode=require", without_tls.url), "the server has no TLS"),
        (as_superuser("other-client"), "name a certificate that its ssl_ca_file has signed with sslcert and sslkey"),
        (without(&["sslcert", "sslkey"]), "connection requires a valid client certificate: name a certificate"),
        (without(&["sslkey"]), "user auth key and certs must be given together"),
        (as_superuser("owner"), "the common name of the certificate in sslcert has to be the user's name"),
    ] {
        assert!(GUIDE.contains(&sentence.replace("/nowhere/root.crt", "…")), "{sentence}");
        for words in [&["migrate", "--dry-run"][..], &["status"], &["recover"], &["serve", "--listen", "127.0.0.1:0"]] {
            let refused = run(&url, words).await;
            assert_eq!(refused.status.code(), Some(1), "{url} {words:?}: {}", out(&refused));
            assert!(err(&refused).contains(sentence), "{url} {words:?}: {}", err(&refused));
            assert!(!err(&refused).contains(PASSWORD), "{}", err(&refused));
        }
    }
    // A check of the root, a certificate in place of a password, no check of the server at all.
    for url in [
        server.verified_url().replace("verify-full", "verify-ca"),
        as_superuser("client"),
        server.url("sslmode=require"),
        server.url(""),
    ] {
        let planned = run(&url, &["migrate", "--dry-run"]).await;
        assert!(out(&planned).contains("would apply"), "{url}: {}", err(&planned));
    }
}
