//! Resolves names and checks the addresses; the client connects only to checked addresses.
//!
//! The client uses no other resolver and resolves once, so a name whose addresses change between two resolutions cannot
//! evade the check.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use reqwest::{
    Url,
    dns::{Name, Resolve, Resolving},
};

use super::address::{Reach, reach};

/// A resolver that returns only addresses that may be reached.
pub(super) struct Guard {
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) allow_private: bool,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let resolving = self.resolver.resolve(name);
        let allow_private = self.allow_private;
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = resolving.await?.collect();
            // One forbidden address refuses the name: a legitimate name does not have both sorts.
            for address in &addresses {
                check(&host, address.ip(), allow_private)?;
            }
            Ok(Box::new(addresses.into_iter()) as _)
        })
    }
}

/// Refuses an address that may not be reached, with the reason.
fn check(host: &str, address: IpAddr, allow_private: bool) -> Result<(), String> {
    match reach(address) {
        Reach::Public => Ok(()),
        Reach::Private if allow_private => Ok(()),
        Reach::Private => {
            Err(format!("{host} has the private address {address}, which its entry on the allow-list does not permit"))
        }
        Reach::Never => Err(format!("{host} has the address {address}, which is never delivered to")),
    }
}

/// Parses the URL as the client does: it must name the host that the allow-list was checked for. An address instead of
/// a name is checked here, because the client does not resolve it.
pub(super) fn admit(url: &str, host_port: &str, allow_private: bool) -> Result<Url, String> {
    let misread = || format!("the URL does not parse as one of {host_port}");
    let url: Url = url.parse().map_err(|_| misread())?;
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(misread());
    };
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    if !matches!(url.scheme(), "http" | "https") || has_credentials || format!("{host}:{port}") != host_port {
        return Err(misread());
    }
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = literal.parse() {
        check(host, address, allow_private)?;
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_admitted_as_the_host_it_was_allowed_for() {
        for (url, host_port) in [
            ("https://Hooks.Example.com/a?b=@c", "hooks.example.com:443"),
            ("http://hooks.example.com:8080", "hooks.example.com:8080"),
            ("http://1.1.1.1/", "1.1.1.1:80"),
            ("https://[2606:4700::1111]/", "[2606:4700::1111]:443"),
        ] {
            assert!(admit(url, host_port, false).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_url_that_the_client_would_read_in_another_way_is_refused() {
        for (url, host_port) in [
            ("https://evil.example/", "hooks.example.com:443"),
            ("https://hooks.example.com:444/", "hooks.example.com:443"),
            ("https://a@hooks.example.com/", "hooks.example.com:443"),
            ("https://:b@hooks.example.com/", "hooks.example.com:443"),
            ("https://hooks.example.com\\@evil.example/", "evil.example:443"),
            ("http://2130706433/", "2130706433:80"),
            ("http://0x7f.1/", "0x7f.1:80"),
            ("http://0177.0.0.1/", "0177.0.0.1:80"),
            ("http://127.1/", "127.1:80"),
            ("http://[::FFFF:127.0.0.1]/", "[::ffff:127.0.0.1]:80"),
            ("ftp://hooks.example.com/", "hooks.example.com:21"),
            ("file:///etc/passwd", ":0"),
            ("nonsense", "nonsense:80"),
        ] {
            assert!(admit(url, host_port, true).is_err(), "{url}");
        }
    }

    #[test]
    fn an_address_in_the_url_is_checked_as_a_resolved_one_is() {
        for (url, host_port, allow_private, admitted) in [
            ("http://127.0.0.1/", "127.0.0.1:80", false, false),
            ("http://127.0.0.1/", "127.0.0.1:80", true, true),
            ("http://[::1]/", "[::1]:80", false, false),
            ("http://[::1]/", "[::1]:80", true, true),
            ("http://169.254.169.254/", "169.254.169.254:80", true, false),
            ("http://[::ffff:a9fe:a9fe]/", "[::ffff:a9fe:a9fe]:80", true, false),
        ] {
            assert_eq!(admit(url, host_port, allow_private).is_ok(), admitted, "{url}");
        }
    }
}
