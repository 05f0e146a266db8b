//! A request in a trace: from the call that submits it, over its attempts, to its webhook, in three processes.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest, common::v1::any_value::Value, trace::v1::Span,
};
use prost::Message;
use serde_json::json;
use tokio::process::{Child, Command};

use super::{
    command, first_line, invariants_hold, serve, stop,
    support::{TestDatabase, eventually},
};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const CALLERS_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLERS_SPAN: &str = "b7ad6b7169203331";

/// A span that the collector has, with the name of its program.
#[derive(Debug, Clone)]
struct Exported {
    program: String,
    span: Span,
}

impl Exported {
    fn trace(&self) -> String {
        hex(&self.span.trace_id)
    }

    fn id(&self) -> String {
        hex(&self.span.span_id)
    }

    fn parent(&self) -> String {
        hex(&self.span.parent_span_id)
    }

    /// Its attributes as text.
    fn attributes(&self) -> BTreeMap<&str, String> {
        attributes(&self.span.attributes)
    }
}

fn attributes(all: &[opentelemetry_proto::tonic::common::v1::KeyValue]) -> BTreeMap<&str, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = all.iter().map(|pair| {
        let value = pair.value.as_ref().and_then(|value| value.value.as_ref());
        (pair.key.as_str(), value.map_or_else(String::new, text))
    });
    pairs.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What stands around Tidegate: a collector, a downstream and a receiver of webhooks.
#[derive(Clone, Default)]
struct Around {
    spans: Arc<Mutex<Vec<Exported>>>,
    /// The `traceparent` of each send; empty: none.
    sent: Arc<Mutex<Vec<String>>>,
    /// That of each delivery.
    delivered: Arc<Mutex<Vec<String>>>,
}

impl Around {
    fn spans(&self, name: &str) -> Vec<Exported> {
        let spans = self.spans.lock().unwrap();
        spans.iter().filter(|exported| exported.span.name == name).cloned().collect()
    }
}

async fn collect(State(around): State<Around>, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    for of_resource in request.resource_spans {
        let resource = of_resource.resource.unwrap_or_default();
        let program = attributes(&resource.attributes).remove("service.name").unwrap_or_default();
        let spans = of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans);
        let exported = spans.map(|span| Exported { program: program.clone(), span });
        around.spans.lock().unwrap().extend(exported);
    }
}

fn traceparent(headers: &HeaderMap) -> String {
    headers.get("traceparent").map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
}

/// Is busy at the first send.
async fn send(State(around): State<Around>, headers: HeaderMap) -> (StatusCode, &'static str) {
    let mut sent = around.sent.lock().unwrap();
    sent.push(traceparent(&headers));
    if sent.len() == 1 { (StatusCode::SERVICE_UNAVAILABLE, "") } else { (StatusCode::OK, "{}") }
}

async fn hook(State(around): State<Around>, headers: HeaderMap) {
    around.delivered.lock().unwrap().push(traceparent(&headers));
}

/// A process of the fleet, whose log goes to a file.
struct Process {
    child: Child,
    log: PathBuf,
}

/// Two nodes, one of which delivers webhooks and the other takes requests, and a worker.
struct Fleet {
    around: Around,
    database: TestDatabase,
    url: String,
    hook: String,
    api: Process,
    deliverer: Process,
    worker: Process,
    folder: tempfile::TempDir,
}

/// A command with the variables of traces, and no others of them.
fn traced(mut command: Command, database: &TestDatabase, variables: &[(&str, String)], log: &Path) -> Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
        command.env_remove(name);
    }
    command.env("DATABASE_URL", &database.url).env("OTEL_BSP_SCHEDULE_DELAY", "50").envs(variables.iter().cloned());
    command.stderr(File::create(log).unwrap());
    command
}

impl Fleet {
    /// `variables` are those of the environment; `COLLECTOR` in one is the URL of the collector.
    async fn start(variables: &[(&str, &str)]) -> Self {
        let database = TestDatabase::unlimited().await.with_short_policies().await;
        let around = Around::default();
        let router = Router::new()
            .route("/v1/traces", post(collect))
            .route("/send", post(send))
            .route("/hook", post(hook))
            .with_state(around.clone());
        let url = serve(router).await;
        database.store.webhook_host_add(url.strip_prefix("http://").unwrap(), true).await.unwrap();
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (*name, value.replace("COLLECTOR", &url))).collect();

