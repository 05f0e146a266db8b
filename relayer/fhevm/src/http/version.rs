//! The version of this program.

use axum::Json;
use serde_json::{Value, json};

/// The environment variable that has the name of the service.
const NAME: &str = "APP_NAME";

/// The revision that was built, and whether it had changes: `make release-fhevm` and the Dockerfile set it.
const BUILD: &str = match option_env!("TIDEGATE_BUILD") {
    Some(build) => build,
    None => "unknown-dirty",
};

pub(super) async fn version() -> Json<Value> {
    let name = std::env::var(NAME).unwrap_or_else(|_| "relayer-service".to_owned());
    Json(json!({"name": name, "version": env!("CARGO_PKG_VERSION"), "build": BUILD}))
}
