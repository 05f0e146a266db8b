//! The findings of `tidegate doctor` as metrics, for the textfile collector of Prometheus' node exporter.

use std::{
    fmt::Write,
    fs::Permissions,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use chrono::{DateTime, Utc};
use tidegate::internals::doctor::Findings;

/// Replaces the file as a whole: the collector may read it at any moment, and reads no `.tmp`.
pub(super) fn write(path: &Path, findings: &Findings) -> io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".tidegate-doctor-")
        .suffix(".tmp")
        // The collector is another user; the umask may take this away.
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(path.parent().unwrap_or(path))?;
    file.write_all(metrics(findings, Utc::now()).as_bytes())?;
    file.persist(path)?;
    Ok(())
}

fn metrics(findings: &Findings, ended: DateTime<Utc>) -> String {
    let mut text = "\
# HELP tidegate_doctor_violations Violations of an invariant that the last run found; absent: none was found, and not all was read
# TYPE tidegate_doctor_violations gauge
"
    .to_owned();
    for (invariant, violations) in findings.counts() {
        // Names of invariants are in snake case, so nothing is escaped.
        let _ = writeln!(text, "tidegate_doctor_violations{{invariant=\"{invariant}\"}} {violations}");
    }
    let _ = write!(
        text,
        "\
# HELP tidegate_doctor_ended_timestamp_seconds When the last run ended, in seconds since 1970
# TYPE tidegate_doctor_ended_timestamp_seconds gauge
tidegate_doctor_ended_timestamp_seconds {}
",
        ended.timestamp()
    );
    text
}
