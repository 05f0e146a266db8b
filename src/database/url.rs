//! Database URLs, with one host or several.

use std::{borrow::Cow, env, fmt::Display, fs::File};

use percent_encoding::percent_decode_str;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::error::StoreError;

/// The parameters that the driver understands, apart from those of hosts. It logs the values of others, and a value may
/// be a secret.
const PARAMETERS: [&str; 15] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

/// The parameters that name files for TLS, and the variables that stand in for them.
const TLS_FILES: [(&str, &str); 3] = [
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
];

/// Why a URL may have parts that it should not have. A part may be of a password, so none is named.
const ENCODE: &str = "write / ? and # in a user or password as %2F, %3F and %23";

/// How to connect to each server of a URL, in its order.
///
/// As in libpq, `postgres://USER@ONE:5432,OTHER/DATABASE` names two, and so does `?host=ONE,OTHER&port=5432,5433`. The
/// driver takes one host, so each gets a URL of its own.
pub(super) fn servers(url: &str) -> Result<Vec<PgConnectOptions>, StoreError> {
    let parts = Parts::of(url)?;
    let mut parameters = Vec::new();
    let (mut hosts, mut ports) = (None, None);
    for parameter in parts.query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "host" | "hostaddr" => hosts = Some(value),
            "port" => ports = Some(value),
            "target_session_attrs" if ["any", "primary", "read-write"].contains(&value) => {}
            "target_session_attrs" => {
                return Err(unreadable(
                    "target_session_attrs is read-write, because every program writes",
                ));
            }
            _ if PARAMETERS.contains(&name) || name.starts_with("options[") => parameters.push(parameter),
            _ if name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) => {
                tracing::warn!(parameter = name, "a parameter of the database URL is ignored");
            }
            _ => return Err(unreadable(ENCODE)),
        }
    }
    let hosts = match hosts {
        Some(hosts) => {
            let of_authority = Some(parts.hosts).filter(|hosts| !hosts.is_empty() && !hosts.contains(','));
            let parameter = |host| Host::parameter(host, of_authority);
            listed(hosts).into_iter().map(parameter).collect()
        }
        None => parts.hosts.split(',').map(Host::of_authority).collect::<Vec<_>>(),
    };
    let ports = ports.map_or_else(Vec::new, listed);
    if ports.len() > 1 && ports.len() != hosts.len() {
        return Err(unreadable("it has several ports, and not one for each host"));
    }
    let servers = hosts.iter().enumerate().map(|(number, host)| {
        let port = ports.get(number).or(ports.first());
        let mut parameters: Vec<_> = parameters.iter().map(|&parameter| Cow::from(parameter)).collect();
        parameters.extend(host.parameter.as_ref().map(|host| format!("host={host}").into()));
        parameters.extend(port.or(host.port.as_ref()).map(|port| format!("port={port}").into()));
        let Parts { scheme, user, path, .. } = parts;
        let url = format!("{scheme}{user}{}{path}?{}", host.authority, parameters.join("&"));
        url.parse().map_err(|error: sqlx::Error| unreadable(error))
    });
    let servers = servers.collect::<Result<Vec<PgConnectOptions>, _>>()?;
    if let Some(server) = servers.first()
        && !matches!(server.get_ssl_mode(), PgSslMode::Disable | PgSslMode::Allow)
    {
        check_tls_files(&parameters)?;
    }
    Ok(servers)
}

/// The URL of another database on the same servers.
///
/// # Errors
///
/// [`StoreError::Unavailable`] when the URL cannot be read.
pub fn with_database(url: &str, name: &str) -> Result<String, StoreError> {
    let Parts {
        scheme,
        user,
        hosts,
        query,
        ..
    } = Parts::of(url)?;
    let mark = if query.is_empty() { "" } else { "?" };
    Ok(format!("{scheme}{user}{hosts}/{name}{mark}{query}"))
}

fn unreadable(why: impl Display) -> StoreError {
    StoreError::Unavailable(format!("the database URL cannot be read: {why}"))
}

/// The parts of a URL, none of them decoded.
#[derive(Clone, Copy)]
struct Parts<'a> {
    /// With `://`.
    scheme: &'a str,
    /// User and password, with `@`.
    user: &'a str,
    hosts: &'a str,
    /// With the slash at its beginning.
    path: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Result<Self, StoreError> {
        let is_scheme = |scheme: &&str| url.starts_with(scheme);
        let Some(scheme) = ["postgres://", "postgresql://"].into_iter().find(is_scheme) else {
            return Err(unreadable("it does not begin with postgres://"));
        };
        let rest = &url[scheme.len()..];
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if url.contains('#') || path.contains('@') {
            return Err(unreadable(ENCODE));
        }
        let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        Ok(Self {
            scheme,
            user,
            hosts,
            path,
            query,
        })
    }
}

