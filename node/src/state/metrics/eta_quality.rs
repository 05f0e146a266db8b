//! The quality of ETAs. The database has counted the bins, so their histogram is written as text.

use std::fmt::Write;

use tidegate::internals::{
    metrics::catalogue::{ETA_ERROR, ETA_ERROR_SECONDS, Metric},
    store::EtaQuality,
};

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
