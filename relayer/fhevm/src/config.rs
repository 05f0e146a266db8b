//! The configuration: `fhevm.toml`, and for each of its keys an environment variable, `TIDEGATE_FHEVM__SECTION__KEY`.
//!
//! Endpoints and keys may hold secrets, so no value of this module has a debug form.

use std::{collections::HashSet, path::Path};

use alloy::primitives::{Address, B256};
use anyhow::{Context, ensure};
use config::{File, FileFormat};
use serde::{Deserialize, Deserializer, de::Error};
use url::Url;

/// What the name of an environment variable of a key begins with.
const PREFIX: &str = "TIDEGATE_FHEVM__";

/// What separates sections and keys in such a name. A number is a place in a list.
const SEPARATOR: &str = "__";

/// The configuration of a relayer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The gateway chain.
    pub gateway: Gateway,
    /// The chains whose ciphertexts it serves.
    pub host_chains: Vec<HostChain>,
    /// The host chain's contracts of the key management.
    pub kms: Option<Kms>,
    /// The wallets whose keys this process has.
    #[serde(default)]
    pub wallets: Vec<Wallet>,
    /// What transactions offer.
    #[serde(default)]
    pub fees: Fees,
    /// Whether callers need an API key.
    #[serde(default)]
    pub keys: Keys,
    /// Which callers' requests are compared.
    #[serde(default)]
    pub duplicates: Duplicates,
    /// Where callers find the public key.
    #[serde(default)]
    pub keyurl: KeyUrl,
    /// Whether requests wait while the gateway's contracts are paused, instead of failing.
    #[serde(default)]
    pub hold_while_paused: bool,
}

/// The gateway chain, and its contracts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Its id.
    pub chain_id: u64,
    /// Its endpoints, in the order in which they are preferred.
    #[serde(deserialize_with = "urls")]
    pub http: Vec<Url>,
    /// The contract of decryptions.
    pub decryption: Address,
    /// The contract of input proofs.
    pub input_verification: Address,
    /// The contract that lists the signers of responses; without it, signers are not checked.
    pub gateway_config: Option<Address>,
    /// The token that requests are paid with, and the contract that takes it: with both, wallets without tokens get no
    /// requests.
    pub fee_token: Option<Address>,
    /// See `fee_token`.
    pub protocol_payment: Option<Address>,
    /// How many blocks below the head events are read, and reverts count.
    #[serde(default)]
    pub confirmations: u64,
    /// How many blocks below the head a transaction is final, on a chain without the tag `finalized`.
    #[serde(default = "lost_depth")]
    pub lost_depth: u64,
    /// How many endpoints have to agree that a foreign transaction has taken a nonce.
    #[serde(default = "one")]
    pub lost_quorum: usize,
    /// How often events are read, in milliseconds.
    #[serde(default = "poll_ms")]
    pub poll_ms: u64,
    /// How many blocks are read at once, at most.
    #[serde(default = "range")]
    pub range: u64,
}

/// A chain whose ciphertexts are decrypted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostChain {
    /// Its id.
    pub chain_id: u64,
    /// Its endpoints, in the order in which they are preferred.
    #[serde(deserialize_with = "urls")]
    pub http: Vec<Url>,
    /// The contract that knows who may decrypt.
    pub acl: Address,
}

/// The host chain's contracts of the key management.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kms {
    /// The chain that they are on: one of the host chains.
    pub chain_id: u64,
    /// The contract that has the thresholds of contexts.
    pub protocol_config: Address,
    /// The contract that has the keys.
    pub kms_generation: Address,
    /// How many shares complete a decryption without a context.
    #[serde(default = "static_threshold")]
    pub static_threshold: i32,
}

/// A wallet whose key this process has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wallet {
    /// Its name in commands, logs and metrics.
    pub name: String,
    /// The environment variable that has its key.
    pub key_env: Option<String>,
    /// The file that has its key, which only its owner may read.
    pub key_file: Option<std::path::PathBuf>,
    /// How many of its transactions may be unmined.
    #[serde(default = "in_flight_max")]
    pub in_flight_max: i32,
}

/// What transactions offer, in wei per gas.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fees {
    /// The least fee and tip.
    pub floor: u64,
    /// The greatest fee and tip.
    pub cap: u64,
    /// The tip, if the chain is not to be asked for it.
    pub tip: Option<u64>,
    /// By what the estimate of a transaction's gas is multiplied.
    pub gas_factor: f64,
    /// After how many seconds unmined a transaction is offered more.
    pub stuck_after_s: u64,
}

impl Default for Fees {
    fn default() -> Self {
        Self { floor: 1, cap: 1_000_000_000_000, tip: None, gas_factor: 1.2, stuck_after_s: 10 }
    }
}

/// Whether callers need an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keys {
    /// They need none.
    #[default]
    Off,
    /// They need one.
    Required,
}

/// Which callers' requests are compared with a submission, so that two that are the same are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Duplicates {
    /// All.
    #[default]
    Shared,
    /// Those of the same API key's submitter.
    PerKey,
}

