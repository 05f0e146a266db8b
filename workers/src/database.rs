//! Which database, and the store over it.

use anyhow::Context;
use tidegate::{
    config::DatabaseLocation,
    database::{self, PoolSettings},
    store::Store,
    worker::WorkerOptions,
};

use crate::cli::WorkerFlags;

/// A store, and the database it is in: the embedded server runs as long as this lives.
pub(crate) struct Connected {
    pub(crate) store: Store,
    _location: DatabaseLocation,
}

/// Connects to the database that the flags name, and makes sure that it is ready for work.
///
/// A worker needs a connection to listen, one for maintenance and up to three for each queue; `more` come on top.
pub(crate) async fn open(worker: &WorkerFlags, more: usize) -> anyhow::Result<Connected> {
    let location = DatabaseLocation::find(worker.database_url.clone())
        .await
        .context("there is no database URL, and the embedded PostgreSQL cannot be used")?;
    let connections = 2 + 3 * worker.options().queues.len() + more;
    let settings = PoolSettings {
        connections_max: u32::try_from(connections)?,
        application_name: "tidegate-worker".to_owned(),
        ..PoolSettings::default()
    };
    let pool = database::connect(&location.url, &settings)
        .await
        .context("check the URL (`--database-url` or DATABASE_URL) and that PostgreSQL is running")?;
    let store = Store::new(pool);
    store.check_ready().await?;
    Ok(Connected {
        store,
        _location: location,
    })
}

/// How the flags want the worker to work.
pub(crate) fn options(worker: &WorkerFlags) -> anyhow::Result<WorkerOptions> {
    let mut options = worker.options();
    if let Some(url) = &worker.listen_database_url {
        let settings = PoolSettings {
            application_name: "tidegate-worker".to_owned(),
            ..PoolSettings::default()
        };
        let pool = database::connect_to_listen(url, &settings);
        options.listen = Some(pool.context("check --listen-database-url")?);
    }
    Ok(options)
}
