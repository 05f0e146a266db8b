//! Database URLs, with one host or several.

use std::{env, fs::File};

use percent_encoding::percent_decode_str;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::error::StoreError;

/// How to connect to each server of a URL.
///
/// As in libpq, `postgres://USER@ONE:5432,OTHER/DATABASE` names two. The driver reads one host, so each gets a URL.
pub(super) fn servers(url: &str) -> Result<Vec<PgConnectOptions>, StoreError> {
    let (user, hosts, rest) = parts(url)?;
    let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    // Every program writes; and the driver logs parameters that it does not know, with their values.
    let known =
        |parameter: &&str| !parameter.starts_with("target_session_attrs=") && !parameter.starts_with("sslpassword=");
    let parameters = parameters.split('&').filter(known).collect::<Vec<_>>().join("&");
    let server = |host| {
        let url = format!("{user}{host}{path}?{parameters}");
        let options: PgConnectOptions = url.parse().map_err(|error: sqlx::Error| unreadable(&error.to_string()))?;
        if !matches!(options.get_ssl_mode(), PgSslMode::Disable | PgSslMode::Allow) {
            check_tls_files(&url)?;
        }
        Ok(options)
    };
    hosts.split(',').map(server).collect()
}

/// The parts of a URL: all that stands before its hosts, the hosts, and what stands after them.
fn parts(url: &str) -> Result<(&str, &str, &str), StoreError> {
    let schemes = ["postgres://", "postgresql://"];
    let Some(scheme) = schemes.into_iter().find(|scheme| url.starts_with(scheme)) else {
        return Err(unreadable("it does not begin with postgres://"));
    };
    let start = scheme.len();
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    // Else a part of a password would be taken for a host or a database, which errors name.
    if url[end..].contains('@') {
        return Err(unreadable("write @ / ? and # in a user, password or parameter as %40 %2F %3F and %23"));
    }
    let hosts = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    Ok((&url[..hosts], &url[hosts..end], &url[end..]))
}

fn unreadable(why: &str) -> StoreError {
    StoreError::Unavailable(format!("the database URL cannot be read: {why}"))
}

/// The URL of another database on the same servers.
///
/// # Errors
///
/// [`StoreError::Unavailable`] when the URL cannot be read.
pub fn with_database(url: &str, name: &str) -> Result<String, StoreError> {
    let (user, hosts, rest) = parts(url)?;
    let parameters = rest.find('?').map_or("", |at| &rest[at..]);
    Ok(format!("{user}{hosts}/{name}{parameters}"))
}

/// The parameters of a URL that name files for TLS, and the variables that stand in for them.
const TLS_FILES: [(&str, &str); 3] =
    [("sslrootcert", "PGSSLROOTCERT"), ("sslcert", "PGSSLCERT"), ("sslkey", "PGSSLKEY")];

/// Refuses files that cannot be read: the driver's own error does not name them.
fn check_tls_files(url: &str) -> Result<(), StoreError> {
    let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
    for (parameter, variable) in TLS_FILES {
        let mut pairs = parameters.split('&').filter_map(|pair| pair.split_once('='));
        let given = pairs.rfind(|(name, _)| *name == parameter);
        let file = match given {
            Some((_, value)) => Some(percent_decode_str(value).decode_utf8_lossy().into_owned()),
            None => env::var(variable).ok(),
        };
        // The driver also takes the text of a certificate.
        let file = file.filter(|file| !file.trim_start().starts_with("-----BEGIN"));
        if let Some(file) = file
            && let Err(error) = File::open(&file)
        {
            return Err(StoreError::Unavailable(format!(
                "{parameter} names the file {file}, which cannot be read: {error}"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::address;

    /// Where each server of a URL is, with the user and the database.
    fn servers(url: &str) -> Result<Vec<String>, StoreError> {
        let shown = |server: &PgConnectOptions| {
            let (user, database) = (server.get_username(), server.get_database().unwrap_or_default());
            format!("{user}@{}/{database}", address(server))
        };
        Ok(super::servers(url)?.iter().map(shown).collect())
    }

    #[test]
    fn hosts_are_read_as_libpq_reads_them() {
        for (url, expected) in [
            ("postgres://u@h:1/d", &["u@h:1/d"][..]),
            (
                "postgresql://u@a:1,b:2,c:3/d?sslmode=disable&target_session_attrs=read-write",
                &["u@a:1/d", "u@b:2/d", "u@c:3/d"],
            ),
            ("postgres://u@a,b/d?port=7", &["u@a:7/d", "u@b:7/d"]),
            ("postgres:///d?user=u&host=a&port=7", &["u@a:7/d"]),
            ("postgres://u@%2Frun%2Fa:1,%2Frun%2Fb/d", &["u@/run/a/d", "u@/run/b/d"]),
            ("postgres://u:p@w@a:1,b:2/d", &["u@a:1/d", "u@b:2/d"]),
        ] {
            assert_eq!(servers(url).unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_read_is_refused_without_its_password() {
        for (url, why) in [
            ("nonsense:hunter2", "does not begin with postgres://"),
            ("mysql://u:hunter2@h/d", "does not begin with postgres://"),
            ("postgres://u:hunter2@h:hunter2/d", "invalid port number"),
            ("postgres://u:hunter2@a,b:x/d", "invalid port number"),
            ("postgres://u:hunter2@h/d?sslmode=full", "ssl_mode"),
            ("postgres://u:1/hunter2@h/d", "%2F"),
            ("postgres://u:1?hunter2@h/d", "%3F"),
            ("postgres://u:1#hunter2@h/d", "%23"),
            ("postgres://u:1@1/hunter2@h/d", "%40"),
        ] {
            let error = servers(url).unwrap_err().to_string();
            assert!(error.contains("the database URL cannot be read"), "{url}: {error}");
            assert!(error.contains(why) && !error.contains("hunter2"), "{url}: {error}");
        }
    }

    #[test]
    fn only_the_database_of_a_url_is_replaced() {
        for (url, expected) in [
            ("postgres://a@h:5/x", "postgres://a@h:5/demo"),
            ("postgres://a@h", "postgres://a@h/demo"),
            ("postgres://a:p@h:5,i:6/x", "postgres://a:p@h:5,i:6/demo"),
            ("postgres://a@%2Frun:5432/x?sslmode=disable", "postgres://a@%2Frun:5432/demo?sslmode=disable"),
        ] {
            assert_eq!(with_database(url, "demo").unwrap(), expected);
        }
    }
}
