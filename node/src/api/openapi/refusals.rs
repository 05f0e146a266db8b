//! Sets of problem classes that handlers name in their `responses(…)`.
//!
//! ```text
//! responses((status = 200, body = Thing), Refusals<(Call, OfKind, WithBody)>)
//! ```
//!
//! The sets of one handler are joined, because all classes with one status share its documentation.

use std::{collections::BTreeMap, marker::PhantomData};

use utoipa::{
    IntoResponses,
    openapi::{AllOfBuilder, Content, ObjectBuilder, OneOfBuilder, Ref, RefOr, Response, ResponseBuilder, Schema},
};

use super::schemas::words;
use crate::api::problem::*;

/// A set of classes that a call may be refused with.
pub(in crate::api) trait Refusing {
    /// The classes.
    fn classes() -> Vec<&'static Class>;
}

macro_rules! sets {
    ($($(#[$doc:meta])* $name:ident = [$($class:ident),* $(,)?];)+) => {
        $(
            $(#[$doc])*
            pub(in crate::api) struct $name;

            impl Refusing for $name {
                fn classes() -> Vec<&'static Class> {
                    vec![$(&$class),*]
                }
            }
        )+
    };
}

sets! {
    /// Any call; overloaded: too many connections are open.
    Anywhere = [INTERNAL, TIMED_OUT, OVERLOADED];
    /// A call that reads the database.
    Asking = [DATABASE_UNAVAILABLE, NOT_MIGRATED, NOT_PERMITTED];
    /// A call that may need a key.
    Guarded = [UNAUTHENTICATED, FORBIDDEN, FOREIGN_ORIGIN];
    /// A path that names a kind.
    OfKind = [UNKNOWN_KIND];
    /// A path that names a request.
    OfJob = [UNKNOWN_KIND, UNKNOWN_REQUEST];
    /// A path of operators that names a request.
    OfRequest = [UNKNOWN_REQUEST];
    /// A path that names a queue.
    OfQueue = [UNKNOWN_QUEUE];
    /// A path that names a quota.
    OfQuota = [UNKNOWN_QUOTA];
    /// A call that names settings.
    OfSetting = [UNKNOWN_SETTING];
    /// A query.
    WithQuery = [INVALID_PARAMETER];
    /// A JSON body.
    WithBody = [
        MALFORMED_JSON, INVALID_BODY, INCOMPLETE_BODY, PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, UNSTORABLE,
    ];
    /// A submission.
    Submitting = [
        INVALID_HEADER, INVALID_REQUEST, KEY_MISSING, KEY_REUSED, GATE_CLOSED, GATE_BUSY, KEY_BUSY, KIND_NOT_CONFIGURED,
    ];
    /// A call that asks for a Retry-After without a request.
    Quoting = [KIND_NOT_CONFIGURED];
    /// A submission of many.
    Batching = [BATCH_TOO_LARGE];
    /// A submission that may have a callback URL.
    CallingBack = [CALLBACK_REFUSED];
    /// A change of the configuration.
    Changing = [INVALID_REQUEST];
    /// A change of policies, or of the times that limit them.
    Budgeting = [POLICY_REFUSED];
    /// An end by hand.
    Ending = [ILLEGAL_STATE];
    /// A cancellation.
    Cancelling = [NOT_CANCELLABLE, ILLEGAL_STATE];
    /// A response of the downstream.
    Responding = [UNKNOWN_REQUEST, RESPONSE_MISFIT, ILLEGAL_STATE];
}

/// Any call of `/v1`.
pub(in crate::api) type Call = (Anywhere, Asking, Guarded);

macro_rules! joined {
    ($($set:ident)+) => {
        impl<$($set: Refusing),+> Refusing for ($($set,)+) {
            fn classes() -> Vec<&'static Class> {
                [$($set::classes()),+].concat()
            }
        }
    };
}

joined!(A B);
joined!(A B C);
joined!(A B C D);
joined!(A B C D E);

/// The problem documents of a set, or of a tuple of sets.
pub(in crate::api) struct Refusals<T>(PhantomData<T>);

impl<T: Refusing> IntoResponses for Refusals<T> {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut by_status = BTreeMap::<u16, Vec<&'static Class>>::new();
        for class in T::classes() {
            let classes = by_status.entry(class.status.as_u16()).or_default();
            if !classes.iter().any(|known| known.code == class.code) {
                classes.push(class);
            }
        }
        by_status.into_iter().map(|(status, classes)| (status.to_string(), RefOr::T(refusal(&classes)))).collect()
    }
}

/// The problem document with one of these classes.
fn refusal(classes: &[&'static Class]) -> Response {
    let titles = classes.iter().map(|class| format!("`{}`: {}", class.code, class.title));
    let schemas = classes.iter().map(|class| Ref::from_schema_name(schema_name(class)));
    let schema = schemas.fold(OneOfBuilder::new(), OneOfBuilder::item);
    let mut content = Content::new(Some(schema));
    let detail = "the cause of this occurrence, and the remedy".to_owned();
    content.example = serde_json::to_value(classes[0].document(detail, classes[0].retry_after)).ok();
    ResponseBuilder::new()
        .description(titles.collect::<Vec<_>>().join("; "))
        .content("application/problem+json", content)
        .build()
}

/// The schemas of the classes, each with a name of its own: that of its type in a generated client.
pub(in crate::api) fn schemas() -> impl Iterator<Item = (String, RefOr<Schema>)> {
    ALL.iter().map(|class| {
        let own = ObjectBuilder::new().property("code", words([class.code])).required("code");
        let own = match class.retry_after {
            Some(_) => own.required("retry_after_seconds"),
            None => own,
        };
        let problem = AllOfBuilder::new().item(Ref::from_schema_name("Problem")).item(own);
        (schema_name(class), problem.description(Some(class.title)).into())
    })
}

/// `GateClosedProblem` for `gate_closed`.
fn schema_name(class: &Class) -> String {
    let words = class.code.split('_').map(|word| word[..1].to_ascii_uppercase() + &word[1..]);
    words.chain(["Problem".to_owned()]).collect()
}
