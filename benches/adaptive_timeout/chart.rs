//! A drawing of one scenario, in four panels over the same time.

use std::{fmt::Write, time::Duration};

use super::{
    simulation::{
        measured::{percentile, span},
        scenario::{Call, Scenario},
        server::Run,
    },
    table::milliseconds,
};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 92.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 34.0;

/// The time that one point covers.
const BIN: Duration = Duration::from_millis(500);

/// Colour, width of the line and opacity of each, in the order of the runs. Ours is drawn last.
const STYLES: [(&str, f64, f64); 7] = [
    ("#0b61a4", 2.0, 1.0),
    ("#a33a6e", 0.8, 0.65),
    ("#8a8a8a", 1.0, 0.7),
    ("#b9a36b", 1.0, 0.8),
    ("#3c3c3c", 1.0, 0.8),
    ("#d1793a", 0.8, 0.65),
    ("#4f9d5b", 1.0, 0.9),
];

/// One estimator's figures, a value for each bin.
struct Series {
    timeout: Vec<f64>,
    median: Vec<f64>,
    p99: Vec<f64>,
    in_flight: Vec<f64>,
    answers: Vec<f64>,
}

struct Panel {
    title: &'static str,
    top: f64,
    most: f64,
    step: f64,
}

impl Panel {
    fn y(&self, value: f64) -> f64 {
        self.top + PANEL * (1.0 - value.min(self.most) / self.most)
    }
}

