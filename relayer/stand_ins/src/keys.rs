//! Serves the key and the CRS that the SDK encrypts with, as a node of the KMS does.

use std::path::Path;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::host::{STORAGE_PREFIX, first_crs, first_key};

/// Serves until it is dropped.
#[derive(Debug)]
pub struct Keys {
    url: String,
    task: JoinHandle<()>,
}

impl Keys {
    /// Serves what `relayer/tests/sdk/prepare` has made in a folder.
    ///
    /// # Errors
    ///
    /// When it is not there.
    pub async fn start(folder: &Path) -> anyhow::Result<Keys> {
        let mut router = Router::new();
        for (kind, id, file) in [("PublicKey", first_key(), "key.bin"), ("CRS", first_crs(), "crs.bin")] {
            let content = std::fs::read(folder.join(file));
            let content = Bytes::from(content.with_context(|| format!("no {file}: run `make client-assets`"))?);
            router = router.route(&format!("/{STORAGE_PREFIX}/{kind}/{id:064x}"), get(async move || content));
        }
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!("the stand-in key server has ended: {error}");
            }
        });
        Ok(Keys { url, task })
    }

    /// What nodes of the KMS name as their storage.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.task.abort();
    }
}
