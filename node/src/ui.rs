//! The pages for operators, at `/ui`: when callers are answered, and if not, why; and what an operator can do about it.
//!
//! HTML from this process, readable without scripts, and no call to any other host. The pages read views, and act through
//! the functions of the admin API, so that roles, histories and audits hold for them. Viewers of live pages share the
//! readings of the database (`looks`).

mod alarms;
mod assets;
mod background;
mod chart;
mod context;
mod doctor;
mod document;
mod examinations;
mod failures;
mod fault;
mod format;
mod frame;
mod gates;
mod history;
mod honesty;
mod jobs;
mod live;
mod looks;
mod now;
mod request;
mod requests;
mod session;
mod settings;
mod sign_in;
mod stages;
mod webhooks;
mod work;
mod workers;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use tower_http::catch_panic::CatchPanicLayer;

pub use self::context::{PageOptions, Visitors};
use self::{context::Ui, fault::Fault};
use crate::state::node::Node;

/// How long a call may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The largest form, in bytes.
const FORM_MAX: usize = 256 * 1024;

/// Nothing but this node's own style, script, pictures and forms.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

impl Node {
    /// The pages for operators, at `/ui`: merge them with [`Node::router`].
    pub fn pages(&self, options: PageOptions) -> Router {
        let ui = Arc::new(Ui::new(self, options));
        Router::new()
            .route("/ui", get(now::show))
            .route("/ui/", get(|| async { Redirect::permanent("/ui") }))
            .route("/ui/history", get(history::show))
            .route("/ui/honesty", get(honesty::show))
            .route("/ui/requests", get(requests::show))
            .route("/ui/requests/preview", post(requests::preview))
            .route("/ui/requests/start", post(requests::start))
            .route("/ui/requests/{id}", get(request::show))
            .route("/ui/requests/{id}/{part}", get(request::content).post(request::acts::act))
            .route("/ui/jobs/{number}", get(jobs::show))
            .route("/ui/gates", get(gates::show).post(gates::act))
            .route("/ui/stages", get(stages::show))
            .route("/ui/workers", get(workers::show).post(workers::act))
            .route("/ui/webhooks", get(webhooks::show).post(webhooks::act))
            .route("/ui/settings", get(settings::show).post(settings::act))
            .route("/ui/doctor", get(doctor::show).post(doctor::act))
            .route("/ui/sign-in", get(sign_in::show).post(sign_in::begin))
            .route("/ui/sign-out", post(sign_in::end))
            .route_layer(middleware::from_fn_with_state(Arc::clone(&ui), limited))
            .route("/ui/live/{*page}", get(live::follow))
            .route("/ui/assets/{name}", get(assets::asset))
            .route("/ui/{*rest}", get(|| async { Fault::NothingHere }))
            .layer(DefaultBodyLimit::max(FORM_MAX))
            .layer(CatchPanicLayer::custom(|_| {
                let sentence = "an error of this program: its log has the cause";
                (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    document::bare("Not shown", &maud::html! { p.note.bad { (sentence) } }),
                )
                    .into_response()
            }))
            .layer(middleware::map_response(guarded))
            .with_state(ui)
    }
}

/// Limits the calls at once, and the time of each.
async fn limited(State(ui): State<Arc<Ui>>, request: Request, next: Next) -> Response {
    let Some(_place) = ui.calls.take() else { return Fault::Busy.into_response() };
    let is_act = request.method() == Method::POST;
    let answer = tokio::time::timeout(TIME_LIMIT, next.run(request)).await;
    if is_act {
        ui.looks.acted();
    }
    answer.unwrap_or_else(|_| Fault::Slow.into_response())
}

/// Adds the headers that keep a page what this node made it.
async fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
