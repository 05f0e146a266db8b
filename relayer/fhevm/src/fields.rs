//! The rules of the fields of a request, with the exact texts of their issues.

use alloy::{
    hex,
    primitives::{Address, B256, Bytes, U256},
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::labels::{Detail, Refusal};

const NOT_SERVED: &str = "Not supported by this relayer";
const NOT_A_STRING: &str = "Value must be a string";
const WRONG_TYPE: &str = "Invalid data type";
const EMPTY: &str = "Must not be empty";
const NO_PREFIX: &str = "Must start with 0x";
const PREFIX: &str = "Must not start with 0x";
const NOT_HEX: &str = "Invalid hex string";
const EXTRA_DATA: &str = "Must be 0x00, or a versioned format: 0x01 + 32-byte contextId (0x07-tagged first byte), or \
                          0x02 + 32-byte contextId (0x07-tagged) + 32-byte epochId (0x08-tagged)";

/// The first byte of a context's id, and of an epoch's.
const CONTEXT_TAG: u8 = 0x07;
const EPOCH_TAG: u8 = 0x08;

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Objects in it lack these members.
    Missing(Vec<&'static str>),
    /// It breaks a rule, or is of another type.
    Invalid(&'static str),
}

impl From<&'static str> for Fault {
    fn from(issue: &'static str) -> Self {
        Self::Invalid(issue)
    }
}

/// A value that keeps its rule, as it is meant.
pub(crate) type Checked<T> = Result<T, Fault>;

/// Reads the members of an object, and collects what is wrong with them.
pub(crate) struct Fields<'a> {
    object: &'a Map<String, Value>,
    missing: Vec<&'static str>,
    invalid: Vec<(&'static str, &'static str)>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(value: &'a Value) -> Checked<Self> {
        Ok(Self { object: value.as_object().ok_or(WRONG_TYPE)?, missing: Vec::new(), invalid: Vec::new() })
    }

    /// Refuses a member that asks for what is not served, as its value tells.
    pub(crate) fn refuse(&mut self, name: &'static str, is_meant: impl FnOnce(&Value) -> bool) {
        if self.object.get(name).is_some_and(is_meant) {
            self.invalid.push((name, NOT_SERVED));
        }
    }

    /// Whether nothing is wrong yet.
    pub(crate) fn are_sound(&self) -> bool {
        self.missing.is_empty() && self.invalid.is_empty()
    }

    /// The member of this name; `None` if it is missing or breaks its rule.
    pub(crate) fn take<T>(&mut self, name: &'static str, rule: impl FnOnce(&'a Value) -> Checked<T>) -> Option<T> {
        let Some(value) = self.object.get(name) else {
            self.missing.push(name);
            return None;
        };
        match rule(value) {
            Ok(value) => return Some(value),
            Err(Fault::Missing(names)) => self.missing.extend(names),
            Err(Fault::Invalid(issue)) => self.invalid.push((name, issue)),
        }
        None
    }

    /// The fault of the object itself, in a field of another.
    pub(crate) fn fault(self) -> Fault {
        match self.invalid.first() {
            Some((_, issue)) if self.missing.is_empty() => Fault::Invalid(issue),
            _ => Fault::Missing(self.missing),
        }
    }

    /// The refusal of a body that is this object.
    pub(crate) fn refusal(mut self) -> Refusal {
        if !self.missing.is_empty() {
            let mut names = Vec::new();
            self.missing.retain(|name| {
                let first = !names.contains(name);
                names.push(name);
                first
            });
            return Refusal::missing(&self.missing);
        }
        let details = self.invalid.into_iter();
        Refusal::invalid(details.map(|(field, issue)| Detail::new(field, issue)).collect())
    }
}

/// Every element of a list that has at least one.
pub(crate) fn each<'a, T>(rule: impl Fn(&'a Value) -> Checked<T>) -> impl FnOnce(&'a Value) -> Checked<Vec<T>> {
    move |value| {
        let elements = value.as_array().ok_or(WRONG_TYPE)?;
        if elements.is_empty() {
            return Err(EMPTY.into());
        }
        let (mut checked, mut missing, mut invalid) = (Vec::with_capacity(elements.len()), Vec::new(), None);
        for element in elements {
            match rule(element) {
                Ok(value) => checked.push(value),
                Err(Fault::Missing(names)) => missing.extend(names),
                Err(fault) => invalid = invalid.or(Some(fault)),
            }
        }
        match invalid {
            _ if !missing.is_empty() => Err(Fault::Missing(missing)),
            Some(fault) => Err(fault),
            None => Ok(checked),
        }
    }
}

fn text(value: &Value) -> Checked<&str> {
    value.as_str().ok_or_else(|| NOT_A_STRING.into())
}

