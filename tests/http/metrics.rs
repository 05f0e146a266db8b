//! Is each figure of `/metrics` there and right, documented, and cheap however many ask?

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use reqwest::Method;
use serde_json::json;
use tidegate::internals::{
    api_key::{ApiKey, Scope},
    database::PoolSettings,
    metrics::catalogue::{self, Form},
    store::Store,
};
use tidegate_node::{Exporter, HttpOptions};

use super::{Api, access::key, answer, health::without_a_database};
use crate::support::{TestDatabase, eventually, until_blocked};

/// What `/metrics` says: each sample with its labels, as `name{a="b"}`, and its value.
pub(super) struct Figures {
    samples: BTreeMap<String, f64>,
    forms: BTreeMap<String, String>,
}

impl Figures {
    pub(super) fn read(text: &str) -> Self {
        let mut figures = Self { samples: BTreeMap::new(), forms: BTreeMap::new() };
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(described) = line.strip_prefix("# TYPE ") {
                let (name, form) = described.split_once(' ').unwrap();
                let twice = figures.forms.insert(name.to_owned(), form.to_owned());
                assert!(twice.is_none(), "{name} is there twice");
            } else if !line.starts_with('#') {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                let twice = figures.samples.insert(sample.to_owned(), value.parse().unwrap());
                assert!(twice.is_none(), "{sample} is there twice");
            }
        }
        figures
    }

    pub(super) async fn of(api: &Api) -> Self {
        let answered = api.get("/metrics").await;
        assert_eq!(answered.status, 200, "{answered:?}");
        assert!(answered.header("content-type").starts_with("text/plain; version=0.0.4"));
        Self::read(answered.body.as_str().unwrap())
    }

    pub(super) fn get(&self, sample: &str) -> Option<f64> {
        self.samples.get(sample).copied()
    }

    /// The samples of a metric, whatever their labels.
    fn of_metric<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a String, f64)> {
        let samples = self.samples.iter();
        samples
            .filter(move |(sample, _)| sample.split('{').next() == Some(name))
            .map(|(sample, value)| (sample, *value))
    }

    /// The names of the metrics with those of their labels.
    fn shapes(&self) -> BTreeSet<(String, String, Vec<String>)> {
        let samples = self.samples.keys().map(|sample| {
            let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
            let name = ["_bucket", "_sum", "_count"]
                .iter()
                .filter_map(|suffix| name.strip_suffix(suffix))
                .find(|name| self.forms.get(*name).is_some_and(|form| form == "histogram"))
                .unwrap_or(name);
            let labels = labels.trim_end_matches('}').split("\",");
            let labels = labels
                .filter_map(|label| label.split_once('='))
                .map(|(label, _)| label.to_owned())
                .filter(|label| label != "le")
                .collect();
            (name.to_owned(), self.forms[name].clone(), labels)
        });
        samples.collect()
    }
}

/// What the catalogue says: name, form, labels.
fn catalogued() -> BTreeSet<(String, String, Vec<String>)> {
    let all = catalogue::ALL.iter().map(|metric| {
        let form = match metric.form {
            Form::Counter => "counter",
            Form::Gauge => "gauge",
            Form::Histogram(_) => "histogram",
        };
        let labels = metric.labels.iter().map(|label| (*label).to_owned());
        (metric.name.to_owned(), form.to_owned(), labels.collect())
    });
    all.collect()
}

/// One worker's life: every figure that a worker has.
async fn worker_figures(database: &TestDatabase) -> Figures {
    let exporter = Exporter::new();
    crate::worker::lives::run_to_the_end(database, exporter.metrics()).await;
    Figures::read(&exporter.render())
}

