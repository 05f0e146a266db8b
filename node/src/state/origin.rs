//! Whether a call to a node that needs no key comes from a program on this machine, and not from a web page.
//!
//! Such a node listens on loopback only, but a browser on the same machine reaches that too: for a page of any site
//! (cross-site request), and for a site whose name its owner points at 127.0.0.1 (DNS rebinding). The first shows in
//! `Origin` and `Sec-Fetch-Site`, the second in `Host`.

use std::net::{IpAddr, Ipv4Addr};

use axum::http::{HeaderMap, Uri, uri::Authority};

/// Whether these headers are those of a program on this machine, or of a page that this machine serves.
pub(crate) fn is_local(headers: &HeaderMap) -> bool {
    let all = |name, is_local: fn(&str) -> Option<bool>| {
        let mut values = headers.get_all(name).iter();
        values.all(|value| value.to_str().ok().and_then(is_local).unwrap_or(false))
    };
    all("host", |host| Some(names_this_machine(&host.parse().ok()?)))
        && all("origin", |origin| Some(names_this_machine(origin.parse::<Uri>().ok()?.authority()?)))
        && all("sec-fetch-site", |site| Some(matches!(site, "same-origin" | "none")))
}

/// Whether a browser says that a page of another site has made this call.
pub(crate) fn is_of_another_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
}

fn names_this_machine(authority: &Authority) -> bool {
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|v4| Ipv4Addr::is_loopback(&v4))
        }
        Ok(IpAddr::V4(address)) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(pairs: &[(&str, &str)]) -> bool {
        let pairs = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        is_local(&pairs.collect())
    }

    #[test]
    fn programs_on_this_machine_and_the_node_s_own_pages_are_local() {
        assert!(local(&[]));
        let hosts = "127.0.0.1:8080 127.0.0.53 localhost:80 LOCALHOST [::1]:8080 [::ffff:127.0.0.1]";
        for host in hosts.split(' ') {
            assert!(local(&[("host", host)]), "{host}");
        }
        assert!(local(&[
            ("host", "127.0.0.1:8080"),
            ("origin", "http://127.0.0.1:8080"),
            ("sec-fetch-site", "same-origin"),
        ]));
    }

    #[test]
    fn pages_of_other_sites_are_not_local() {
        let hosts = "evil.example 127.0.0.1.evil.example localhost.evil.example:8080 10.0.0.1";
        for host in hosts.split(' ').chain(["", "a b"]) {
            assert!(!local(&[("host", host)]), "{host}");
        }
        for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
            assert!(!local(&[("host", "localhost"), ("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site", "?"] {
            assert!(!local(&[("host", "localhost"), ("sec-fetch-site", site)]), "{site}");
        }
    }
}