fn is_hex(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The bytes of hex digits.
fn bytes(digits: &str) -> Checked<Bytes> {
    if !is_hex(digits) {
        return Err(NOT_HEX.into());
    }
    let bytes = hex::decode(digits).map_err(|_| NOT_HEX)?;
    Ok(bytes.into())
}

/// An address, in any case.
pub(crate) fn address(value: &Value) -> Checked<Address> {
    let text = text(value)?;
    let digits = text.strip_prefix("0x").ok_or(NO_PREFIX)?;
    if text.len() != 42 {
        return Err("Must be 42 characters long".into());
    }
    let bytes = bytes(digits).map_err(|_| "Contains invalid hex characters")?;
    Ok(Address::from_slice(&bytes))
}

/// A ciphertext handle.
pub(crate) fn handle(value: &Value) -> Checked<B256> {
    let bytes = bytes(text(value)?.strip_prefix("0x").ok_or(NO_PREFIX)?)?;
    B256::try_from(&bytes[..]).map_err(|_| "Must be 64 characters long".into())
}

/// Bytes in hex digits without `0x`, at least one.
pub(crate) fn plain_hex(value: &Value) -> Checked<Bytes> {
    let text = text(value)?;
    if text.starts_with("0x") {
        return Err(PREFIX.into());
    }
    let bytes = bytes(text)?;
    if bytes.is_empty() {
        return Err(EMPTY.into());
    }
    Ok(bytes)
}

/// A signature without `0x`.
pub(crate) fn signature(value: &Value) -> Checked<Bytes> {
    if text(value)?.len() != 130 {
        return Err("Must be 130 characters long".into());
    }
    plain_hex(value)
}

/// The id of a chain: a number, or a string in hex with `0x` or in decimal.
pub(crate) fn chain_id(value: &Value) -> Checked<u64> {
    let id = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) if is_hex(digits) => u64::from_str_radix(digits, 16).ok(),
            _ => decimal(text),
        },
        _ => return Err(WRONG_TYPE.into()),
    };
    id.ok_or_else(|| "Must be decimal number or 0x hex string".into())
}

/// An unsigned integer of decimal digits, and nothing else.
fn decimal<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// The second at which a validity starts, which is not after `now`.
pub(crate) fn timestamp(value: &Value, now: DateTime<Utc>) -> Checked<u64> {
    let text = text(value)?;
    let seconds = match text.strip_prefix("0x") {
        Some(digits) if is_hex(digits) && !digits.is_empty() => U256::from_str_radix(digits, 16).ok(),
        _ => decimal::<U256>(text),
    };
    let seconds = seconds.ok_or("Value must be a valid U256 number")?;
    let now = u64::try_from(now.timestamp()).unwrap_or_default();
    match u64::try_from(seconds) {
        Ok(seconds) if seconds <= now => Ok(seconds),
        _ => Err("Timestamp must not be in the future".into()),
    }
}

/// A number of days.
pub(crate) fn days(value: &Value) -> Checked<u32> {
    decimal(text(value)?).ok_or_else(|| "Value must be a valid u32 number".into())
}

/// The extra data of an input proof.
pub(crate) fn proof_extra_data(value: &Value) -> Checked<Bytes> {
    match text(value)? {
        "0x00" => Ok(Bytes::from_static(&[0])),
        _ => Err(EXTRA_DATA.into()),
    }
}

/// The extra data of a decryption: nothing, a context, or a context and an epoch.
pub(crate) fn extra_data(value: &Value) -> Checked<Bytes> {
    let bytes = text(value)?.strip_prefix("0x").and_then(|digits| bytes(digits).ok());
    let valid = bytes.filter(|bytes| match bytes[..] {
        [0] => true,
        [1, CONTEXT_TAG, ..] => bytes.len() == 33,
        [2, CONTEXT_TAG, ..] => bytes.len() == 65 && bytes[33] == EPOCH_TAG,
        _ => false,
    });
    valid.ok_or_else(|| EXTRA_DATA.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_is_of_digits_only() {
        for (text, id) in [
            ("31337", Some(31337)),
            ("0x7a69", Some(31337)),
            ("0x7A69", Some(31337)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("+1", None),
            ("1_000", None),
            (" 1", None),
            ("0x", None),
            ("0x+1", None),
            ("0X1", None),
            ("", None),
        ] {
            assert_eq!(chain_id(&json!(text)).ok(), id, "{text:?}");
        }
        for number in [json!(-1), json!(1.5), json!(1e20)] {
            assert_eq!(chain_id(&number), Err(Fault::Invalid("Must be decimal number or 0x hex string")));
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_a_rule_of_bytes(text in "(0x)?([0-9a-fA-F]{0,140}|.{0,20}|0x[0-9a-f]*)") {
            let value = json!(text);
            let digits = text.strip_prefix("0x").unwrap_or(&text);
            if let Ok(read) = plain_hex(&value) {
                prop_assert_eq!(hex::encode(read), text.to_lowercase());
            }
            if let Ok(read) = extra_data(&value) {
                prop_assert_eq!(hex::encode(&read), digits.to_lowercase());
                prop_assert!([1, 33, 65].contains(&read.len()));
            }
            if let Ok(read) = address(&value) {
                prop_assert_eq!(hex::encode(read), digits.to_lowercase());
            }
            if let Ok(read) = handle(&value) {
                prop_assert_eq!(hex::encode(read), digits.to_lowercase());
            }
        }
    }
}