#[test]
fn the_monitoring_page_lists_every_figure() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/monitoring.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("Metrics\n"));
    let listed: BTreeSet<_> =
        section.unwrap().lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect();
    let known = catalogue::ALL.iter().map(|metric| {
        let form = format!("{:?}", metric.form).to_lowercase();
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{}` | {} | {} | {} |", metric.name, form.split('(').next().unwrap(), labels.join(", "), metric.help)
    });

    assert_eq!(listed, known.collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_figure_is_there_and_no_other() {
    let database = TestDatabase::new().await;
    // A fair queue, calls, duplicates, a latency target, a breaker and an adaptive timeout to tell of.
    database
        .execute(
            "select tidegate.queue_add('fair', 'tx', fair_by => 'submitter');
             update tidegate.policy set breaker_error_rate = 0.5, timeout_mode = 'adaptive' where kind = 'direct';
             update tidegate.kind set slo_p99_ms = 10000 where name = 'direct';
             insert into tidegate.timeout_estimator (
               kind, stage, version, state, srtt_ns, rttvar_ns, k_margin, timeout_ns, min_age, interval_no, began_at,
               requests, responses, failures, late, sum_ns, updated_at
             ) values ('direct', 'tx', 1, 'normal', 1, 1, 1, 1, 0, 0, now(), 0, 0, 0, 0, 0, now());
             insert into tidegate.submission_sample (kind, submitted, replayed) values ('direct', 2, 1);
             insert into tidegate.call_sample values ('direct', 'tx', clock_timestamp(), 2, 3, 1, 1, 1, 0, 1, '{7}')",
        )
        .await;
    let api = Api::of(&database).await;
    let job = api.submit("direct").await;
    api.delete(&job).await;
    api.get(&job).await;
    // It may have been executed.
    database.submit("direct").await;
    database.claim_tx(1).await;
    database
        .execute(
            "select tidegate.fail_internal(array(select id from tidegate.request where req_status = 'tx_in_flight'))",
        )
        .await;
    // No worker takes it.
    database.submit("input_proof").await;
    api.get("/metrics").await;
    eventually("the node has read the gates", || async {
        Figures::of(&api).await.of_metric("tidegate_gate_copy_age_seconds").count() == 1
    })
    .await;

    let node = Figures::of(&api).await;
    let worker = worker_figures(&database).await;

    let seen: BTreeSet<_> = node.shapes().union(&worker.shapes()).cloned().collect();
    assert_eq!(seen, catalogued());
    for (name, ..) in catalogued() {
        // `Threads` are the names of the policies' source document.
        assert!(name.starts_with("tidegate_") || name.starts_with("Threads_"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_submissions_and_polls_are_counted_by_what_became_of_them() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let job = api.submit("user-decrypt").await;
    api.post_with_key("/v1/direct", "k", &json!(1)).await;
    api.post_with_key("/v1/direct", "k", &json!(1)).await;
    api.post_with_key("/v1/direct", "k", &json!(2)).await;
    api.get(&job).await;
    api.delete(&job).await;
    api.get(&job).await;
    api.get(&job).await;

    let figures = Figures::of(&api).await;

    for (sample, count) in [
        ("submissions_total{kind=\"user_decrypt\",outcome=\"accepted\"}", 1.0),
        ("submissions_total{kind=\"direct\",outcome=\"accepted\"}", 1.0),
        ("submissions_total{kind=\"direct\",outcome=\"replayed\"}", 1.0),
        ("replays_total{kind=\"direct\"}", 1.0),
        ("replays_total{kind=\"user_decrypt\"}", 0.0),
        ("submissions_total{kind=\"direct\",outcome=\"failed\"}", 1.0),
        ("polls_total{kind=\"user_decrypt\",answer=\"in_progress\"}", 1.0),
        ("polls_total{kind=\"user_decrypt\",answer=\"ended\"}", 2.0),
        ("http_requests_total{route=\"/v1/{kind}\",method=\"POST\",status=\"202\"}", 3.0),
        ("http_requests_total{route=\"/v1/{kind}\",method=\"POST\",status=\"422\"}", 1.0),
        ("http_requests_total{route=\"/v1/{kind}/{job_id}\",method=\"DELETE\",status=\"200\"}", 1.0),
        ("http_request_duration_seconds_count{route=\"/v1/{kind}\",method=\"POST\"}", 4.0),
        ("submission_group_size_count", 4.0),
        ("submission_group_size_sum", 4.0),
        ("http_requests_in_flight", 0.0),
    ] {
        assert_eq!(figures.get(&format!("tidegate_{sample}")), Some(count), "{sample}");
    }
    // Another node of the same process has counted none of it.
    let other = Api::of(&database).await;
    let figures = Figures::of(&other).await;
    assert!(figures.of_metric("tidegate_http_requests_total").next().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn adaptive_timeouts_are_told_in_seconds_as_they_were_last_folded() {
    let database = TestDatabase::new().await;
    database.execute("update tidegate.policy set timeout_mode = 'adaptive' where kind = 'direct'").await;
    let api = Api::of(&database).await;
    let of = "{kind=\"direct\",stage=\"tx\"}";
    let figure = |figures: &Figures, name: &str| figures.get(&format!("tidegate_adaptive_{name}{of}"));

    let figures = Figures::of(&api).await;
    assert_eq!(figure(&figures, "timeout_seconds"), Some(10.0), "the bound");
    assert_eq!(figure(&figures, "srtt_seconds"), None);
    assert_eq!(figure(&figures, "high_load"), Some(0.0));

    database
        .execute(
            "insert into tidegate.timeout_estimator (
               kind, stage, version, state, srtt_ns, rttvar_ns, k_margin, timeout_ns, min_age, interval_no, began_at,
               requests, responses, failures, late, sum_ns, updated_at
             ) values ('direct', 'tx', 1, 'high_load', 20000000, 1, 3, 45000000, 0, 0, now(), 0, 0, 0, 0, 0, now())",
        )
        .await;
    let figures = Figures::of(&Api::of(&database).await).await;
    for (name, value) in [("timeout_seconds", 0.045), ("srtt_seconds", 0.02), ("k_margin", 3.0), ("high_load", 1.0)] {
        assert_eq!(figure(&figures, name), Some(value), "{name}");
    }
    let others = figures.of_metric("tidegate_adaptive_timeout_seconds");
    assert_eq!(others.count(), 1, "other modes have none");
}

#[tokio::test(flavor = "multi_thread")]
async fn invented_paths_kinds_and_methods_add_no_metrics() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let make_up = async |name: String| {
        api.post(&format!("/v1/{name}"), &json!({})).await;
        api.get(&format!("/{name}")).await;
        api.get(&format!("/docs/{name}")).await;
        let method = name.to_uppercase().parse().unwrap();
        answer(api.client.request(method, api.url("/livez"))).await;
        api.get(&format!("/v1/{name}/01890000-0000-7000-8000-000000000000")).await;
    };
    make_up("first".to_owned()).await;
    Figures::of(&api).await;
    let before = Figures::of(&api).await;

    for number in 0..20 {
        make_up(format!("madeup{number}")).await;
    }

    let after = Figures::of(&api).await;
    let names = |figures: &Figures| figures.samples.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&before), names(&after));
    for sample in [
        "submissions_total{kind=\"unknown\",outcome=\"failed\"}",
        "http_requests_total{route=\"unmatched\",method=\"GET\",status=\"404\"}",
        "http_requests_total{route=\"/livez\",method=\"other\",status=\"405\"}",
        "http_requests_total{route=\"/docs\",method=\"GET\",status=\"404\"}",
    ] {
        assert_eq!(after.get(&format!("tidegate_{sample}")), Some(21.0), "{sample}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_s_figures_follow_what_happens_there() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    for _ in 0..3 {
        api.submit("direct").await;
    }
    let becomes = async |sample: &str, value: Option<f64>| {
        eventually(sample, || async { Figures::of(&api).await.get(sample) == value }).await;
    };

    becomes("tidegate_queue_waiting{queue=\"tx\"}", Some(3.0)).await;
    let figures = Figures::of(&api).await;
    assert_eq!(figures.get("tidegate_requests{kind=\"direct\",status=\"processing\"}"), Some(3.0));
    assert_eq!(figures.get("tidegate_queue_rate_limit_per_second{queue=\"tx\"}"), Some(10.0));
    assert_eq!(figures.get("tidegate_queue_concurrency_limit{queue=\"tx\"}"), None);
    assert_eq!(figures.get("tidegate_database_up"), Some(1.0));
    assert!(figures.get("tidegate_queue_oldest_age_seconds{queue=\"tx\"}").unwrap() > 0.0);
    assert_eq!(figures.get("tidegate_queue_oldest_age_seconds{queue=\"readiness\"}"), Some(0.0));

    database.execute("update tidegate.queue set per_seconds = null, paused = true where name = 'tx'").await;
    database
        .execute(
            "update tidegate.maintenance set ran_at = clock_timestamp() - interval '1 day' where duty = 'fold_counts'",
        )
        .await;
    database.execute("select tidegate.worker_seen('w', '{tx}', '{tx}')").await;
    becomes("tidegate_queue_rate_limit_per_second{queue=\"tx\"}", None).await;
    becomes("tidegate_queue_paused{queue=\"tx\"}", Some(1.0)).await;
    becomes("tidegate_worker_processes{state=\"alive\"}", Some(1.0)).await;
    let lag = Figures::of(&api).await.get("tidegate_maintenance_lag_seconds{duty=\"fold_counts\"}").unwrap();
    assert!((86_000.0..87_000.0).contains(&lag), "{lag}");

    database.execute("update tidegate.gate set state = 'too_many_requests' where queue = 'tx'").await;
    becomes("tidegate_gate_closed{queue=\"tx\"}", Some(1.0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_database_a_node_tells_what_it_knows_itself() {
    let api = without_a_database().await;
    api.post("/v1/direct", &json!({})).await;

    let figures = Figures::of(&api).await;

    assert_eq!(figures.get("tidegate_database_up"), Some(0.0));
    assert!(figures.get("tidegate_database_errors_total{error=\"unavailable\"}").unwrap() >= 1.0);
    assert_eq!(
        figures.get("tidegate_http_requests_total{route=\"/v1/{kind}\",method=\"POST\",status=\"503\"}"),
        Some(1.0)
    );
    let version = format!("tidegate_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(figures.get(&version), Some(1.0));
    assert!(figures.of_metric("tidegate_queue_depth").next().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_reads_figures_while_the_database_is_away_and_a_stranger_never_does() {
    let database = TestDatabase::new().await;
    let admin = key(&database, "admin", &[Scope::Admin]).await;
    let stranger = ApiKey::generate().unwrap();
    let settings = PoolSettings { acquire_timeout: Duration::from_millis(200), ..PoolSettings::default() };
    let pool = tidegate::internals::database::connect(&database.url, &settings).await.unwrap();
    let api = Api::start(Store::new(pool), &HttpOptions::default()).await;
    assert_eq!(api.bearing(&admin).get("/metrics").await.status, 200);

    database.cut().await;
    eventually("no key is known to be good", || async {
        api.bearing(&admin).get("/v1/admin/queues").await.status == 503
    })
    .await;

    eventually("the database is seen to be away", || async {
        let answered = api.bearing(&admin).get("/metrics").await;
        assert_eq!(answered.status, 200);
        Figures::read(answered.body.as_str().unwrap()).get("tidegate_database_up") == Some(0.0)
    })
    .await;
    for asking in [api.bearing(&stranger).ask(Method::GET, "/metrics"), api.client.get(api.url("/metrics"))] {
        assert_eq!(asking.send().await.unwrap().status(), 401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_ask_the_database_is_read_once_and_not_waited_for_long() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let mut held = database.session().await;
    sqlx::raw_sql("begin; lock table tidegate.request_count in access exclusive mode")
        .execute(&mut held)
        .await
        .unwrap();

    let asking: Vec<_> = (0..20).map(|_| tokio::spawn(answer(api.client.get(api.url("/metrics"))))).collect();
    until_blocked(&database, 1).await;
    let (all, most) = tokio::join!(
        async {
            let mut figures = Vec::new();
            for asking in asking {
                figures.push(Figures::read(asking.await.unwrap().body.as_str().unwrap()));
            }
            figures
        },
        async {
            let waiting = "select count(*) from pg_stat_activity
                           where datname = current_database() and wait_event_type = 'Lock'";
            database.number(waiting).await
        }
    );

    assert_eq!(most, 1);
    assert_eq!(all.len(), 20);
    for figures in all {
        assert_eq!(figures.get("tidegate_database_up"), Some(0.0));
    }
    super::let_go(held).await;
    tokio::time::timeout(
        Duration::from_secs(60),
        eventually("the database is read again", || async {
            Figures::of(&api).await.get("tidegate_database_up") == Some(1.0)
        }),
    )
    .await
    .unwrap();
}