        let folder = tempfile::tempdir().unwrap();
        let log = |name: &str| folder.path().join(name);
        let tidegate = PathBuf::from(env!("CARGO_BIN_EXE_tidegate-worker")).with_file_name("tidegate");
        assert!(tidegate.exists(), "build the workspace: {}", tidegate.display());
        let node = |name: &str, options: &[&str]| {
            let mut command = Command::new(&tidegate);
            command.args(["serve", "--listen", "127.0.0.1:0", "--log", "debug"]).args(options);
            command.stdin(Stdio::null()).kill_on_drop(true).env_remove("RUST_LOG");
            first_line(traced(command, &database, &variables, &log(name)), "listening on ")
        };
        let (api, address) = node("api", &["--webhooks", "0"]).await;
        let (deliverer, _) = node("deliverer", &[]).await;
        let send_url = format!("{url}/send");
        let options = "http --kind direct --queue tx --log debug --log-format json --send-url".split(' ');
        let worker = command(&options.chain([send_url.as_str()]).collect::<Vec<_>>());
        let worker = traced(worker, &database, &variables, &log("worker")).spawn().unwrap();
        Self {
            hook: format!("{url}/hook"),
            url: format!("{address}/v1/direct"),
            api: Process { child: api, log: log("api") },
            deliverer: Process { child: deliverer, log: log("deliverer") },
            worker: Process { child: worker, log: log("worker") },
            around,
            database,
            folder,
        }
    }

    /// Submits a request, and waits for its webhook.
    async fn request(&self, traceparent: Option<&str>) {
        let delivered = self.around.delivered.lock().unwrap().len();
        let posting = reqwest::Client::new().post(&self.url).json(&json!({ "a": 1 }));
        let mut posting = posting.header("tidegate-callback-url", &self.hook);
        if let Some(traceparent) = traceparent {
            posting = posting.header("traceparent", traceparent);
        }
        assert_eq!(posting.send().await.unwrap().status(), 202);
        eventually("the webhook is delivered", || async { self.around.delivered.lock().unwrap().len() > delivered })
            .await;
        eventually("the delivery is settled", || async {
            self.database.number("select count(*) from tidegate.webhook_delivery where state = 'pending'").await == 0
        })
        .await;
    }

    /// The column of the last request.
    async fn kept(&self) -> Option<String> {
        self.database.text("select traceparent from tidegate.request order by id desc limit 1").await
    }

    /// Stops the processes, which export their last spans. Returns the logs of the nodes and of the worker.
    async fn stop(self) -> (Around, [Vec<String>; 3]) {
        invariants_hold(&self.database).await;
        let processes = [self.api, self.deliverer, self.worker];
        let logs = processes.each_ref().map(|process| process.log.clone());
        for process in processes {
            stop(process.child).await;
        }
        let logs = logs.map(|log| std::fs::read_to_string(log).unwrap().lines().map(str::to_owned).collect());
        drop(self.folder);
        (self.around, logs)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_one_trace_from_its_call_to_its_webhook_and_a_retry_links_to_it() {
    let fleet = Fleet::start(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "COLLECTOR")]).await;
    fleet.request(Some(CALLER)).await;
    let kept = fleet.kept().await.unwrap();
    let (around, logs) = fleet.stop().await;

    let [call] = &around.spans("POST /v1/{kind}")[..] else { panic!("{:?}", around.spans) };
    assert_eq!((call.program.as_str(), call.trace().as_str()), ("tidegate", CALLERS_TRACE));
    assert_eq!(call.parent(), CALLERS_SPAN);
    assert_eq!(call.attributes()["http.response.status_code"], "202");
    assert_eq!(kept, format!("00-{CALLERS_TRACE}-{}-01", call.id()));

    let mut attempts = around.spans("attempt");
    attempts.sort_by_key(|attempt| attempt.span.start_time_unix_nano);
    let [first, second] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!((first.program.as_str(), first.trace().as_str()), ("tidegate-worker", CALLERS_TRACE));
    assert_eq!(first.parent(), call.id());
    let of = first.attributes();
    let about = ["request.kind", "request.stage", "request.attempt", "request.outcome", "messaging.destination.name"];
    assert_eq!(about.map(|name| of[name].as_str()), ["direct", "tx", "1", "retry", "tx"]);
    assert!(of.contains_key("error.type"), "{of:?}");
    assert_eq!(first.span.status.as_ref().unwrap().code, 2, "it has failed");

    assert_ne!(second.trace(), CALLERS_TRACE);
    assert_eq!(second.parent(), "");
    let [link] = &second.span.links[..] else { panic!("{second:?}") };
    assert_eq!((hex(&link.trace_id).as_str(), hex(&link.span_id)), (CALLERS_TRACE, call.id()));
    assert_eq!(second.attributes()["request.outcome"], "receipt");
    assert_eq!(*around.sent.lock().unwrap(), attempts.iter().map(traceparent_of).collect::<Vec<_>>());

    let settles: Vec<_> = around.spans("settle").iter().map(Exported::parent).collect();
    assert_eq!(settles.len(), 2);
    assert!(attempts.iter().all(|attempt| settles.contains(&attempt.id())), "{settles:?}");

    let [webhook] = &around.spans("webhook")[..] else { panic!("{:?}", around.spans) };
    assert_eq!((webhook.trace().as_str(), webhook.parent()), (CALLERS_TRACE, call.id()));
    assert_eq!(webhook.attributes()["delivery.outcome"], "delivered");
    assert_eq!(*around.delivered.lock().unwrap(), [traceparent_of(webhook)]);

    let lines = ["stored", "settled a webhook delivery", "settled"];
    for (log, line) in logs.iter().zip(lines) {
        let has_it = log.iter().any(|of| of.contains(line) && of.contains("trace_id") && of.contains(CALLERS_TRACE));
        assert!(has_it, "no line {line} of the trace in {log:#?}");
    }
}

