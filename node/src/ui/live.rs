//! `/ui/live/{page}`: the live sections of a page, as server-sent events, when they have changed.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{Path, State},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures_util::stream;
use maud::Markup;
use tokio::time::{Instant, interval_at};

use super::{context::Ui, doctor, fault::Fault, gates, jobs, looks::Look, now, session::Viewer, stages, workers};

/// How often sections are compared with what was sent.
const PERIOD: Duration = Duration::from_secs(1);

/// After how many periods the session is checked again.
const CHECK_EVERY: u32 = 5;

/// How long a stream stays open: the browser opens the next.
const TIME: Duration = Duration::from_secs(15 * 60);

/// What a stream shows.
#[derive(Clone, Copy)]
enum Shown {
    /// A page of the look that all viewers share.
    Look(fn(&Ui, &Look, &Viewer) -> Markup),
    Doctor,
    Job(u64),
}

fn shown(page: &str) -> Option<Shown> {
    Some(match page {
        "now" => Shown::Look(|ui, look, _| now::body(ui, look)),
        "gates" => Shown::Look(|_, look, viewer| gates::live(look, viewer)),
        "stages" => Shown::Look(|_, look, _| stages::sections(look)),
        "workers" => Shown::Look(|_, look, _| workers::sections(look)),
        "doctor" => Shown::Doctor,
        page => Shown::Job(page.strip_prefix("jobs/")?.parse().ok()?),
    })
}

struct Stream {
    ui: Arc<Ui>,
    viewer: Viewer,
    shown: Shown,
    ticks: tokio::time::Interval,
    periods: u32,
    until: Instant,
    sent: String,
}

/// `GET /ui/live/{page}`
pub(super) async fn follow(
    State(ui): State<Arc<Ui>>,
    viewer: Viewer,
    Path(page): Path<String>,
) -> Result<Response, Fault> {
    let shown = shown(&page).ok_or(Fault::NothingHere)?;
    let permit = ui.streams.take().ok_or(Fault::Busy)?;
    let stream = Stream {
        shown,
        viewer,
        // The page that opened it has the sections of this moment.
        ticks: interval_at(Instant::now() + PERIOD, PERIOD),
        periods: 0,
        until: Instant::now() + TIME,
        sent: String::new(),
        ui,
    };
    let events = stream::unfold((stream, permit), |(mut stream, permit)| async move {
        let event = stream.next().await?;
        Some((Ok::<_, Infallible>(event), (stream, permit)))
    });
    let events = Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)));
    Ok(([("x-accel-buffering", "no")], events).into_response())
}

impl Stream {
    /// The next change; `None` ends the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            self.ticks.tick().await;
            self.periods += 1;
            if Instant::now() >= self.until {
                return None;
            }
            // A database that is away ends no stream: its last figures are shown.
            if self.periods.is_multiple_of(CHECK_EVERY)
                && matches!(self.viewer.check(&self.ui).await, Err(fault) if !fault.is_of_database())
            {
                return None;
            }
            let sections = match self.shown {
                Shown::Look(page) => {
                    let Ok(look) = self.ui.looks.latest().await else { continue };
                    page(&self.ui, &look, &self.viewer)
                }
                Shown::Doctor => doctor::live(&self.ui),
                Shown::Job(number) => jobs::progress(&self.ui, &self.viewer, number)?,
            };
            let html = sections.into_string();
            if html != self.sent {
                self.sent.clone_from(&html);
                return Some(Event::default().data(html));
            }
        }
    }
}
