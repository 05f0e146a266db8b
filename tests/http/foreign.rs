//! Can a program serve routes of its own beside `/v1`, with its own errors, limits and keys, on the same node?

use axum::{
    Router,
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use reqwest::Client;
use serde_json::json;
use tidegate::{Kind, Submitted, Tidegate, internals::api_key::ApiKey, request::RequestId};
use tidegate_node::{HttpOptions, Keys, Node, NodeOptions, Refusal, Scope, Submission};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{access::key, hold_submissions, let_go, until_submissions_wait};
use crate::support::{TestDatabase, eventually, raw};

/// The body limit of `/v1` here; the program's routes take twice as much.
const BODY_LIMIT: usize = 1000;

/// Errors have the program's form.
fn no(status: StatusCode, why: &str) -> Response {
    (status, format!("no: {why}")).into_response()
}

async fn put(State(node): State<Node>, call: Request) -> Response {
    let (parts, body) = call.into_parts();
    let caller = match node.caller(&parts, Scope::Submit).await {
        Ok(caller) => caller,
        Err(Refusal::Unavailable(_)) => return no(StatusCode::SERVICE_UNAVAILABLE, "keys"),
        Err(refusal) => return no(StatusCode::UNAUTHORIZED, &format!("{refusal:?}")),
    };
    let Some(_place) = node.admit() else {
        return no(StatusCode::TOO_MANY_REQUESTS, "full");
    };
    let Ok(body) = axum::body::to_bytes(body, 2 * BODY_LIMIT).await else {
        return no(StatusCode::BAD_REQUEST, "too large");
    };
    let mut submission = Submission::new("payout", raw(&json!(String::from_utf8_lossy(&body))));
    submission.idempotency_key = parts.headers.get("key").map(|key| key.to_str().unwrap().to_owned());
    submission.submitter = caller.submitter().map(str::to_owned);
    match node.submit(submission).await {
        Ok(Submitted::Accepted(ticket)) => (StatusCode::CREATED, ticket.id.to_string()).into_response(),
        Ok(Submitted::Replayed(ticket)) => (StatusCode::OK, ticket.id.to_string()).into_response(),
        Ok(Submitted::Refused { retry_after }) => no(StatusCode::TOO_MANY_REQUESTS, &retry_after.as_secs().to_string()),
        Err(error) => no(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn look(State(node): State<Node>, Path(id): Path<uuid::Uuid>) -> Response {
    match node.outlook(RequestId(id)).await {
        Ok(Some(outlook)) => format!("{} {}", outlook.status, outlook.submitter.unwrap_or_default()).into_response(),
        Ok(None) => no(StatusCode::NOT_FOUND, "unknown"),
        Err(error) => no(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// The program, on a free port.
struct Program {
    node: Node,
    base: String,
    client: Client,
    stop: CancellationToken,
    served: JoinHandle<std::io::Result<()>>,
}

impl Program {
    async fn start(tidegate: &Tidegate, options: NodeOptions) -> Self {
        let http = HttpOptions { body_limit: BODY_LIMIT, concurrency_limit: 2, ..HttpOptions::default() };
        let node = Node::new(tidegate, options.http(http));
        let own = Router::new()
            .route("/payouts", post(put))
            .route("/payouts/{id}", get(look))
            .fallback(async || no(StatusCode::NOT_FOUND, "path"))
            .with_state(node.clone());
        let router = own.merge(node.router().reset_fallback());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (stop, serving) = (CancellationToken::new(), node.clone());
        let stopped = stop.clone();
        let served = tokio::spawn(async move { serving.serve(listener, router, stopped).await });
        let client = Client::builder().no_proxy().build().unwrap();
        Self { node, base, client, stop, served }
    }

    async fn post(&self, path: &str, body: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let call = self.client.post(format!("{}{path}", self.base)).body(body.to_owned());
        let call = headers.iter().fold(call, |call, (name, value)| call.header(*name, *value));
        let answer = call.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let answer = self.client.get(format!("{}{path}", self.base)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

async fn payouts() -> (TestDatabase, Tidegate) {
    let database = TestDatabase::unlimited().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    tidegate.register(Kind::direct("payout")).await.unwrap();
    (database, tidegate)
}

#[tokio::test(flavor = "multi_thread")]
async fn own_routes_have_their_own_errors_and_limits_and_v1_keeps_its_own() {
    let (database, tidegate) = payouts().await;
    let program = Program::start(&tidegate, NodeOptions::default()).await;

    let (status, id) = program.post("/payouts", "7", &[("key", "a")]).await;
    assert_eq!(status, 201);
    assert_eq!(program.post("/payouts", "7", &[("key", "a")]).await, (200, id.clone()));
    assert_eq!(program.get(&format!("/payouts/{id}")).await, (200, "processing ".to_owned()));
    let missing = format!("/payouts/{}", uuid::Uuid::now_v7());
    assert_eq!(program.get(&missing).await, (404, "no: unknown".to_owned()));
    assert_eq!(program.get("/nowhere").await, (404, "no: path".to_owned()));

    let long = "x".repeat(BODY_LIMIT + 1);
    assert_eq!(program.post("/payouts", &long, &[]).await.0, 201);
    let json = [("content-type", "application/json")];
    let (status, problem) = program.post("/v1/payout", &format!("\"{long}\""), &json).await;
    assert_eq!((status, problem.contains("urn:problem-type:tidegate:")), (413, true));
    assert_eq!(program.post("/v1/payout", "7", &json).await.0, 202);
    assert_eq!(program.get(&format!("/v1/payout/{id}")).await.0, 202);
    assert_eq!(program.get("/livez").await.0, 200);
    assert_eq!(database.number("select count(*) from tidegate.request").await, 3);

    // Both count in the same place.
    let page = program.node.render_metrics().await;
    for figure in [
        r#"tidegate_submissions_total{kind="payout",outcome="accepted"} 3"#,
        r#"tidegate_submissions_total{kind="payout",outcome="replayed"} 1"#,
    ] {
        assert!(page.contains(figure), "{figure}: {page}");
    }
    assert_eq!(program.get("/metrics").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn own_routes_take_places_of_the_node_and_wait_for_nothing_without_one() {
    let (_database, tidegate) = payouts().await;
    let program = Program::start(&tidegate, NodeOptions::default()).await;
    let places = [program.node.admit().unwrap(), program.node.admit().unwrap()];
    assert!(program.node.admit().is_none());
    assert_eq!(program.post("/payouts", "7", &[]).await, (429, "no: full".to_owned()));
    let json = [("content-type", "application/json")];
    assert_eq!(program.post("/v1/payout", "7", &json).await.0, 503);
    drop(places);
    assert_eq!(program.post("/payouts", "7", &[]).await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_gate_refuses_new_requests_and_no_replays() {
    let (database, tidegate) = payouts().await;
    database.execute("update tidegate.gate set high_water = 1, low_water = 0 where queue = 'payout'").await;
    let program = Program::start(&tidegate, NodeOptions::default()).await;
    assert_eq!(program.post("/payouts", "7", &[("key", "a")]).await.0, 201);
    for _ in 0..2 {
        let (status, why) = program.post("/payouts", "7", &[]).await;
        assert_eq!(status, 429);
        assert!(why.strip_prefix("no: ").unwrap().parse::<u64>().unwrap() >= 1, "{why}");
    }
    assert_eq!(program.post("/payouts", "7", &[("key", "a")]).await.0, 200);
    assert_eq!(program.post("/payouts", "7", &[("key", "b")]).await.0, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_does_its_work_and_a_stop_finishes_the_calls_under_way() {
    let (database, tidegate) = payouts().await;
    let program = Program::start(&tidegate, NodeOptions::default()).await;
    let listens = format!(
        "select count(*) from pg_stat_activity
         where datname = current_database() and application_name = '{}'",
        tidegate_node::internals::LISTENER_NAME
    );
    eventually("it listens", || async { database.number(&listens).await == 1 }).await;
    let maintained = "select count(*) from tidegate.maintenance where ran_at > '-infinity'";
    eventually("it maintains", || async { database.number(maintained).await > 10 }).await;

    let held = hold_submissions(&database).await;
    let call = program.client.post(format!("{}/payouts", program.base)).body("7");
    let call = tokio::spawn(call.send());
    until_submissions_wait(&database, 1).await;
    program.stop.cancel();
    eventually("the port is closed", || async {
        program.client.get(format!("{}/livez", program.base)).send().await.is_err()
    })
    .await;
    assert!(!program.served.is_finished());
    let_go(held).await;
    assert_eq!(call.await.unwrap().unwrap().status(), 201);
    program.served.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_where_the_program_finds_them_and_needed_as_it_says() {
    let (database, tidegate) = payouts().await;
    let ann = key(&database, "ann", &[Scope::Submit]).await;
    let watcher = key(&database, "watcher", &[Scope::Respond]).await;
    let stranger = ApiKey::generate().unwrap();
    let in_header = |keys| {
        let options = NodeOptions::default().keys(keys);
        options.credentials(|call| Some(call.headers.get("x-api-key")?.to_str().ok()?.to_owned()))
    };
    for (keys, nothing, known, unknown, foreign) in [
        (Keys::Off, (201, ""), (201, ""), (201, ""), (201, "")),
        (Keys::Optional, (201, ""), (201, "ann"), (401, "no: Unknown"), (401, "no: Lacks(Submit)")),
        (Keys::Required, (401, "no: Missing"), (201, "ann"), (401, "no: Unknown"), (401, "no: Lacks(Submit)")),
    ] {
        let program = Program::start(&tidegate, in_header(keys)).await;
        for (shown, wanted) in [
            (None, nothing),
            (Some(ann.expose()), known),
            (Some(stranger.expose()), unknown),
            (Some(watcher.expose()), foreign),
        ] {
            let headers: Vec<_> = shown.iter().map(|key| ("x-api-key", *key)).collect();
            let (status, text) = program.post("/payouts", "7", &headers).await;
            let text = match status {
                201 => {
                    let (_, seen) = program.get(&format!("/payouts/{text}")).await;
                    seen.strip_prefix("processing ").unwrap().to_owned()
                }
                _ => text,
            };
            assert_eq!((status, text.as_str()), wanted, "{keys:?}");
        }
        // `/v1` takes its own form only, and never goes without.
        let shown = [("content-type", "application/json"), ("x-api-key", ann.expose())];
        assert_eq!(program.post("/v1/payout", "7", &shown).await.0, 401, "{keys:?}");
        let bearer = format!("Bearer {}", ann.expose());
        let shown = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        assert_eq!(program.post("/v1/payout", "7", &shown).await.0, 202, "{keys:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_loopback_a_program_has_to_say_who_needs_a_key() {
    let (_database, tidegate) = payouts().await;
    for (keys, serves) in [(Keys::OnceCreated, false), (Keys::Off, true), (Keys::Required, true)] {
        let node = Node::new(&tidegate, NodeOptions::default().keys(keys));
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        let served = node.serve(listener, node.router(), stop).await;
        assert_eq!(served.is_ok(), serves, "{keys:?}: {served:?}");
    }
}