/// The drawing of these runs, the first of which is ours.
pub(crate) fn draw(scenario: &Scenario, max: Duration, calls: &[Call], runs: &[(String, Run)]) -> String {
    let ends = calls.last().map_or(BIN, |call| call.arrives);
    let bins = bin(ends) + 1;
    let all: Vec<_> = runs.iter().map(|(_, run)| series(run, bins)).collect();
    let arrivals = counted(calls.iter().map(|call| call.arrives), bins);
    let longest = milliseconds(max);
    let most_in_flight = highest(all.iter().flat_map(|series| &series.in_flight));
    let most_calls = highest(&arrivals);
    let panels = [
        ("timeout, ms (mean of the calls that begin)", longest, 10.0),
        ("how long callers wait, ms (99th percentile, timeouts included; dotted: median of ours)", longest, 10.0),
        ("calls under way (most)", round_up(most_in_flight, 20.0), 20.0),
        ("answers per second (dotted: calls)", round_up(most_calls, 500.0), 500.0),
    ];
    let mut top = TOP;
    let panels = panels.map(|(title, most, step)| {
        let panel = Panel { title, top, most, step };
        top += PANEL + GAP;
        panel
    });
    let height = top + 14.0;
    let x = |at: Duration| LEFT + (WIDTH - LEFT - RIGHT) * at.as_secs_f64() / ends.as_secs_f64();
    let bottom = panels[3].top + PANEL;

    let mut svg = String::new();
    let mut put = |line: String| {
        svg.push_str(&line);
        svg.push('\n');
    };
    put(format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" fill="#222222">"##
    ));
    put(format!(r##"<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##));
    put(format!(
        r#"<text x="{LEFT}" y="22" font-size="15" font-weight="bold">{}: {} servers, max {} ms, SLO 1 %</text>"#,
        scenario.name, scenario.servers, longest
    ));
    legend(&mut put, runs);

    for (since, left) in &runs[0].1.high_load {
        let (since, left) = (x(*since), x((*left).min(ends)));
        put(format!(
            r##"<rect x="{since:.1}" y="{TOP}" width="{:.1}" height="{:.1}" fill="#f6dcd7"/>"##,
            left - since,
            bottom - TOP
        ));
    }
    for panel in &panels {
        axis(&mut put, panel);
    }
    seconds(&mut put, ends, bottom, x);
    for (number, phase) in scenario.phases.iter().enumerate() {
        let (from, to) = span(calls, number);
        put(format!(
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle" font-weight="bold">{}</text>"#,
            f64::midpoint(x(from), x(to)),
            TOP - 24.0,
            phase.name
        ));
        if number > 0 {
            put(format!(
                r##"<line x1="{0:.1}" x2="{0:.1}" y1="{1}" y2="{bottom}" stroke="#555" stroke-dasharray="4 3"/>"##,
                x(from),
                TOP - 30.0
            ));
        }
    }

    put(dotted(&line(&panels[3], &arrivals, ends, ("#999999", 1.0, 0.8))));
    put(dotted(&line(&panels[1], &all[0].median, ends, STYLES[0])));
    for (place, series) in all.iter().enumerate().rev() {
        let style = STYLES[place % STYLES.len()];
        let values = [&series.timeout, &series.p99, &series.in_flight, &series.answers];
        for (panel, values) in panels.iter().zip(values) {
            put(line(panel, values, ends, style));
        }
    }
    put("</svg>".to_owned());
    svg
}

fn legend(put: &mut impl FnMut(String), runs: &[(String, Run)]) {
    let names = runs.iter().map(|(name, _)| name.as_str());
    let marks = STYLES.map(|(colour, width, _)| format!(r#"stroke="{colour}" stroke-width="{}""#, width.max(1.5)));
    let mut at = LEFT;
    for (name, mark) in names.zip(marks) {
        put(format!(r#"<line x1="{at}" x2="{}" y1="42" y2="42" {mark}/>"#, at + 22.0));
        put(format!(r#"<text x="{}" y="46">{name}</text>"#, at + 28.0));
        at += 112.0;
    }
    put(format!(
        r##"<rect x="{at}" y="36" width="22" height="12" fill="#f6dcd7"/><text x="{}" y="46">high load, ours</text>"##,
        at + 28.0
    ));
}

fn axis(put: &mut impl FnMut(String), panel: &Panel) {
    put(format!(r#"<text x="{LEFT}" y="{:.1}">{}</text>"#, panel.top - 7.0, panel.title));
    let mut value = 0.0;
    while value <= panel.most {
        let y = panel.y(value);
        put(format!(
            r##"<line x1="{LEFT}" x2="{}" y1="{y:.1}" y2="{y:.1}" stroke="#dddddd" stroke-width="0.7"/>"##,
            WIDTH - RIGHT
        ));
        put(format!(r#"<text x="{}" y="{:.1}" text-anchor="end">{value}</text>"#, LEFT - 8.0, y + 4.0));
        value += panel.step;
    }
}

fn seconds(put: &mut impl FnMut(String), ends: Duration, bottom: f64, x: impl Fn(Duration) -> f64) {
    for number in 0_u32.. {
        let at = Duration::from_secs(20) * number;
        if at > ends {
            break;
        }
        put(format!(
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{} s</text>"#,
            x(at),
            bottom + 18.0,
            at.as_secs()
        ));
    }
}

/// A line through the values, with gaps where a value is missing.
fn line(panel: &Panel, values: &[f64], ends: Duration, style: (&str, f64, f64)) -> String {
    let (colour, width, opacity) = style;
    let per_bin = (WIDTH - LEFT - RIGHT) * BIN.as_secs_f64() / ends.as_secs_f64();
    let mut path = String::new();
    let (mut x, mut was) = (LEFT, None);
    for (place, value) in values.iter().enumerate() {
        // Points between equal values are left out.
        let next = values.get(place + 1);
        if value.is_finite() && (was != Some(value) || next != Some(value)) {
            let word = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{word}{x:.1} {:.1}", panel.y(*value));
        }
        was = Some(value);
        x += per_bin;
    }
    format!(
        r#"<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-opacity="{opacity}" stroke-linejoin="round"/>"#
    )
}

fn dotted(line: &str) -> String {
    line.replace("/>", r#" stroke-dasharray="2 2"/>"#)
}

fn series(run: &Run, bins: usize) -> Series {
    let mut timeouts = vec![(0.0, 0.0); bins];
    let mut waits = vec![Vec::new(); bins];
    let mut in_flight = vec![0.0; bins];
    let mut changes = Vec::with_capacity(run.calls.len() * 2);
    for call in &run.calls {
        if let Some((sum, count)) = timeouts.get_mut(bin(call.began)) {
            *sum += milliseconds(call.timeout);
            *count += 1.0;
        }
        if let Some(waits) = waits.get_mut(bin(call.ended)) {
            waits.push(call.took());
        }
        changes.extend([(call.began, 1.0), (call.ended, -1.0)]);
    }
    changes.sort_unstable_by_key(|(at, _)| *at);
    let mut under_way = 0.0_f64;
    for (at, change) in changes {
        under_way += change;
        if let Some(most) = in_flight.get_mut(bin(at)) {
            *most = under_way.max(*most);
        }
    }
    let answers = run.calls.iter().filter(|call| call.answered);
    for waits in &mut waits {
        waits.sort_unstable();
    }
    let waited = |share| {
        let waits = waits.iter();
        waits.map(|waits| milliseconds(percentile(waits, share))).collect()
    };
    Series {
        timeout: timeouts.iter().map(|(sum, count)| sum / count).collect(),
        median: waited(0.5),
        p99: waited(0.99),
        in_flight,
        answers: counted(answers.map(|call| call.ended), bins),
    }
}

/// Moments per second in each bin; the last, incomplete bin is left out.
fn counted(moments: impl Iterator<Item = Duration>, bins: usize) -> Vec<f64> {
    let mut counts = vec![0.0; bins.saturating_sub(1)];
    for at in moments {
        if let Some(count) = counts.get_mut(bin(at)) {
            *count += 1.0 / BIN.as_secs_f64();
        }
    }
    counts
}

fn bin(at: Duration) -> usize {
    usize::try_from(at.as_nanos() / BIN.as_nanos()).unwrap_or(usize::MAX)
}

fn highest<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    values.into_iter().copied().fold(0.0, f64::max)
}

fn round_up(value: f64, step: f64) -> f64 {
    (value / step).ceil() * step
}
