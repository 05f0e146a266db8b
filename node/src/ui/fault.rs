//! Why a page is not shown, or an act not done: a page that says so.

use std::sync::Arc;

use axum::{
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use maud::html;
use tidegate::internals::error::StoreError;

use super::document;
use crate::state::access::Refusal;

pub(super) enum Fault {
    /// The viewer has to sign in, and then gets to this path.
    SignIn(String),
    /// The viewer's key does not have the scope.
    Lacks(&'static str),
    /// Nothing has this address.
    NothingHere,
    /// The form was not made for this viewer, or by a node that has restarted since.
    OldForm,
    /// A value of the address or the form.
    Invalid(String),
    /// Too many wrong keys.
    Hasty,
    /// A call from a page of another site.
    Foreign,
    /// More calls of pages than a node serves at once.
    Busy,
    /// It took too long.
    Slow,
    Store(Arc<StoreError>),
}

impl Fault {
    /// Whether the database did not answer.
    pub(super) fn is_of_database(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

impl From<Arc<StoreError>> for Fault {
    fn from(error: Arc<StoreError>) -> Self {
        Self::Store(error)
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Foreign => Self::Foreign,
            Refusal::Lacks(_) => Self::Lacks("read"),
            Refusal::Unavailable(error) => Self::Store(error),
            Refusal::Missing | Refusal::Malformed | Refusal::Unknown => Self::SignIn("/ui".to_owned()),
        }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let (status, title, sentence) = match self {
            Self::SignIn(to) => {
                let query = serde_urlencoded::to_string([("to", to)]).unwrap_or_default();
                return Redirect::to(&format!("/ui/sign-in?{query}")).into_response();
            }
            Self::Lacks(scope) => (
                StatusCode::FORBIDDEN,
                "Not with this key",
                format!("this needs an API key with the scope `{scope}`: sign out, and sign in with one that has it"),
            ),
            Self::NothingHere => {
                (StatusCode::NOT_FOUND, "Nothing here", "no page, request or file has this address".to_owned())
            }
            Self::OldForm => (
                StatusCode::FORBIDDEN,
                "Not done",
                "the form is older than this session: load its page again, and repeat it".to_owned(),
            ),
            Self::Invalid(sentence) => (StatusCode::UNPROCESSABLE_ENTITY, "Not done", sentence),
            Self::Hasty => (
                StatusCode::TOO_MANY_REQUESTS,
                "Too many wrong keys",
                "this node takes no keys for a minute: wait, and try again".to_owned(),
            ),
            Self::Foreign => (
                StatusCode::FORBIDDEN,
                "Not from here",
                "without API keys this node serves only programs and browsers on its own machine: `tidegate key create`"
                    .to_owned(),
            ),
            Self::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Busy",
                "this node serves as many pages as it may: load this one again in a moment".to_owned(),
            ),
            Self::Slow => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Not answered in time",
                "this took too long: if it was an act, look whether it was done before you repeat it".to_owned(),
            ),
            Self::Store(error) => {
                let (status, title) = match &*error {
                    StoreError::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "The database does not answer"),
                    StoreError::UnknownRequest(_) => (StatusCode::NOT_FOUND, "Nothing here"),
                    StoreError::NotPermitted(_) => (StatusCode::FORBIDDEN, "Not done"),
                    _ => (StatusCode::UNPROCESSABLE_ENTITY, "Not done"),
                };
                (status, title, error.to_string())
            }
        };
        let body = html! {
            p.note.bad { (sentence) }
            p { a href="/ui" { "Back to the overview" } }
        };
        (status, document::bare(title, &body)).into_response()
    }
}
