//! `POST /v2/delegated-user-decrypt`: as a user decryption, but with the validity as members of the body, and with two
//! addresses: those of the delegator and of the delegate.

use chrono::{DateTime, Utc};

use super::{User, UserDecrypt, Validity};
use crate::fields::{Fields, address};

pub(super) fn read(fields: &mut Fields<'_>, now: DateTime<Utc>) -> Option<UserDecrypt> {
    let user = |fields: &mut Fields<'_>| {
        let delegator_address = fields.take("delegatorAddress", address);
        let delegate_address = fields.take("delegateAddress", address);
        Some(User::Delegated { delegator_address: delegator_address?, delegate_address: delegate_address? })
    };
    UserDecrypt::read_with(fields, |fields| Validity::read(fields, now), user)
}
