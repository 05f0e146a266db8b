//! The search for this machine's Postgres programs.

use std::cmp::Reverse;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::EmbeddedPostgresError;

/// The oldest major version of Postgres the schema and the queue run on.
const OLDEST_MAJOR: u32 = 14;

/// The programs that have to be together in one directory.
const PROGRAMS: [&str; 3] = ["postgres", "initdb", "pg_ctl"];

/// Where to search for the Postgres programs.
///
/// [`BinarySearch::find`] depends on these fields and the file system only, never on the
/// environment of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BinarySearch {
    /// The directory to use and no other, from `TIDEGATE_POSTGRES_BIN`.
    pub configured: Option<PathBuf>,
    /// A list of directories in the form of `PATH`. They are searched for the programs first, then
    /// for a `pg_config` that knows where the programs are.
    pub path: Option<OsString>,
    /// Directories where packages put the programs, in order of preference.
    pub well_known: Vec<PathBuf>,
}

impl BinarySearch {
    /// The search described by this process's environment and the machine's usual places.
    pub fn from_environment() -> Self {
        let mut well_known = newest_first("/usr/lib/postgresql", "");
        well_known.extend(newest_first("/opt/homebrew/opt", "postgresql@"));
        well_known.extend(newest_first("/usr/local/opt", "postgresql@"));
        well_known.extend(newest_first("/usr", "pgsql-"));
        Self {
            configured: env::var_os("TIDEGATE_POSTGRES_BIN")
                .filter(|directory| !directory.is_empty())
                .map(PathBuf::from),
            path: env::var_os("PATH"),
            well_known,
        }
    }

    /// Finds the directory that holds `postgres`, `initdb` and `pg_ctl`.
    ///
    /// With `major`, only that major version will do, since a data directory is readable by the
    /// version that made it and no other; without, version 14 and newer.
    ///
    /// # Errors
    ///
    /// [`EmbeddedPostgresError::NotFound`] or
    /// [`EmbeddedPostgresError::ConfiguredBinariesMissing`], whose messages name what to install.
    pub fn find(&self, major: Option<u32>) -> Result<PathBuf, EmbeddedPostgresError> {
        let candidates = match &self.configured {
            Some(directory) if !holds_programs(directory) => {
                return Err(EmbeddedPostgresError::ConfiguredBinariesMissing { directory: directory.clone() });
            }
            Some(directory) => vec![directory.clone()],
            None => self.candidates(),
        };
        let mut rejected = Vec::new();
        for directory in candidates.into_iter().filter(|it| holds_programs(it)) {
            let version = major_version(&directory);
            if version.is_some_and(|version| major.map_or(version >= OLDEST_MAJOR, |major| version == major)) {
                return Ok(with_client_programs(directory));
            }
            let version = version.map_or("an unknown version".to_owned(), |it| it.to_string());
            rejected.push(format!("{version} in {}", directory.display()));
        }
        Err(EmbeddedPostgresError::NotFound {
            wanted: match major {
                Some(major) => format!("PostgreSQL {major}, which made the data directory,"),
                None => format!("PostgreSQL {OLDEST_MAJOR} or newer"),
            },
            found: if rejected.is_empty() { String::new() } else { format!(" (there is {})", rejected.join(", ")) },
        })
    }

    fn candidates(&self) -> Vec<PathBuf> {
        // Relative entries are left out: the programs are started from another directory.
        let on_path = env::split_paths(self.path.as_deref().unwrap_or_default());
        let mut candidates: Vec<_> = on_path.filter(|directory| directory.is_absolute()).collect();
        let mut programs = candidates.iter().map(|directory| directory.join("pg_config"));
        let configured = programs
            .find(|program| program.is_file())
            .and_then(|program| output_of(&program, "--bindir"))
            .map(|directory| PathBuf::from(directory.trim()));
        candidates.extend(configured);
        candidates.extend_from_slice(&self.well_known);
        candidates
    }
}

fn holds_programs(directory: &Path) -> bool {
    PROGRAMS.iter().all(|program| directory.join(program).is_file())
}

/// Follows links such as `/usr/local/bin/postgres` to the directory they lead to, when that one has
/// `psql` too and the directory of links has not.
fn with_client_programs(directory: PathBuf) -> PathBuf {
    if directory.join("psql").is_file() {
        return directory;
    }
    fs::canonicalize(directory.join("postgres"))
        .ok()
        .and_then(|program| program.parent().map(Path::to_owned))
        .filter(|real| holds_programs(real) && real.join("psql").is_file())
        .unwrap_or(directory)
}

/// The major version of the programs in a directory; `None` if `postgres` in it does not say one.
pub fn major_version(directory: &Path) -> Option<u32> {
    let version = output_of(&directory.join("postgres"), "--version")?;
    version.split_whitespace().find_map(leading_number)
}

fn output_of(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    output.status.success().then_some(())?;
    String::from_utf8(output.stdout).ok()
}

/// `17` from `17.2`, `17beta1` or `17`.
fn leading_number(word: &str) -> Option<u32> {
    let digits = word.find(|c: char| !c.is_ascii_digit());
    word[..digits.unwrap_or(word.len())].parse().ok()
}

/// The directories `<parent>/<prefix><number>/bin`, highest number first.
fn newest_first(parent: &str, prefix: &str) -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = leading_number(name.strip_prefix(prefix)?)?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    found.sort_by_key(|(version, _)| Reverse(*version));
    found.into_iter().map(|(_, directory)| directory).collect()
}
