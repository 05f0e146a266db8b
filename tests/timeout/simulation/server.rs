//! The simulated server: several calls at once, the others in one queue, first come, first served. No clock but that of
//! the events.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    time::Duration,
};

use super::{estimator::Estimator, scenario::Call};

/// What the server makes of a call whose caller has given up. In the queue it is dropped either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abandoned {
    /// It is dropped at once.
    Dropped,
    /// Its caller has gone before its end.
    Finished,
}

/// A call, as its caller saw it.
#[derive(Debug, Clone, Copy)]
pub struct Lived {
    pub began: Duration,
    pub ended: Duration,
    pub timeout: Duration,
    pub answered: bool,
}

impl Lived {
    pub fn took(&self) -> Duration {
        self.ended - self.began
    }
}

/// What one estimator made of the calls.
#[derive(Debug)]
pub struct Run {
    pub calls: Vec<Lived>,
    /// When the estimator began to take the load for high, and when it ceased to.
    pub high_load: Vec<(Duration, Duration)>,
    /// When its intervals ended, and whether the load was taken for high until then.
    pub intervals: Vec<(Duration, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Done(usize),
    TimesOut(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Queued,
    Worked,
    /// Under way after its caller has gone.
    Abandoned,
    Gone,
}

struct Server<'a> {
    calls: &'a [Call],
    idle: usize,
    queue: VecDeque<usize>,
    places: Vec<Place>,
    events: BinaryHeap<Reverse<(Duration, Event)>>,
}

impl Server<'_> {
    fn begin_work(&mut self, now: Duration) {
        while self.idle > 0
            && let Some(call) = self.queue.pop_front()
        {
            if self.places[call] == Place::Queued {
                self.idle -= 1;
                self.places[call] = Place::Worked;
                let done = now + self.calls[call].service;
                self.events.push(Reverse((done, Event::Done(call))));
            }
        }
    }

    fn end_work(&mut self, now: Duration) {
        self.idle += 1;
        self.begin_work(now);
    }

    /// The next call arrives.
    fn take(&mut self, now: Duration, timeout: Duration) -> Lived {
        let number = self.places.len();
        self.places.push(Place::Queued);
        self.queue.push_back(number);
        let times_out = Reverse((now + timeout, Event::TimesOut(number)));
        self.events.push(times_out);
        self.begin_work(now);
        Lived { began: now, ended: now, timeout, answered: false }
    }

    fn happens(
        &mut self,
        event: Event,
        now: Duration,
        abandoned: Abandoned,
        lived: &mut [Lived],
        estimator: &mut dyn Estimator,
    ) {
        let (Event::Done(call) | Event::TimesOut(call)) = event;
        let place = self.places[call];
        match (event, place) {
            (Event::Done(_), Place::Worked) => {
                self.places[call] = Place::Gone;
                lived[call].ended = now;
                lived[call].answered = true;
                estimator.answered(lived[call].took(), now);
                self.end_work(now);
            }
            (Event::Done(_), Place::Abandoned) => {
                self.places[call] = Place::Gone;
                self.end_work(now);
            }
            (Event::TimesOut(_), Place::Queued | Place::Worked) => {
                lived[call].ended = now;
                estimator.timed_out(lived[call].timeout, now);
                if place == Place::Worked && abandoned == Abandoned::Finished {
                    self.places[call] = Place::Abandoned;
                    return;
                }
                self.places[call] = Place::Gone;
                if place == Place::Worked {
                    self.end_work(now);
                }
            }
            (Event::Done(_) | Event::TimesOut(_), _) => {}
        }
    }
}

/// Makes all calls, with the timeouts of the estimator.
pub fn run(calls: &[Call], servers: usize, abandoned: Abandoned, estimator: &mut dyn Estimator) -> Run {
    let mut server = Server {
        calls,
        idle: servers,
        queue: VecDeque::new(),
        places: Vec::with_capacity(calls.len()),
        events: BinaryHeap::new(),
    };
    let mut run = Run { calls: Vec::with_capacity(calls.len()), high_load: Vec::new(), intervals: Vec::new() };
    let mut high_since = None;
    let mut now = Duration::ZERO;
    loop {
        let arrival = calls.get(run.calls.len()).map(|call| call.arrives);
        let event = server.events.peek().map(|Reverse((at, _))| *at);
        let intervals = estimator.intervals();
        now = match (arrival, event) {
            (Some(arrival), event) if event.is_none_or(|event| arrival < event) => {
                let timeout = estimator.begin(arrival);
                run.calls.push(server.take(arrival, timeout));
                arrival
            }
            (_, Some(at)) => {
                if let Some(Reverse((_, event))) = server.events.pop() {
                    server.happens(event, at, abandoned, &mut run.calls, estimator);
                }
                at
            }
            (_, None) => break,
        };
        if estimator.intervals() > intervals {
            run.intervals.push((now, high_since.is_some()));
        }
        match (high_since, estimator.sees_high_load()) {
            (None, true) => high_since = Some(now),
            (Some(since), false) => {
                run.high_load.push((since, now));
                high_since = None;
            }
            _ => {}
        }
    }
    run.high_load.extend(high_since.map(|since| (since, now)));
    run
}
