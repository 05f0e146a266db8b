//! `tidegate submit`

use std::{io::Read, process::ExitCode};

use anyhow::{Context, bail};
use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::json;
use tidegate::internals::store::{Admission, Quote, SameKey, Submission, Submitted};

use super::{Connected, GlobalArgs};
use crate::logs::print_err;

#[derive(Debug, Args)]
pub(super) struct Submit {
    /// The kind, such as `direct` or `user_decrypt`
    kind: String,
    /// The payload as JSON; `-` reads it from standard input
    #[arg(default_value = "{}")]
    payload: String,
    /// The same key and payload within the window is the same request
    #[arg(long)]
    idempotency_key: Option<String>,
    /// The submitter
    #[arg(long)]
    submitter: Option<String>,
    /// The work was accepted elsewhere: no closed gate and no full quota refuses it
    #[arg(long)]
    accepted: bool,
    /// The earliest start, such as 2030-01-31T09:00:00Z
    #[arg(long)]
    not_before: Option<DateTime<Utc>>,
    /// Say what the submission would be told now, and store nothing
    #[arg(long, conflicts_with_all = ["idempotency_key", "accepted", "not_before", "callback_url"])]
    dry_run: bool,
    /// The URL to call when the request ends; its host has to be allowed (`tidegate webhook hosts`)
    #[arg(long)]
    callback_url: Option<String>,
}

impl Submit {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let mut payload = self.payload;
        if payload == "-" {
            payload.clear();
            std::io::stdin().read_to_string(&mut payload).context("cannot read the payload from standard input")?;
        }
        let submission = Submission {
            // The HTTP spelling is accepted too.
            kind: self.kind.replace('-', "_"),
            payload: payload.trim().parse().context("the payload is not JSON")?,
            idempotency_key: self.idempotency_key,
            same_key: SameKey::Compare,
            submitter: self.submitter,
            admission: if self.accepted { Admission::Accepted } else { Admission::Enforce },
            not_before: self.not_before,
            traceparent: None,
            callback_url: self.callback_url,
        };

        let connected = global.connect(1).await?;
        let store = &connected.store;
        if self.dry_run {
            let quote = store.quote(&submission.kind, submission.submitter.as_deref()).await?;
            return print_quote(&connected, quote);
        }
        let (outcome, mut ticket) = match store.submit(&submission).await? {
            Submitted::Accepted(ticket) => ("accepted", ticket),
            Submitted::Replayed(ticket) => ("replayed", ticket),
            Submitted::Refused { retry_after } => {
                let seconds = retry_after.as_secs();
                bail!("the gate is closed, nothing was stored: submit again in {seconds} s")
            }
        };
        let eta = match ticket.eta {
            None if !ticket.status.is_terminal() => {
                // A replay: its position and ETA are read, as by a poll.
                let outlook = store.outlook(ticket.id).await?;
                ticket.position = outlook.as_ref().and_then(|outlook| outlook.position);
                outlook.and_then(|outlook| outlook.eta)
            }
            eta => eta,
        };
        let seconds = eta.map_or(0, |eta| eta.retry_after.as_secs());
        let figures = json!({
            "job_id": ticket.id,
            "outcome": outcome,
            "state": ticket.status,
            "position": ticket.position,
            "retry_after_seconds": seconds,
        });
        connected.print(&figures, |_| {
            outln!("{}", ticket.id);
            print_err(format_args!("{outcome}: {}; ask again in {seconds} s", ticket.status));
        })
    }
}

fn print_quote(connected: &Connected, quote: Quote) -> anyhow::Result<ExitCode> {
    let (outcome, position, retry_after) = match quote {
        Quote::Accepted { position, eta } => ("accepted", Some(position), eta.retry_after),
        Quote::Refused { retry_after } => ("refused", None, retry_after),
    };
    let seconds = retry_after.as_secs();
    let figures = json!({"outcome": outcome, "position": position, "retry_after_seconds": seconds});
    connected.print(&figures, |_| match position {
        Some(position) => outln!("it would be accepted, with {position} before it; ask again in {seconds} s"),
        None => outln!("it would be refused: submit in {seconds} s"),
    })
}
