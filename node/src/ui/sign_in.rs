//! `/ui/sign-in` and `/ui/sign-out`: the begin and the end of a session.

use std::{sync::Arc, time::Duration};

use axum::{
    Form,
    extract::State,
    http::{HeaderMap, StatusCode, header::SET_COOKIE},
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use tidegate::internals::api_key::{ApiKey, Scope};

use super::{
    context::Ui,
    document,
    fault::Fault,
    session::{Act, COOKIE_NAME, Fields, Token},
};
use crate::state::{access::Refusal, origin};

/// How long a session lasts.
const LASTS: Duration = Duration::from_secs(12 * 3600);

/// `GET /ui/sign-in`
pub(super) async fn show(fields: Fields) -> Markup {
    sign_in(fields.get("to").unwrap_or("/ui"), None)
}

fn sign_in(to: &str, wrong: Option<&str>) -> Markup {
    let body = html! {
        @if let Some(wrong) = wrong { p.note.bad role="alert" { (wrong) } }
        form.row method="post" action="/ui/sign-in" {
            input type="hidden" name="to" value=(to);
            label {
                "API key"
                input type="password" name="key" required autofocus autocomplete="current-password" size="40";
            }
            button.main { "Sign in" }
        }
        p.soft {
            "A key with the scope " code { "read" } " sees the pages, one with " code { "admin" } " acts, one with "
            code { "payload" } " sees payloads and responses: " code { "tidegate key create NAME --scope read" } "."
        }
    };
    document::bare("Sign in", &body)
}

/// `POST /ui/sign-in`
pub(super) async fn begin(
    State(ui): State<Arc<Ui>>,
    headers: HeaderMap,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Result<Response, Fault> {
    let fields = Fields::of(pairs)?;
    if origin::is_of_another_site(&headers) {
        return Err(Fault::Foreign);
    }
    ui.failures.admit()?;
    let to = fields.get("to").filter(|to| to.starts_with("/ui") && !to.contains(['\\', '\n', '\r'])).unwrap_or("/ui");
    let wrong = |sentence: &str| {
        ui.failures.note();
        Ok((StatusCode::FORBIDDEN, sign_in(to, Some(sentence))).into_response())
    };
    let Ok(key) = ApiKey::parse(fields.get("key").unwrap_or_default().trim()) else {
        return wrong("this is no API key: it is tg_, 16 hex digits, _ and 64 hex digits");
    };
    let caller = match ui.node.access.shown(&key, Scope::Read).await {
        Ok(caller) => caller,
        Err(Refusal::Unavailable(error)) => return Err(error.into()),
        Err(refusal) => return wrong(&refusal.to_string()),
    };
    let Some(id) = caller.key_id() else { return Ok(Redirect::to(to).into_response()) };
    let token = Token::generate().map_err(|error| Fault::Invalid(error.to_string()))?;
    ui.store.session_begin(&token.hash(), id, LASTS).await?;
    tracing::info!(key = id, "an operator has signed in to the pages");
    Ok(([(SET_COOKIE, cookie(&headers, &token.0, LASTS))], Redirect::to(to)).into_response())
}

/// `POST /ui/sign-out`
pub(super) async fn end(State(ui): State<Arc<Ui>>, headers: HeaderMap, act: Act) -> Result<Response, Fault> {
    if let Some(token) = act.viewer.token() {
        ui.store.session_end(&token.hash()).await?;
    }
    Ok(([(SET_COOKIE, cookie(&headers, "", Duration::ZERO))], Redirect::to("/ui/sign-in")).into_response())
}

fn cookie(headers: &HeaderMap, token: &str, lasts: Duration) -> String {
    // What ends TLS in front of a node says so in this header.
    let secure = headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https");
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={token}; Path=/ui; Max-Age={}; HttpOnly; SameSite=Strict{secure}", lasts.as_secs())
}
