//! Which addresses a delivery may go to.
//!
//! A caller chooses the callback URL, and this process runs inside the operator's network, where it can reach more than
//! the caller. The special ranges are those of the IANA registries for IPv4 and IPv6 (RFC 6890).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far an address reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The whole Internet.
    Public,
    /// One machine or one network: for hosts whose entry on the allow-list permits it.
    Private,
    /// Unassigned, multicast, or a hosting provider's own: nothing is delivered there.
    Never,
}

/// How far this address reaches; one that embeds another reaches as far as that.
#[must_use]
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    match address.octets() {
        // This network, link-local (where clouds answer with credentials), protocol assignments, documentation, the old
        // 6to4 relays, multicast, reserved and broadcast.
        [0 | 224..=255, ..]
        | [169, 254, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => Reach::Never,
        // Providers' own services under ordinary addresses.
        [100, 100, 100, 200] | [168, 63, 129, 16] => Reach::Never,
        // Private, loopback, shared (carrier-grade NAT), benchmarks.
        [10 | 127, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] | [198, 18..=19, ..] => {
            Reach::Private
        }
        _ => Reach::Public,
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        reach_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Reach::Private,
        // IPv4 inside: compatible, mapped, translated, NAT64, 6to4. The unspecified address is one of the first.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => embedded(high, low),
        // A provider's metadata under a unique local address.
        [0xfd00, 0x0ec2, ..] => Reach::Never,
        // Unique local, and its predecessor.
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Reach::Private,
        // Protocol assignments (Teredo among them), documentation.
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Reach::Never,
        // Global unicast. All else is multicast, link-local, local NAT64, or not assigned.
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_reach(expected: Reach, addresses: &str) {
        for address in addresses.split_whitespace() {
            assert_eq!(reach(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn the_internet_is_public() {
        all_reach(
            Reach::Public,
            "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 \
             168.63.129.15 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 \
             192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 2606:4700::1111 2001:200::1 2a00::1 \
             ::ffff:1.1.1.1 64:ff9b::8.8.8.8 2002:808:808::1",
        );
    }

    #[test]
    fn local_networks_are_private() {
        all_reach(
            Reach::Private,
            "10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.1 127.255.255.254 172.16.0.1 \
             172.31.255.255 192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255 ::1 fc00::1 fdff:ffff::1 \
             fec0::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.1.2.3 ::ffff:0:192.168.1.1 64:ff9b::10.0.0.1 \
             2002:7f00:1:: 2002:c0a8:101::1",
        );
    }

    #[test]
    fn nothing_is_delivered_to_unassigned_multicast_or_provider_addresses() {
        all_reach(
            Reach::Never,
            "0.0.0.0 0.1.2.3 100.100.100.200 168.63.129.16 169.254.0.1 169.254.169.254 169.254.170.2 \
             192.0.0.192 192.0.2.1 192.88.99.1 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 \
             255.255.255.255 :: ::ffff:0.0.0.0 ::ffff:169.254.169.254 ::ffff:0:169.254.169.254 \
             ::169.254.169.254 64:ff9b::169.254.169.254 64:ff9b:1::1 100::1 2001::1 2001:2::1 2001:20::1 \
             2001:db8::1 2002:a9fe:a9fe::1 3fff::1 4000::1 fd00:ec2::254 fe80::1 febf::1 ff02::1",
        );
    }
}
