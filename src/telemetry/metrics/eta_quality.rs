//! The quality of ETAs. The database has counted the bins, so their histogram is written as text.

use std::fmt::Write;

use super::catalogue::{ETA_ERROR, ETA_ERROR_SECONDS, Metric};
use crate::store::EtaQuality;

/// The histogram of errors, as text. Kinds are plain words.
pub(super) fn histogram(quality: &[EtaQuality]) -> String {
    let Metric { name, help, .. } = ETA_ERROR;
    let mut text = format!("# HELP {name} {help}\n# TYPE {name} histogram\n");
    for of in quality {
        let kind = &of.kind;
        let mut below = 0;
        for (bound, bin) in ETA_ERROR_SECONDS.iter().zip(&of.error_bins) {
            below += bin;
            _ = writeln!(text, "{name}_bucket{{kind=\"{kind}\",le=\"{bound}\"}} {below}");
        }
        let all: i64 = of.error_bins.iter().sum();
        let sum = of.error_seconds_sum;
        _ = writeln!(text, "{name}_bucket{{kind=\"{kind}\",le=\"+Inf\"}} {all}");
        _ = writeln!(text, "{name}_sum{{kind=\"{kind}\"}} {sum}");
        _ = writeln!(text, "{name}_count{{kind=\"{kind}\"}} {all}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_become_cumulative_buckets() {
        let text = histogram(&[EtaQuality {
            kind: "direct".to_owned(),
            error_seconds_sum: -2.5,
            error_bins: vec![1, 0, 2, 0, 0, 3, 0, 4],
            p90_stated: 0,
            p90_held: 0,
        }]);

        let samples: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .map(|line| line.strip_prefix("tidegate_eta_error_seconds_").unwrap())
            .collect();
        assert_eq!(
            samples,
            [
                "bucket{kind=\"direct\",le=\"-30\"} 1",
                "bucket{kind=\"direct\",le=\"-5\"} 1",
                "bucket{kind=\"direct\",le=\"-1\"} 3",
                "bucket{kind=\"direct\",le=\"0\"} 3",
                "bucket{kind=\"direct\",le=\"1\"} 3",
                "bucket{kind=\"direct\",le=\"5\"} 6",
                "bucket{kind=\"direct\",le=\"30\"} 6",
                "bucket{kind=\"direct\",le=\"+Inf\"} 10",
                "sum{kind=\"direct\"} -2.5",
                "count{kind=\"direct\"} 10",
            ]
        );
    }
}
