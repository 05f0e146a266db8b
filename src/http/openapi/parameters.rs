//! What paths and headers say, for the document. What they mean is decided where they are read: `path`, `submit`.

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
