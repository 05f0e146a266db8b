//! Which database, and the store over it.

use anyhow::bail;
use tidegate::{
    database::{self, PoolSettings},
    store::Store,
};

use crate::cli::WorkerFlags;

/// The store over the database that the flags name, ready for work.
///
/// A worker needs a connection to listen, one for maintenance and up to three for each queue; `more` come on top.
pub(crate) async fn open(worker: &WorkerFlags, more: usize) -> anyhow::Result<Store> {
    let connections = 2 + 3 * worker.options().queues.len() + more;
    let settings = PoolSettings {
        connections_max: u32::try_from(connections)?,
        application_name: "tidegate-worker".to_owned(),
        ..PoolSettings::default()
    };
    let store = Store::new(database::connect(&database_url(worker)?, &settings).await?);
    store.check_ready().await?;
    Ok(store)
}

/// The URL of the database.
fn database_url(worker: &WorkerFlags) -> anyhow::Result<String> {
    match &worker.database_url {
        Some(url) if !url.is_empty() => Ok(url.clone()),
        _ => bail!("no database is named: give --database-url or set DATABASE_URL"),
    }
}
