//! Gates: their state, their marks, holding them by hand, their history.

use std::sync::Arc;

use axum::{
    Json as JsonAnswer,
    extract::{FromRequestParts, State},
    http::request::Parts,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::Number;
use tidegate::internals::store::{ConfigChange, Gate, GateChange, GateHold, QuotaMarks, Store};
use utoipa::ToSchema;

use super::{AdminStore, Answer, GatePath, PAGE, PAGE_MAX, QueuePath, history};
use crate::api::{
    body::Json,
    context::Api,
    openapi::refusals::{Call, Changing, OfQueue, Refusals, WithBody, WithQuery},
    problem::{INVALID_PARAMETER, Problem},
};

/// Gates.
#[derive(Serialize, ToSchema)]
#[schema(as = GateList)]
pub(super) struct Gates {
    gates: Vec<Gate>,
}

/// Every gate, those of queues and the quotas of kinds and submitters.
#[utoipa::path(
    get,
    path = "/v1/admin/gates",
    responses((status = 200, description = "The gates", body = Gates), Refusals<Call>),
)]
pub(super) async fn gates(State(api): State<Arc<Api>>) -> Answer<Gates> {
    let gates = api.store.gates(None).await?;
    Ok(JsonAnswer(Gates { gates }))
}

/// The marks and the mode of a gate; a member that is missing leaves its value unchanged.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GateMarks {
    /// The depth at which it closes; above `low_water`.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 1, maximum = 1_000_000_000)]
    high_water: Option<i32>,
    /// The depth at which it opens again.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 0, maximum = 2_147_483_646)]
    low_water: Option<i32>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, inline)]
    mode: Option<Mode>,
}

/// Whether a gate counts exactly.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    Strict,
    Soft,
}

impl Mode {
    /// The mode's name in the database.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Soft => "soft",
        }
    }
}

/// A member that may be missing, but not null.
pub(super) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A whole number. JSON does not distinguish 200 from 200.0, so both are accepted.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let exact =
        number.as_f64().filter(|value| value.fract() == 0.0).and_then(|value| format!("{value:.0}").parse().ok());
    exact.ok_or_else(|| D::Error::custom(format!("{number} is not a whole number of 32 bits")))
}

/// A whole number that may be missing, but not null.
pub(super) fn whole_if_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    whole(deserializer).map(Some)
}

/// A gate whose marks were set.
#[derive(Serialize, ToSchema)]
pub(super) struct MarkedGate {
    gate: Gate,
    /// The settings whose value was another one before.
    changed: Vec<ConfigChange>,
}

impl GateMarks {
    /// Sets the marks of an existing gate; answers with the gate as it is afterwards.
    pub(super) async fn set(&self, store: &Store, path: &impl GatePath) -> Answer<MarkedGate> {
        let gate = find(store, path).await?.name;
        let marks =
            QuotaMarks { high_water: self.high_water, low_water: self.low_water, mode: self.mode.map(Mode::word) };
        let changed = store.gate_set(&gate, marks).await?;
        let gate = find(store, path).await?;
        Ok(JsonAnswer(MarkedGate { gate, changed }))
    }
}

/// A gate after a change.
#[derive(Serialize, ToSchema)]
#[schema(as = HeldGate)]
pub(super) struct ForcedGate {
    pub(super) gate: Gate,
    /// Whether the call changed it.
    pub(super) changed: bool,
}

/// Declares the calls that read a gate, set its marks, hold it by hand and release it.
macro_rules! gate_calls {
    (
        $path:ty, $unknown:ident, $gate_route:tt;
        get $get:ident $get_summary:tt;
        patch $patch:ident $patch_summary:tt;
        $(post $call:ident $route:tt $hold:ident $summary:tt;)+
    ) => {
        /// One gate; 404 when there is none.
        #[utoipa::path(
            get,
            path = $gate_route,
            summary = $get_summary,
            params($path),
            responses((status = 200, description = "The gate", body = Gate), Refusals<(Call, $unknown)>),
        )]
        pub(super) async fn $get(State(api): State<Arc<Api>>, path: $path) -> Answer<Gate> {
            find(&api.store, &path).await.map(JsonAnswer)
        }

        /// Sets marks and mode of an existing gate, as far as the body names them. Answers with the gate and the
        /// changes.
        #[utoipa::path(
            patch,
            path = $gate_route,
            summary = $patch_summary,
            params($path),
            request_body(content = GateMarks),
            responses(
                (status = 200, description = "The gate; in force everywhere within a second", body = MarkedGate),
                Refusals<(Call, $unknown, WithBody, Changing)>,
            ),
        )]
        pub(super) async fn $patch(
            AdminStore(store): AdminStore,
            path: $path,
            Json(marks): Json<GateMarks>,
        ) -> Answer<MarkedGate> {
            marks.set(&store, &path).await
        }

        $(
            /// A gate that is held closed or open stays so until it is released; then its marks decide again. `changed`
            /// is false when it was so before.
            #[utoipa::path(
                post,
                path = $route,
                summary = $summary,
                params($path),
                responses((status = 200, description = "The gate", body = ForcedGate), Refusals<(Call, $unknown)>),
            )]
            pub(super) async fn $call(AdminStore(store): AdminStore, path: $path) -> Answer<ForcedGate> {
                force(&store, &path, GateHold::$hold).await
            }
        )+
    };
}
pub(super) use gate_calls;

gate_calls! {
    QueuePath, OfQueue, "/v1/admin/gates/{queue}";
    get gate "A queue's gate";
    patch mark_gate "Set a gate's marks and mode";
    post close_gate "/v1/admin/gates/{queue}/close" Close "Hold a gate closed";
    post open_gate "/v1/admin/gates/{queue}/open" Open "Hold a gate open";
    post release_gate "/v1/admin/gates/{queue}/release" Release "Let a gate follow its marks again";
}

/// Holds an existing gate, or releases it; answers with the gate as it is afterwards.
pub(super) async fn force(store: &Store, path: &impl GatePath, hold: GateHold) -> Answer<ForcedGate> {
    find(store, path).await?;
    let changed = store.gate_force(&path.gate(), hold).await?;
    let gate = find(store, path).await?;
    Ok(JsonAnswer(ForcedGate { gate, changed }))
}

/// The gate that a path names.
pub(super) async fn find(store: &Store, path: &impl GatePath) -> Result<Gate, Problem> {
    let found = store.gates(Some(&path.gate())).await?.pop();
    found.ok_or_else(|| path.unknown())
}

history!(
    GateHistory of GateChange,
    /// Only those of the gate of this name: a queue, `kind direct`, `submitter ann`.
    gate = "tx"
);

/// When gates closed and opened, and why, the latest first.
///
/// `next_before` is where the next page begins, null on the last one.
#[utoipa::path(
    get,
    path = "/v1/admin/gates/history",
    params(HistoryQuery),
    responses(
        (status = 200, description = "A page of changes", body = History),
        Refusals<(Call, WithQuery)>,
    ),
)]
pub(super) async fn gates_history(State(api): State<Arc<Api>>, query: HistoryQuery) -> Answer<History> {
    let limit = query.limit.unwrap_or(PAGE);
    let changes = api.store.gate_history(query.gate.as_deref(), limit, query.before);
    Ok(JsonAnswer(History::page(changes.await?, limit)))
}
