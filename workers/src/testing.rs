//! What the tests of this crate share.

use std::{fmt::Debug, str::FromStr, sync::Arc};

use serde_json::{json, value::to_raw_value};
use tidegate::request::{Request, RequestId};
use uuid::Uuid;

use crate::{
    ParseError, from_flags,
    http_stage::{HttpReadiness, HttpTransact, Service, stages_of},
};

/// A request of `kind`.
pub(crate) fn request(kind: &str) -> Request {
    Request {
        id: RequestId(Uuid::now_v7()),
        kind: kind.to_owned(),
        payload: to_raw_value(&json!({ "secret": 7 })).unwrap(),
        attempt: 2,
        attempts_max: 3,
        deadline_at: chrono::Utc::now(),
        submitter: None,
        phases: None,
    }
}

/// The HTTP stages of `kind` that call the service at `url`.
pub(crate) fn stages_at(url: &str, kind: &str, flags: &str) -> (HttpReadiness, HttpTransact) {
    let urls = [("check", "{kind}"), ("send", "{kind}"), ("receipt", "{kind}/{id}")];
    let urls = urls.map(|(call, rest)| format!("--{call}-url {url}/{call}/{rest} "));
    let options = from_flags(&(urls.concat() + flags));
    let service = Arc::new(Service::new(&options).unwrap());
    let (readiness, transact) = stages_of(&service, &options, kind);
    (readiness.unwrap(), transact.unwrap())
}

/// Each text is refused with an error that contains its part.
pub(crate) fn assert_refused<T: FromStr<Err = ParseError> + Debug>(cases: &[(&str, &str)]) {
    for (text, part) in cases {
        let error = text.parse::<T>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}
