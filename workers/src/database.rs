//! Connections to the database.

use std::collections::BTreeMap;

use anyhow::Context;
use tidegate::{
    internals::{
        database::{self, PoolSettings},
        store::Store,
        worker::WorkerOptions,
    },
    request::Flow,
};
use tidegate_cli::database_location::DatabaseLocation;

use crate::cli::WorkerFlags;

/// A store over the database that the flags name, with this many connections. The embedded server runs as long as its
/// location lives.
pub(crate) async fn open(worker: &WorkerFlags, connections: usize) -> anyhow::Result<(Store, DatabaseLocation)> {
    let location = worker.database.clone().locate().await?;
    let store = location.open(&settings(u32::try_from(connections)?)).await?;
    Ok((store, location))
}

/// The flow of each kind.
pub(crate) async fn flows(store: &Store) -> anyhow::Result<BTreeMap<String, Flow>> {
    let kinds = store.kinds(None).await?;
    let flows = kinds.into_iter().map(|kind| Ok((kind.name, kind.flow.parse()?)));
    flows.collect()
}

/// The options of the worker that the flags describe.
pub(crate) fn options(worker: &WorkerFlags) -> anyhow::Result<WorkerOptions> {
    let mut options = worker.options();
    if let Some(url) = &worker.listen_database_url {
        let pool = database::connect_to_listen(url, &settings(PoolSettings::default().connections_max));
        options.listen = Some(pool.context("check --listen-database-url")?);
    }
    Ok(options)
}

fn settings(connections_max: u32) -> PoolSettings {
    PoolSettings { connections_max, application_name: "tidegate-worker".to_owned(), ..PoolSettings::default() }
}
