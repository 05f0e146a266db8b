//! Charts as SVG: they are there without scripts, and have their figures as texts.

use chrono::{DateTime, Duration, Utc};
use maud::{Markup, html};

use super::format::{count, float, percent, scrolling_table, span};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 56.0;
const BOTTOM: f64 = 150.0;
const TOP: f64 = 10.0;

/// The classes of a chart's lines, by place.
const CLASSES: [&str; 4] = ["one", "two", "three", "four"];

/// The most steps that a chart has: a day has five minutes in each.
const STEPS_MAX: i64 = 288;

/// A line of a chart: its name, and its figures with their times.
pub(super) struct Line {
    name: &'static str,
    figures: Vec<(DateTime<Utc>, f64)>,
}

impl Line {
    /// A line of what has a figure.
    pub(super) fn of(name: &'static str, figures: impl Iterator<Item = (DateTime<Utc>, Option<f64>)>) -> Self {
        Self { name, figures: figures.filter_map(|(at, figure)| Some((at, figure?))).collect() }
    }
}

/// A level that is drawn across a chart.
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) at: f64,
}

/// Lines over time, each of the means of its figures.
pub(super) fn lines(
    title: &str,
    (since, until): (DateTime<Utc>, DateTime<Utc>),
    lines: &[Line],
    marks: &[Mark],
    format: impl Fn(f64) -> String,
) -> Markup {
    let steps = steps(since, until, lines);
    let values = steps.iter().flat_map(|step| step.figures.iter().flatten().copied());
    let highest = values.chain(marks.iter().map(|mark| mark.at)).fold(0.0, f64::max);
    let lowest = steps.iter().flat_map(|step| step.figures.iter().flatten().copied()).fold(0.0, f64::min);
    let range = if highest > lowest { highest - lowest } else { 1.0 };
    let y = |value: f64| BOTTOM - (value - lowest) / range * (BOTTOM - TOP);
    #[expect(clippy::cast_precision_loss, reason = "a chart has some hundred steps")]
    let x = |place: usize| LEFT + place as f64 / (steps.len().max(2) - 1) as f64 * (WIDTH - LEFT);
    let is_empty = steps.iter().all(|step| step.figures.iter().all(Option::is_none));
    html! {
        figure.card {
            h3 { (title) }
            @if is_empty {
                p.soft { "No figures yet: they are recorded by the minute." }
            } @else {
                svg.chart
                    viewBox={ "0 0 " (WIDTH) " " (HEIGHT) }
                    role="img"
                    aria-label={ (title) ": " (summary(&steps, lines, &format)) }
                {
                    line.axis x1=(LEFT) x2=(WIDTH) y1=(BOTTOM) y2=(BOTTOM) {}
                    text x="0" y=(TOP + 8.0) { (format(highest)) }
                    text x="0" y=(BOTTOM) { (format(lowest)) }
                    text x=(LEFT) y=(HEIGHT - 4.0) { (since.format("%H:%M")) " UTC" }
                    text x=(WIDTH) y=(HEIGHT - 4.0) text-anchor="end" { (until.format("%H:%M")) " UTC" }
                    @for mark in marks {
                        line.mark x1=(LEFT) x2=(WIDTH) y1=(y(mark.at)) y2=(y(mark.at)) {}
                        text x=(WIDTH) y=(y(mark.at) - 3.0) text-anchor="end" { (mark.name) }
                    }
                    @for (line, class) in CLASSES.iter().enumerate().take(lines.len()) {
                        @for part in parts(&steps, line) {
                            polyline class=(class) points=(points(&part, &x, &y)) {}
                        }
                    }
                    @for (place, step) in steps.iter().enumerate() {
                        rect.hit x=(x(place) - 1.0) y=(TOP) width=(WIDTH / 60.0) height=(BOTTOM - TOP) {
                            title { (step.words(lines, &format)) }
                        }
                    }
                }
                (keys(lines))
            }
        }
    }
}

/// The names of the lines, each beside a piece of its line.
fn keys(lines: &[Line]) -> Markup {
    html! {
        ul.keys {
            @for (line, class) in lines.iter().zip(CLASSES) {
                li {
                    svg viewBox="0 0 18 8" aria-hidden="true" {
                        line class=(class) x1="0" x2="18" y1="4" y2="4" {}
                    }
                    " " (line.name)
                }
            }
        }
    }
}

struct Step {
    at: DateTime<Utc>,
    figures: Vec<Option<f64>>,
}

/// The steps of a chart, each with the means of the lines' figures.
fn steps(since: DateTime<Utc>, until: DateTime<Utc>, lines: &[Line]) -> Vec<Step> {
    let length = (until - since).num_minutes().max(1);
    let step = Duration::minutes(length.div_euclid(STEPS_MAX).max(1));
    let places = length.div_euclid(step.num_minutes());
    let mut steps: Vec<_> = (0..=places)
        .map(|place| Step { at: since + Duration::minutes(place * step.num_minutes()), figures: Vec::new() })
        .collect();
    for line in lines {
        let mut sums = vec![(0.0, 0.0); steps.len()];
        for (at, figure) in &line.figures {
            let place = (*at - since).num_seconds().div_euclid(step.num_seconds());
            if let Some(sum) = usize::try_from(place).ok().and_then(|place| sums.get_mut(place)) {
                *sum = (sum.0 + figure, sum.1 + 1.0);
            }
        }
        for (step, (sum, count)) in steps.iter_mut().zip(sums) {
            step.figures.push((count > 0.0).then(|| sum / count));
        }
    }
    steps
}

