//! `tidegate key`

use std::{io::Read, process::ExitCode};

use anyhow::Context;
use clap::Subcommand;
use serde_json::json;
use tidegate::internals::api_key::{ApiKey, Scope};

use super::{
    GlobalArgs,
    table::{or_dash, time},
};
use crate::logs::print_err;

#[derive(Debug, Subcommand)]
pub(super) enum Key {
    /// Make an API key and print it, once: only its hash is kept
    ///
    /// The first key turns authentication on, on every running node within a second; it stays on.
    Create {
        /// Its name; no two live keys have the same name
        name: String,
        /// Its scopes: submit (and see and cancel the requests of its submitter), submit-accepted (submit, also past
        /// closed gates and full quotas), respond, read (see the pages), payload (see payloads there, too), admin
        /// (everything else); repeatable
        #[arg(long = "scope", required = true, value_name = "SCOPE")]
        scopes: Vec<Scope>,
        /// The submitter of its requests; the name unless given. Keys of one submitter see the same requests
        #[arg(long)]
        submitter: Option<String>,
        /// Take this key from standard input instead of making one; harmless to repeat
        #[arg(long)]
        from_stdin: bool,
    },
    /// Show every API key, without its secret
    List,
    /// End an API key; every node refuses it within a second
    Revoke {
        /// Its id, as `tidegate key list` shows it
        id: String,
    },
}

impl Key {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        let store = &connected.store;
        match self {
            Self::Create { name, scopes, submitter, from_stdin } => {
                let key = if from_stdin {
                    read_key()?
                } else {
                    ApiKey::generate().context("the operating system has no random numbers")?
                };
                let created = store.key_create(&key, &name, &scopes, submitter.as_deref()).await?;
                let mut shown = json!({
                    "id": key.id(), "name": name, "scopes": scopes, "submitter": created.submitter,
                    "created": created.created,
                });
                if from_stdin {
                    return connected.print(&shown, |_| outln!("{}", key.id()));
                }
                shown["key"] = key.expose().into();
                let is_first = store.key_list().await?.len() == 1;
                connected.print(&shown, |_| {
                    outln!("{}", key.expose());
                    print_err(format_args!(
                        "this is the only time it is shown; its id is {}",
                        key.id()
                    ));
                    if is_first {
                        print_err(
                            "it is the first: calls need a key from now on, and what was submitted without one is seen by \
                             keys of scope admin only",
                        );
                    }
                })
            }
            Self::List => {
                let header = "id  name  scopes  submitter  created  revoked";
                connected.print_rows(store.key_list().await?, "there is no API key", header, |key| {
                    [
                        key.id,
                        key.name,
                        key.scopes.join(" "),
                        key.submitter,
                        time(key.created_at),
                        or_dash(key.revoked_at.map(time)),
                    ]
                })
            }
            Self::Revoke { id } => connected.print(&store.key_revoke(&id).await?, |key| {
                let done = if key.revoked { "revoked" } else { "was revoked before" };
                outln!("{id} ({}) {done}", key.name);
            }),
        }
    }
}

fn read_key() -> anyhow::Result<ApiKey> {
    let mut text = String::new();
    std::io::stdin()
        // More than a key and a line's end: a longer text is no key.
        .take(256)
        .read_to_string(&mut text)
        .context("cannot read the key from standard input")?;
    Ok(ApiKey::parse(text.trim())?)
}