/// Where callers find the public key.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeyUrl {
    /// An answer that stays, instead of that of the host chain.
    pub r#static: Option<StaticKeyUrl>,
}

/// A fixed answer of `/v2/keyurl`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticKeyUrl {
    /// The id of the public key.
    pub public_key_id: B256,
    /// Where it is.
    #[serde(deserialize_with = "url")]
    pub public_key_url: Url,
    /// The id of the common reference string.
    pub crs_id: B256,
    /// Where it is.
    #[serde(deserialize_with = "url")]
    pub crs_url: Url,
}

const fn one() -> usize {
    1
}

const fn lost_depth() -> u64 {
    20
}

const fn poll_ms() -> u64 {
    2000
}

const fn range() -> u64 {
    1000
}

/// How many shares complete a decryption without a context, unless the configuration names another number.
pub const STATIC_THRESHOLD: i32 = 9;

const fn static_threshold() -> i32 {
    STATIC_THRESHOLD
}

const fn in_flight_max() -> i32 {
    64
}

/// A list of URLs, or their text joined by commas.
fn urls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Url>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Urls {
        List(Vec<String>),
        Text(String),
    }
    let texts = match Urls::deserialize(deserializer)? {
        Urls::List(texts) => texts,
        Urls::Text(text) => text.split(',').map(str::to_owned).collect(),
    };
    if texts.is_empty() {
        return Err(D::Error::custom("name at least one endpoint"));
    }
    texts.iter().map(|text| parse_url(text)).collect()
}

fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    parse_url(&String::deserialize(deserializer)?)
}

/// The error does not repeat the text, which may hold a secret.
fn parse_url<E: Error>(text: &str) -> Result<Url, E> {
    text.trim().parse().map_err(|error| E::custom(format!("not a URL: {error}")))
}

impl Config {
    /// Reads a file, if there is one, and the environment, which has precedence.
    ///
    /// # Errors
    ///
    /// A file that cannot be read; a key that is missing, unknown or of another type, by its name.
    pub fn load(file: Option<&Path>, environment: impl Iterator<Item = (String, String)>) -> anyhow::Result<Self> {
        let mut builder = config::Config::builder();
        if let Some(file) = file {
            builder = builder.add_source(File::from(file).format(FileFormat::Toml));
        }
        for (name, value) in environment {
            let Some(key) = name.strip_prefix(PREFIX) else { continue };
            let mut path = String::new();
            for part in key.to_lowercase().split(SEPARATOR) {
                match part.parse::<usize>() {
                    Ok(place) => path.push_str(&format!("[{place}]")),
                    Err(_) if path.is_empty() => path.push_str(part),
                    Err(_) => path.push_str(&format!(".{part}")),
                }
            }
            builder = builder
                .set_override(&path, value)
                .with_context(|| format!("the environment variable {name} names no key"))?;
        }
        let origin = || match file {
            Some(file) => format!("the configuration {}, with the variables {PREFIX}…", file.display()),
            None => format!("the configuration of the variables {PREFIX}…"),
        };
        let config: Self = builder.build().and_then(config::Config::try_deserialize).with_context(origin)?;
        config.check().with_context(origin)?;
        Ok(config)
    }

    /// What no type says.
    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.host_chains.is_empty(), "host_chains is empty: name at least one chain");
        let mut chains = HashSet::new();
        for HostChain { chain_id, .. } in &self.host_chains {
            ensure!(chains.insert(chain_id), "host_chains has chain {chain_id} twice");
        }
        if let Some(kms) = &self.kms {
            let id = kms.chain_id;
            ensure!(chains.contains(&id), "kms.chain_id is {id}, which is none of host_chains");
            ensure!(kms.static_threshold > 0, "kms.static_threshold has to be positive");
        }
        let mut names = HashSet::new();
        for wallet in &self.wallets {
            let name = &wallet.name;
            let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
            ensure!(
                (1..=50).contains(&name.len()) && name.bytes().all(is_plain),
                "\"{name}\" is no name of a wallet: it has up to 50 small letters, digits, '_' and '-'"
            );
            ensure!(names.insert(name), "wallets has \"{name}\" twice");
            ensure!(
                wallet.key_env.is_some() != wallet.key_file.is_some(),
                "wallet \"{name}\" needs one of key_env and key_file"
            );
            ensure!(wallet.in_flight_max > 0, "in_flight_max of wallet \"{name}\" has to be positive");
        }
        let Fees { floor, cap, gas_factor, .. } = self.fees;
        ensure!(floor <= cap, "fees.floor is above fees.cap");
        ensure!(gas_factor >= 1.0, "fees.gas_factor is below 1");
        Ok(())
    }

    /// Whether a host chain is served.
    #[must_use]
    pub fn serves(&self, chain_id: u64) -> bool {
        self.host_chains.iter().any(|chain| chain.chain_id == chain_id)
    }
}

#[cfg(test)]
mod tests;
