//! What paths and headers say, for the document. What they mean is decided where they are read: `path`, `submit`,
//! `prefer`, `events`, `admin`.

use utoipa::IntoParams;
use uuid::Uuid;

/// A kind, as a path names it.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `KindPath` reads")]
pub(in crate::http) struct KindParameter {
    /// The kind of request, in kebab case: `direct`, `public-decrypt`, `user-decrypt`, `input-proof`, or one of the
    /// operator's own.
    #[param(pattern = "^[a-z][a-z0-9-]*$", example = "direct")]
    kind: String,
}

/// A request, as a path names it.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `JobPath` reads")]
pub(in crate::http) struct JobParameters {
    /// The kind of request, in kebab case.
    #[param(pattern = "^[a-z][a-z0-9-]*$", example = "direct")]
    kind: String,
    /// The id that the submission was answered with.
    #[param(example = "01a1f8bb-a1f9-70c0-84de-b7fe94f3591c")]
    job_id: Uuid,
}

/// How long a caller would wait.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes what `prefer` reads")]
pub(in crate::http) struct PreferParameter {
    /// `wait=N`: holds an answer back that would be 202, for N seconds at most. Anything else is ignored.
    #[param(rename = "Prefer", nullable = false, example = "wait=10")]
    prefer: Option<String>,
}

/// Where a stream of events broke off.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes what `events` reads")]
pub(in crate::http) struct LastEventParameter {
    /// The id of the last event that was read; what is none is ignored.
    #[param(rename = "Last-Event-ID", nullable = false, example = "1")]
    last_event_id: Option<String>,
}

/// A queue, as a path names it.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `QueuePath` reads")]
pub(in crate::http) struct QueueParameter {
    /// The queue, as the database names it.
    #[param(pattern = "^[a-z][a-z0-9_]{0,39}$", example = "tx")]
    queue: String,
}

/// A cap, as a path names it.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `CapPath` reads")]
pub(in crate::http) struct CapParameters {
    /// What it caps: `kind` or `submitter`.
    #[param(pattern = "^(kind|submitter)$", example = "kind")]
    of: String,
    /// The kind, as the database names it, or the submitter.
    #[param(min_length = 1, max_length = 200, example = "direct")]
    name: String,
}

/// A setting, as a path names it.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what `SettingPath` reads")]
pub(in crate::http) struct SettingParameter {
    /// A setting's documented name, or the name of a queue, a kind or a `KIND.STAGE` for all of its settings.
    #[param(min_length = 1, example = "tx.per_seconds")]
    name: String,
}