impl Step {
    fn words(&self, lines: &[Line], format: &impl Fn(f64) -> String) -> String {
        let figures = lines
            .iter()
            .zip(&self.figures)
            .filter_map(|(line, figure)| figure.map(|figure| format!("{}: {}", line.name, format(figure))));
        let figures: Vec<_> = figures.collect();
        format!("{} UTC  {}", self.at.format("%H:%M"), figures.join(", "))
    }
}

/// The runs of steps that have a figure of this line.
fn parts(steps: &[Step], line: usize) -> Vec<Vec<(usize, f64)>> {
    let figures: Vec<_> =
        steps.iter().enumerate().map(|(place, step)| step.figures[line].map(|value| (place, value))).collect();
    let parts = figures.split(Option::is_none).filter(|part| !part.is_empty());
    parts.map(|part| part.iter().flatten().copied().collect()).collect()
}

fn points(part: &[(usize, f64)], x: &impl Fn(usize) -> f64, y: &impl Fn(f64) -> f64) -> String {
    // One step alone is a short line.
    let (last, value) = part.last().copied().unwrap_or_default();
    let end = (part.len() == 1).then(|| format!("{:.1},{:.1}", x(last) + 2.0, y(value)));
    let points = part.iter().map(|(place, value)| format!("{:.1},{:.1}", x(*place), y(*value)));
    points.chain(end).collect::<Vec<_>>().join(" ")
}

/// The latest figures.
fn summary(steps: &[Step], lines: &[Line], format: &impl Fn(f64) -> String) -> String {
    steps
        .iter()
        .rev()
        .find(|step| step.figures.iter().any(Option::is_some))
        .map_or_else(String::new, |step| step.words(lines, format))
}

/// The depth of a queue between the marks of its gate.
pub(super) fn depth(depth: i64, low: i32, high: i32) -> Markup {
    let most = f64::from(high).max(1.0) * 1.15;
    let at = |value: i64| (float(value) / most).clamp(0.0, 1.0) * 300.0;
    html! {
        svg.chart
            viewBox="0 0 300 26"
            role="img"
            aria-label={ "depth " (depth) ", opens at " (low) ", closes at " (high) }
        {
            rect.fill x="0" y="6" width="300" height="12" {}
            rect.bar x="0" y="6" width=(at(depth)) height="12" {}
            line.mark x1=(at(low.into())) x2=(at(low.into())) y1="1" y2="23" {}
            line.mark x1=(at(high.into())) x2=(at(high.into())) y1="1" y2="23" {}
        }
    }
}

/// When the answer to the next request is expected: from half to 90 % of answers, with the time that its caller is
/// told, and how wrong such times were so far on either side of it. In seconds.
pub(super) fn band(told: f64, half: Option<f64>, most: Option<f64>, error: Option<f64>) -> Markup {
    let error = error.unwrap_or_default();
    let end = [told + error, half.unwrap_or_default(), most.unwrap_or_default(), 1.0].into_iter().fold(0.0, f64::max);
    let x = |seconds: f64| (seconds / end).clamp(0.0, 1.0) * 200.0;
    let (from, until) = (half.unwrap_or(told), most.unwrap_or(told));
    let expected = half
        .zip(most)
        .map_or_else(String::new, |(half, most)| format!("half within {}, 90 % within {}; ", span(half), span(most)));
    html! {
        svg.chart.band
            viewBox="0 0 200 20"
            role="img"
            aria-label={ "come back in " (span(told)) "; " (expected) "past error ± " (span(error)) }
        {
            rect.fill x="0" y="7" width="200" height="6" {}
            rect.bar x=(x(from)) y="5" width=((x(until) - x(from)).max(2.0)) height="10" {}
            line.error x1=(x(told - error)) x2=(x(told + error)) y1="10" y2="10" {}
            line.told x1=(x(told)) x2=(x(told)) y1="0" y2="20" {}
        }
    }
}

/// Errors of ETAs in the bins of `eta_quality`.
pub(super) fn bins(bins: &[i64]) -> Markup {
    const NAMES: [&str; 8] = [
        "30 s early or more",
        "30 to 5 s early",
        "5 to 1 s early",
        "up to 1 s early",
        "up to 1 s late",
        "1 to 5 s late",
        "5 to 30 s late",
        "later",
    ];
    let most = bins.iter().copied().max().unwrap_or_default().max(1);
    let all = bins.iter().sum::<i64>().max(1);
    let share = |bin: i64, of: i64| float(bin) / float(of);
    let head = html! {
        th { "answered" }
        th.n { "requests" }
        th.n { "share" }
        th { span.soft { "most is full width" } }
    };
    let rows = html! {
        @for (name, bin) in NAMES.iter().zip(bins) {
            tr {
                td { (name) }
                td.n { (count(*bin)) }
                td.n { (percent(share(*bin, all))) }
                td {
                    svg.chart viewBox="0 0 200 14" aria-hidden="true" {
                        rect.bar x="0" y="2" width=(share(*bin, most) * 200.0) height="10" {}
                    }
                }
            }
        }
    };
    scrolling_table(&head, &rows)
}
