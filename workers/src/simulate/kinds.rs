//! The kinds that a simulated downstream serves, and how it answers each.

use std::{collections::BTreeMap, str::FromStr};

use tidegate::request::Flow;

use crate::kinds::{BUILT_IN, is_kind_name};

/// A kind beyond the built-in ones: written `NAME:FLOW`, or `NAME:decrypt:SHARES` when it is answered in shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedKind {
    /// Its name, in snake case.
    pub name: String,
    /// Which statuses its requests pass through.
    pub flow: Flow,
    /// In how many shares a decrypt is answered; none means in one response.
    pub shares: Option<u32>,
}

/// Why a text is not a [`SimulatedKind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    /// Not even two words.
    #[error("\"{0}\" is not a kind with its flow: write NAME:decrypt, NAME:decrypt:SHARES, NAME:proof or NAME:direct")]
    NoFlow(String),
    /// A name that no kind can have.
    #[error("\"{0}\" is not a kind's name: it is lower snake case, at most 63 characters, and starts with a letter")]
    Name(String),
    /// A flow that does not exist.
    #[error("\"{0}\" is not a flow: it is decrypt, proof or direct")]
    Flow(String),
    /// Shares where there are none, or not a number of them.
    #[error("\"{0}\" is not a number of shares from 1 to 1000, which only a decrypt has")]
    Shares(String),
}

impl FromStr for SimulatedKind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        let (name, rest) = text.split_once(':').ok_or_else(|| KindError::NoFlow(text.to_owned()))?;
        if !is_kind_name(name) {
            return Err(KindError::Name(name.to_owned()));
        }
        let (flow, shares) = match rest.split_once(':') {
            Some((flow, shares)) => (flow, Some(shares)),
            None => (rest, None),
        };
        let flow = flow.parse().map_err(|_| KindError::Flow(flow.to_owned()))?;
        let shares = shares
            .map(|text| match text.parse() {
                Ok(count @ 1..=1000) if flow == Flow::Decrypt => Ok(count),
                _ => Err(KindError::Shares(text.to_owned())),
            })
            .transpose()?;
        Ok(Self {
            name: name.to_owned(),
            flow,
            shares,
        })
    }
}

/// How requests of one kind are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) flow: Flow,
    pub(super) shares: Option<u32>,
}

/// The built-in kinds, `user_decrypt` in `shares`, and `extra` ones, which win over them.
pub(super) fn shapes(shares: u32, extra: &[SimulatedKind]) -> BTreeMap<String, Shape> {
    let shape = |flow, shares| Shape { flow, shares };
    let built_in = BUILT_IN.into_iter().map(|(name, flow)| {
        let shares = (name == "user_decrypt").then_some(shares);
        (name.to_owned(), shape(flow, shares))
    });
    let extra = extra
        .iter()
        .map(|kind| (kind.name.clone(), shape(kind.flow, kind.shares)));
    built_in.chain(extra).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_name_a_flow_and_perhaps_shares() {
        let kind = |name: &str, flow, shares| SimulatedKind {
            name: name.to_owned(),
            flow,
            shares,
        };
        assert_eq!("swap:direct".parse(), Ok(kind("swap", Flow::Direct, None)));
        assert_eq!("vote_2:decrypt:7".parse(), Ok(kind("vote_2", Flow::Decrypt, Some(7))));
        for (text, part) in [
            ("swap", "NAME:direct"),
            ("Swap:direct", "lower snake case"),
            (":direct", "lower snake case"),
            ("swap:sideways", "decrypt, proof or direct"),
            ("swap:direct:3", "only a decrypt"),
            ("swap:decrypt:0", "from 1 to 1000"),
        ] {
            let error = text.parse::<SimulatedKind>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
