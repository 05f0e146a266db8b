//! The style sheet, the script and the icon. Their names have a hash of what is in them, so browsers keep them.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};

/// A file that pages name.
pub(super) struct Asset {
    name: String,
    media_type: &'static str,
    text: &'static str,
}

impl Asset {
    fn of(stem: &str, extension: &str, media_type: &'static str, text: &'static str) -> Self {
        let hash = Sha256::digest(text);
        let digits: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Self { name: format!("{stem}-{digits}.{extension}"), media_type, text }
    }

    pub(super) fn path(&self) -> String {
        format!("/ui/assets/{}", self.name)
    }
}

pub(super) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::of("ui", "css", "text/css; charset=utf-8", include_str!("assets/ui.css")));
pub(super) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::of("ui", "js", "text/javascript; charset=utf-8", include_str!("assets/ui.js")));
pub(super) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::of("icon", "svg", "image/svg+xml", include_str!("assets/icon.svg")));

/// `GET /ui/assets/{name}`
pub(super) async fn asset(Path(name): Path<String>) -> Result<Response, StatusCode> {
    let known = [&*STYLE, &*SCRIPT, &*ICON];
    let asset = known.into_iter().find(|asset| asset.name == name).ok_or(StatusCode::NOT_FOUND)?;
    let headers = [(CONTENT_TYPE, asset.media_type), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    Ok((headers, asset.text).into_response())
}
