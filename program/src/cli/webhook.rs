//! `tidegate webhook`

use std::{
    net::{IpAddr, SocketAddr},
    process::ExitCode,
    time::Duration,
};

use anyhow::bail;
use clap::Subcommand;
use tidegate::{internals::store::Store, request::RequestId};
use tidegate_node::webhook::{Reach, reach};

use super::{
    Connected, GlobalArgs,
    table::{or_dash, time},
};
use crate::logs::print_err;

/// Deliveries made due again in one transaction.
const BATCH: i32 = 1000;

#[derive(Debug, Subcommand)]
pub(super) enum Webhook {
    /// The hosts that callback URLs may name
    #[command(subcommand)]
    Hosts(Hosts),
    /// The secrets that deliveries are signed with
    #[command(subcommand)]
    Secret(Secret),
    /// Set the callback URL of a kind
    Kind {
        /// The kind, such as `direct` or `user_decrypt`
        kind: String,
        /// The URL; `none` for no callback
        url: String,
    },
    /// Show deliveries, the latest request first
    List {
        /// Only failed deliveries
        #[arg(long)]
        failed: bool,
        /// The most deliveries to show
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Deliver again, under the same delivery id
    Redeliver {
        /// The job id
        #[arg(required_unless_present = "failed", conflicts_with = "failed")]
        id: Option<RequestId>,
        /// Every failed delivery
        #[arg(long)]
        failed: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum Hosts {
    /// Let callback URLs name a host
    Add {
        /// A name, `*.example.com` for all that is below it, or an address; with `:PORT` unless it is 443 (https) or 80
        host: String,
        /// It may have private and loopback addresses: for receivers in your own network
        #[arg(long)]
        allow_private: bool,
    },
    /// Remove a host from the list; pending deliveries to it fail
    Remove {
        /// The host, as it is listed
        host: String,
    },
    /// Show the list
    List,
}

#[derive(Debug, Subcommand)]
pub(super) enum Secret {
    /// Make a new secret and print it, once; the previous one also signs for a time
    Rotate {
        /// For this host of the list only
        #[arg(long)]
        host: Option<String>,
        /// How long both sign, in hours; 0 when the old one is known to others
        #[arg(long, default_value_t = 24.0)]
        overlap_hours: f64,
    },
    /// List the secrets, without their values
    List,
}

impl Webhook {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        match self {
            Self::Hosts(command) => command.run(&connected).await,
            Self::Secret(command) => command.run(&connected).await,
            Self::Kind { kind, url } => {
                let url = Some(url).filter(|url| url != "none");
                let kind = kind.replace('-', "_");
                let before = connected.store.set_kind_callback(&kind, url.as_deref()).await?;
                let [is, was] = [url, before].map(|url| url.unwrap_or_else(|| "none".to_owned()));
                outln!("the callback of {kind} is {is}; it was {was}");
                Ok(ExitCode::SUCCESS)
            }
            Self::List { failed, limit } => list(&connected, failed, limit).await,
            Self::Redeliver { id, .. } => redeliver(&connected.store, id).await,
        }
    }
}

impl Hosts {
    async fn run(self, connected: &Connected) -> anyhow::Result<ExitCode> {
        let store = &connected.store;
        match self {
            Self::Add { host, allow_private } => {
                let new = store.webhook_host_add(&host, allow_private).await?;
                let done = if new { "allowed" } else { "was allowed before:" };
                let reach = if allow_private { ", private addresses included" } else { "" };
                outln!("{done} {host}{reach}");
                if !allow_private && is_not_public(&host) {
                    print_err(format_args!(
                        "nothing will be delivered there: {host} is no address of the Internet; for a receiver in your own \
                         network remove it, and add it with --allow-private"
                    ));
                }
                if new {
                    print_err(format_args!(
                        "its receiver checks signatures with the secret of all hosts, or with one of its own: \
                         tidegate webhook secret rotate --host '{host}'"
                    ));
                }
            }
            Self::Remove { host } => {
                if !store.webhook_host_remove(&host).await? {
                    bail!("{host} is not on the list: see `tidegate webhook hosts list`");
                }
                outln!("removed {host}");
            }
            Self::List => {
                let hosts = store.webhook_hosts().await?;
                return connected.print_rows(hosts, "no host is allowed", "host  addresses  since  by", |host| {
                    let addresses = if host.allow_private { "private too" } else { "public" };
                    [host.host, addresses.to_owned(), time(host.created_at), host.created_by]
                });
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Secret {
    async fn run(self, connected: &Connected) -> anyhow::Result<ExitCode> {
        let store = &connected.store;
        match self {
            Self::Rotate { host, overlap_hours } => {
                let Ok(overlap) = Duration::try_from_secs_f64(overlap_hours * 3600.0) else {
                    bail!("the overlap is a number of hours, zero or more");
                };
                let (id, secret) = store.webhook_secret_rotate(host.as_deref(), overlap).await?;
                outln!("{secret}");
                print_err(format_args!(
                    "secret {id} signs from now on and is not shown again; the previous one also signs for {overlap_hours} h"
                ));
            }
            Self::List => {
                let secrets = store.webhook_secrets().await?;
                return connected.print_rows(secrets, "there is no secret", "id  host  since  until", |secret| {
                    [
                        secret.id.to_string(),
                        secret.host.unwrap_or_else(|| "all others".to_owned()),
                        time(secret.created_at),
                        or_dash(secret.expires_at.map(time)),
                    ]
                });
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn list(connected: &Connected, failed: bool, limit: u32) -> anyhow::Result<ExitCode> {
    let deliveries = connected.store.webhook_deliveries(failed, limit).await?;
    let header = "job  state  attempts  status  url  error";
    connected.print_rows(deliveries, "there is no delivery", header, |delivery| {
        let state = match (delivery.state.as_str(), delivery.under_way) {
            ("pending", true) => "under way".to_owned(),
            ("pending", false) => format!("due {}", time(delivery.due_at)),
            _ => delivery.state,
        };
        [
            delivery.request_id.to_string(),
            state,
            delivery.attempt.to_string(),
            or_dash(delivery.last_status),
            delivery.url,
            or_dash(delivery.last_error),
        ]
    })
}

/// Delivers a request's result again; every failed delivery if there is no id.
async fn redeliver(store: &Store, id: Option<RequestId>) -> anyhow::Result<ExitCode> {
    if let Some(id) = id {
        let Some(before) = store.webhook_redeliver(id).await? else {
            bail!("request {id} has no delivery: see `tidegate webhook list`");
        };
        outln!("{id} is due again; it was {before}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut total = 0;
    let mut next = Some(None);
    while let Some(after) = next {
        let (redelivered, next_after) = store.webhook_redeliver_failed(BATCH, after).await?;
        total += redelivered;
        next = next_after.map(Some);
    }
    outln!("{total} due again");
    Ok(ExitCode::SUCCESS)
}

/// Whether a host of the list is an address, with or without a port, or a name, that only this machine or network has.
fn is_not_public(host: &str) -> bool {
    let name = host.split(':').next().unwrap_or_default();
    let address = host.parse().map(|socket: SocketAddr| socket.ip());
    let address = address.or_else(|_| host.trim_matches(['[', ']']).parse::<IpAddr>());
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| reach(address) != Reach::Public)
}