fn traceparent_of(exported: &Exported) -> String {
    format!("00-{}-{}-01", exported.trace(), exported.id())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_collector_nothing_is_traced_and_a_traceparent_is_passed_on_as_it_came() {
    let fleet = Fleet::start(&[]).await;
    fleet.request(None).await;
    assert_eq!(fleet.kept().await, None);
    fleet.request(Some("00-no-traceparent")).await;
    assert_eq!(fleet.kept().await, None);
    fleet.request(Some(CALLER)).await;
    assert_eq!(fleet.kept().await.as_deref(), Some(CALLER));
    // Written by hand: it fits no header.
    fleet
        .database
        .execute(
            r"create function public.spoil() returns trigger language plpgsql as $$
              begin new.traceparent := E'no\ntrace'; return new; end $$;
              create trigger spoil before insert on tidegate.request for each row execute function public.spoil()",
        )
        .await;
    fleet.request(None).await;
    let (around, logs) = fleet.stop().await;

    assert_eq!(*around.sent.lock().unwrap(), ["", "", "", CALLER, ""]);
    assert_eq!(*around.delivered.lock().unwrap(), ["", "", CALLER, ""]);
    assert!(around.spans.lock().unwrap().is_empty());
    assert!(!logs.concat().iter().any(|line| line.contains("trace_id")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sampler_may_export_what_its_caller_does_not() {
    let always = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "COLLECTOR/v1/traces"), ("OTEL_TRACES_SAMPLER", "always_on")];
    let fleet = Fleet::start(&always).await;
    fleet.request(Some(&CALLER.replace("-01", "-00"))).await;
    let (around, _) = fleet.stop().await;
    let traces: Vec<_> = ["POST /v1/{kind}", "attempt", "webhook"].map(|name| around.spans(name)[0].trace()).into();
    assert_eq!(traces, [CALLERS_TRACE; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_is_not_sampled_is_exported_by_no_process_and_its_retries_neither() {
    let never = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "COLLECTOR"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0"),
    ];
    let fleet = Fleet::start(&never).await;
    fleet.request(None).await;
    let kept = fleet.kept().await.unwrap();
    assert!(kept.ends_with("-00"), "{kept}");
    // Its caller decides otherwise, for its retries too.
    fleet.around.sent.lock().unwrap().clear();
    fleet.request(Some(CALLER)).await;
    let (around, logs) = fleet.stop().await;

    assert_eq!(around.spans("attempt").len(), 2);
    assert!(around.sent.lock().unwrap().iter().all(|sent| sent.ends_with("-01")));
    let trace = &kept[3..35];
    assert!(around.spans.lock().unwrap().iter().all(|exported| exported.trace() != trace));
    for log in logs {
        assert!(log.iter().any(|line| line.contains(trace)), "no line of {trace} in {log:#?}");
    }
}
