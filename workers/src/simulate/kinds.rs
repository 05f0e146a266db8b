//! The kinds that a simulated downstream serves, and how it answers each.

use std::{collections::BTreeMap, str::FromStr};

use tidegate::request::Flow;

use crate::{
    ParseError,
    kinds::{EXAMPLE, kind_name},
};

/// A kind that is served: written `NAME:FLOW`, or `NAME:decrypt:SHARES` when it is answered in shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedKind {
    /// Its name, in snake case.
    pub name: String,
    /// Which statuses its requests pass through.
    pub flow: Flow,
    /// In how many shares a decrypt is answered; none means in one response.
    pub shares: Option<u32>,
}

impl FromStr for SimulatedKind {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let refuse = |part: &str, why: &str| ParseError(format!("\"{part}\" is not {why}"));
        let forms = "a kind with its flow: write NAME:decrypt, NAME:decrypt:SHARES, NAME:proof or NAME:direct";
        let (name, rest) = text.split_once(':').ok_or_else(|| refuse(text, forms))?;
        let name = kind_name(name)?;
        let (flow, shares) = match rest.split_once(':') {
            Some((flow, shares)) => (flow, Some(shares)),
            None => (rest, None),
        };
        let flow = flow.parse().map_err(|_| refuse(flow, "a flow: it is decrypt, proof or direct"))?;
        let shares = shares
            .map(|text| match text.parse() {
                Ok(count @ 1..=1000) if flow == Flow::Decrypt => Ok(count),
                _ => Err(refuse(text, "a number of shares (1 to 1000), which only a decrypt has")),
            })
            .transpose()?;
        Ok(Self { name, flow, shares })
    }
}

/// The example's kinds, `user_decrypt` in `shares`, and `extra` ones, which win over them.
pub(super) fn served(shares: u32, extra: &[SimulatedKind]) -> BTreeMap<String, SimulatedKind> {
    let example = EXAMPLE.map(|(name, flow)| SimulatedKind {
        name: name.to_owned(),
        flow,
        shares: (name == "user_decrypt").then_some(shares),
    });
    let kinds = example.into_iter().chain(extra.iter().cloned());
    kinds.map(|kind| (kind.name.clone(), kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_name_a_flow_and_perhaps_shares() {
        let kind = |name: &str, flow, shares| SimulatedKind { name: name.to_owned(), flow, shares };
        assert_eq!("swap:direct".parse(), Ok(kind("swap", Flow::Direct, None)));
        assert_eq!("vote_2:decrypt:7".parse(), Ok(kind("vote_2", Flow::Decrypt, Some(7))));
        crate::testing::assert_refused::<SimulatedKind>(&[
            ("swap", "NAME:direct"),
            ("Swap:direct", "lower snake case"),
            (":direct", "lower snake case"),
            ("swap:sideways", "decrypt, proof or direct"),
            ("swap:direct:3", "only a decrypt"),
            ("swap:decrypt:0", "1 to 1000"),
        ]);
    }
}
