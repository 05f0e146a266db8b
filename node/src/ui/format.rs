//! Figures for people.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use maud::{Markup, html};

/// What is shown where there is no value.
pub(super) const NONE: &str = "–";

/// A whole number, in groups of three digits.
pub(super) fn count(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    if number < 0 { format!("−{grouped}") } else { grouped }
}

/// A time span: "0.4 s", "38 s", "4 min 05 s", "2 h 10 min", "3 d 4 h".
pub(super) fn span(seconds: f64) -> String {
    if !seconds.is_finite() {
        return NONE.to_owned();
    }
    let sign = if seconds < 0.0 { "−" } else { "" };
    let seconds = seconds.abs();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a span of a page is far below 2^63")]
    let whole = seconds.round() as u64;
    match whole {
        0..10 => format!("{sign}{seconds:.1} s"),
        10..60 => format!("{sign}{whole} s"),
        60..3600 => format!("{sign}{} min {:02} s", whole / 60, whole % 60),
        3600..86_400 => format!("{sign}{} h {:02} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{sign}{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// A time span of whole seconds.
pub(super) fn seconds(seconds: u64) -> String {
    span(Duration::from_secs(seconds).as_secs_f64())
}

/// The seconds from one moment to another; 0 if that is earlier.
pub(super) fn between(from: DateTime<Utc>, to: DateTime<Utc>) -> f64 {
    (to - from).to_std().unwrap_or_default().as_secs_f64()
}

/// A count, to divide or to draw.
#[expect(clippy::cast_precision_loss, reason = "pixels and digits that are shown are fewer than what is lost")]
pub(super) fn float(number: i64) -> f64 {
    number as f64
}

pub(super) fn ms(ms: f64) -> String {
    if ms < 10_000.0 { format!("{ms:.0} ms") } else { span(ms / 1000.0) }
}

/// A share of 1, in percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(super) fn rate(per_second: f64) -> String {
    if per_second < 100.0 { format!("{per_second:.1}/s") } else { format!("{per_second:.0}/s") }
}

pub(super) fn bytes(bytes: i64) -> String {
    match bytes {
        ..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", float(bytes) / 1024.0),
        _ => format!("{:.1} MiB", float(bytes) / 1_048_576.0),
    }
}

/// A value that may be missing.
pub(super) fn or_none<T>(value: Option<T>, format: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), format)
}

/// A moment: in UTC, and in the viewer's zone where scripts run.
pub(super) fn time(at: DateTime<Utc>) -> Markup {
    let utc = at.to_rfc3339_opts(SecondsFormat::Millis, true);
    html! {
        time datetime=(utc) title={ (at.format("%Y-%m-%d %H:%M:%S%.3f")) " UTC" } {
            (at.format("%Y-%m-%d %H:%M:%S")) " UTC"
        }
    }
}

pub(super) fn time_or_none(at: Option<DateTime<Utc>>) -> Markup {
    at.map_or_else(|| html! { (NONE) }, time)
}

/// A word in a colour: good, warn, bad, or none of these.
pub(super) fn tag(word: &str, colour: &str) -> Markup {
    html! { span class={ "tag " (colour) } { (word) } }
}

/// The colour of a request's status.
pub(super) fn colour_of(status: &str) -> &'static str {
    match status {
        "completed" => "good",
        "failure" | "timed_out" => "bad",
        _ => "",
    }
}

/// A link to a request.
pub(super) fn request(id: impl std::fmt::Display) -> Markup {
    html! { a.id href={ "/ui/requests/" (id) } { (id) } }
}

/// A table that scrolls by itself where it is wider than its page: the cells of its head, and its rows.
pub(super) fn scrolling_table(head: &Markup, rows: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table" {
            table {
                thead { tr { (head) } }
                tbody { (rows) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_whole() {
        let plain = |number| count(number).replace('\u{202f}', " ");
        assert_eq!(plain(0), "0");
        assert_eq!(plain(1234), "1 234");
        assert_eq!(plain(i64::MAX), "9 223 372 036 854 775 807");
        assert_eq!(plain(-1_000_000), "−1 000 000");
    }

    #[test]
    fn spans_have_two_units_at_most() {
        for (seconds, expected) in [
            (0.04, "0.0 s"),
            (9.44, "9.4 s"),
            (59.6, "1 min 00 s"),
            (245.0, "4 min 05 s"),
            (7800.0, "2 h 10 min"),
            (-3.0, "−3.0 s"),
            (273_600.0, "3 d 4 h"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(span(seconds), expected);
        }
    }
}
