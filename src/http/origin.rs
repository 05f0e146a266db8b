//! Whether a call to a node that needs no key comes from a program on this machine, and not from a web page.
//!
//! Such a node listens on loopback only, but a browser on the same machine reaches that too: for a page of any site
//! (cross-site request), and for a site whose name its owner points at 127.0.0.1 (DNS rebinding). The first shows in
//! `Origin` and `Sec-Fetch-Site`, the second in `Host`.

use std::net::{IpAddr, Ipv4Addr};

use axum::http::{
    HeaderMap, HeaderName, Uri,
    header::{HOST, ORIGIN},
    uri::Authority,
};

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether these headers are those of a program on this machine, or of a page that this machine serves.
pub(super) fn is_local(headers: &HeaderMap) -> bool {
    let hosts_are_local = headers
        .get_all(HOST)
        .iter()
        .all(|host| host.to_str().is_ok_and(|host| names_this_machine(host.parse().ok())));
    let origins_are_local = headers.get_all(ORIGIN).iter().all(|origin| {
        let origin = origin.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
        names_this_machine(origin.and_then(|origin| origin.authority().cloned()))
    });
    let site_is_local = headers
        .get_all(&SEC_FETCH_SITE)
        .iter()
        .all(|site| site == "same-origin" || site == "none");
    hosts_are_local && origins_are_local && site_is_local
}

fn names_this_machine(authority: Option<Authority>) -> bool {
    let Some(authority) = authority else {
        return false;
    };
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

    fn local(pairs: &[(&'static str, &'static str)]) -> bool {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        is_local(&pairs.collect())
    }

    #[test]
    fn programs_on_this_machine_and_the_nodes_own_pages_are_let_in() {
        assert!(local(&[]));
        for host in [
            "127.0.0.1:8080",
            "127.0.0.53",
            "localhost:80",
            "LOCALHOST",
            "[::1]:8080",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(local(&[("host", host)]), "{host}");
        }
        assert!(local(&[
            ("host", "127.0.0.1:8080"),
            ("origin", "http://127.0.0.1:8080"),
            ("sec-fetch-site", "same-origin"),
        ]));
    }

    #[test]
    fn pages_of_other_sites_are_not() {
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8080",
            "10.0.0.1",
            "",
            "a b",
        ] {
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
