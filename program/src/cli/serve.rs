//! `tidegate serve`

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use tidegate::internals::{error::StoreError, shutdown, store::Store};
use tidegate_node::{Keys, Node, PageOptions, Visitors, internals::NodeArgs};

use super::{GlobalArgs, recover};
use crate::logs::print_out;

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where to listen. Without any API key (`tidegate key create`) only loopback is listened on
    #[arg(long, env = "TIDEGATE_LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Run `tidegate recover` first, and serve when it has ended; any number of nodes may do so at once
    #[arg(long)]
    recover: bool,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    node: NodeArgs,
}

/// The pages for operators.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pages")]
struct Pages {
    /// Whether `/ui` is served, and what visitors may do who have not signed in, once there is an API key
    #[arg(long, env = "TIDEGATE_UI", default_value = "sign-in")]
    ui: Ui,
    /// The name of this installation, which each page shows
    #[arg(long, env = "TIDEGATE_INSTANCE", value_name = "NAME")]
    instance: Option<String>,
    /// Its colour, so that production does not look like a copy
    #[arg(long, env = "TIDEGATE_INSTANCE_COLOUR", requires = "instance")]
    instance_colour: Option<Colour>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ui {
    /// There are no pages
    Off,
    /// Visitors sign in with an API key
    SignIn,
    /// Visitors see all but payloads and responses
    Read,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Colour {
    Red,
    Orange,
    Green,
    Blue,
    Purple,
}

impl Pages {
    /// Their options; none: there are no pages.
    fn options(self) -> Option<PageOptions> {
        let visitors = match self.ui {
            Ui::Off => return None,
            Ui::SignIn => Visitors::SignIn,
            Ui::Read => Visitors::Read,
        };
        let colour = self.instance_colour.and_then(|colour| Some(colour.to_possible_value()?.get_name().to_owned()));
        Some(PageOptions { instance: self.instance, colour, visitors })
    }
}

impl Serve {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let stop = shutdown::on_signal()?;
        let mut recovery = global.clone();
        let connected = global.open(&self.node.pool_settings()).await?;
        let options = self.node.options(&connected.location.url)?;
        if self.recover {
            // With the time limits of a command: a node's statements are shorter.
            recovery.database.database_url = Some(connected.location.url.clone());
            tokio::select! {
                recovered = recover::at_start(recovery) => {
                    recovered.context("the recovery before serving has failed, so this node does not serve")?;
                }
                () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
            }
        }
        let listen = within_reach(self.listen, &connected.store).await?;
        let listener = self.node.listen(listen).await?;
        let address = listener.local_addr()?;
        // On stdout: with port 0, this is how a parent process learns the port.
        print_out(format_args!("listening on http://{address}"));

        // It listens beyond loopback only if there is a key, and then never serves without one.
        let keys = match address.ip().is_loopback() {
            true => Keys::OnceCreated,
            false => Keys::Required,
        };
        let node = Node::of_store(connected.store.clone(), options.keys(keys));
        let mut router = node.router();
        if let Some(pages) = self.pages.options() {
            router = router.merge(node.pages(pages));
        }
        node.serve(listener, router, stop).await?;
        drop(connected.location);
        Ok(ExitCode::SUCCESS)
    }
}

/// The requested address; loopback as long as there is no API key.
async fn within_reach(requested: SocketAddr, store: &Store) -> anyhow::Result<SocketAddr> {
    let keys = match store.key_changes(0, 1).await {
        Err(error @ StoreError::NotPermitted(_)) => {
            return Err(anyhow::Error::from(error).context("the database user of a node needs the role tidegate_node"));
        }
        keys => keys?,
    };
    if !keys.is_empty() {
        return Ok(requested);
    }
    if requested.ip().is_loopback() {
        tracing::warn!("no API key yet: every caller that reaches this port may do everything (`tidegate key create`)");
        return Ok(requested);
    }
    let address = loopback(requested);
    tracing::warn!(
        %requested, listening = %address,
        "there is no API key, so this listens on loopback only: make one with `tidegate key create`, and start again"
    );
    Ok(address)
}

/// The same port of loopback.
fn loopback(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_keeps_the_port_and_the_family() {
        for (requested, listened) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("192.0.2.1:0", "127.0.0.1:0"),
            ("[::]:8080", "[::1]:8080"),
            ("[::ffff:192.0.2.1]:1", "[::1]:1"),
        ] {
            assert_eq!(loopback(requested.parse().unwrap()), listened.parse().unwrap());
        }
    }
}