/// One host of a list.
struct Host {
    /// What stands in its place in the URL.
    authority: String,
    /// The parameter `host` that replaces it.
    parameter: Option<String>,
    port: Option<String>,
}

impl Host {
    fn of_authority(host: &str) -> Self {
        // The driver would keep the brackets of an IPv6 address, and compare them with the names of a certificate.
        let bracketed = host.strip_prefix('[').and_then(|host| host.split_once(']'));
        match bracketed {
            Some((address, port)) => Self {
                port: port.strip_prefix(':').map(str::to_owned),
                ..Self::parameter(address.to_owned(), None)
            },
            None => Self {
                authority: host.to_owned(),
                parameter: None,
                port: None,
            },
        }
    }

    fn parameter(host: String, of_authority: Option<&str>) -> Self {
        Self {
            // A URL with a user has a host.
            authority: of_authority.unwrap_or("localhost").to_owned(),
            parameter: Some(host),
            port: None,
        }
    }
}

/// The members of a list in a parameter, still encoded.
fn listed(value: &str) -> Vec<String> {
    let comma = |value: &str| value.replace("%2C", ",").replace("%2c", ",");
    comma(value).split(',').map(str::to_owned).collect()
}

/// Refuses files that cannot be read: the driver's own error does not name them.
fn check_tls_files(parameters: &[&str]) -> Result<(), StoreError> {
    for (parameter, variable) in TLS_FILES {
        let mut pairs = parameters.iter().filter_map(|pair| pair.split_once('='));
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

    /// Where each server of a URL is, as `HOST:PORT` or a socket's directory, with the user and the database.
    fn of(url: &str) -> Vec<String> {
        let address = |server: &PgConnectOptions| {
            let host = server
                .get_socket()
                .map_or(server.get_host().into(), |path| path.to_string_lossy());
            let (user, database) = (server.get_username(), server.get_database().unwrap_or_default());
            format!("{user}@{host}:{}/{database}", server.get_port())
        };
        servers(url).unwrap().iter().map(address).collect()
    }

    #[test]
    fn hosts_are_read_as_libpq_reads_them() {
        for (url, read) in [
            ("postgres://u@h:1/d", &["u@h:1/d"][..]),
            (
                "postgresql://u@a:1,b:2,c:3/d?sslmode=disable",
                &["u@a:1/d", "u@b:2/d", "u@c:3/d"],
            ),
            (
                "postgres://u@a:1,b:2/d?target_session_attrs=read-write",
                &["u@a:1/d", "u@b:2/d"],
            ),
            ("postgres://u@a,b/d?port=7", &["u@a:7/d", "u@b:7/d"]),
            ("postgres://u@a,b/d?port=7,8", &["u@a:7/d", "u@b:8/d"]),
            ("postgres:///d?user=u&host=a,b&port=7%2C8", &["u@a:7/d", "u@b:8/d"]),
            ("postgres://u@/d?host=a&port=7", &["u@a:7/d"]),
            ("postgres://u@a:1/d?host=b", &["u@b:1/d"]),
            (
                "postgres://u@%2Frun%2Fa:1,%2Frun%2Fb:2/d",
                &["u@/run/a:1/d", "u@/run/b:2/d"],
            ),
            ("postgres://u@/d?host=/run/a,h&port=1", &["u@/run/a:1/d", "u@h:1/d"]),
            ("postgres://u@[::1]:1,[fe80::2]:2/d", &["u@::1:1/d", "u@fe80::2:2/d"]),
            ("postgres://u:p@w@a:1,b:2/d", &["u@a:1/d", "u@b:2/d"]),
        ] {
            assert_eq!(of(url), read, "{url}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_read_is_refused_without_its_password() {
        for (url, why) in [
            ("nonsense:hunter2", "does not begin with postgres://"),
            ("mysql://u:hunter2@h/d", "does not begin with postgres://"),
            ("postgres://u:hunter2@h:hunter2/d", "invalid port number"),
            ("postgres://u:hunter2@a,b:x/d", "invalid port number"),
            ("postgres://u:hunter2@a,b/d?port=1,2,3", "not one for each host"),
            ("postgres://u:hunter2@h/d?sslmode=full", "ssl_mode"),
            (
                "postgres://u:hunter2@h/d?target_session_attrs=standby",
                "every program writes",
            ),
            ("postgres://u:1/hunter2@h/d", "%2F"),
            ("postgres://u:1?hunter2@h/d", "%3F"),
            ("postgres://u:1#hunter2@h/d", "%23"),
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
            (
                "postgres://a@%2Frun:5432/x?sslmode=disable",
                "postgres://a@%2Frun:5432/demo?sslmode=disable",
            ),
        ] {
            assert_eq!(with_database(url, "demo").unwrap(), expected);
        }
    }
}
