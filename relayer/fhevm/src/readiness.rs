//! The readiness check of decryptions: allowed on the host chains, material on the gateway, threshold known.

mod acl;
mod material;
mod threshold;

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use alloy::primitives::Address;
use tidegate::{
    Tidegate,
    request::{Request, RequestError, RequestId},
    stage::{self, Check},
};
use tidegate_evm::Chain;

use self::threshold::Thresholds;
use crate::{
    chains::{Chains, HostChain},
    labels::Label,
    request::Payload,
};

/// How long a request waits until its material is asked for again, at least.
const AGAIN: Duration = Duration::from_secs(3);

/// The time between two such questions of a process: many that wait ask less often, and leave places to those that are
/// new.
const PACE: Duration = Duration::from_millis(10);

/// The most requests whose pass of the ACL is remembered.
const PASSES_MAX: usize = 100_000;

/// The check of one process.
pub struct Readiness {
    tidegate: Tidegate,
    gateway: Chain,
    decryption: Address,
    host_chains: HashMap<u64, HostChain>,
    thresholds: Thresholds,
    /// The requests that their ACLs allow, so that a wait for the material does not ask again.
    allowed: Mutex<HashSet<RequestId>>,
    /// When the last of those that wait is to ask again.
    last: Mutex<Instant>,
}

impl Readiness {
    /// A check against these chains. A request without a KMS context needs `static_threshold` shares.
    #[must_use]
    pub fn new(tidegate: Tidegate, chains: &Chains, static_threshold: i32) -> Self {
        let hosts = chains.hosts.iter().map(|host| (host.chain.id(), host.clone()));
        Self {
            tidegate,
            gateway: chains.gateway.clone(),
            decryption: chains.contracts.decryption,
            host_chains: hosts.collect(),
            thresholds: Thresholds::new(chains.kms(), static_threshold),
            allowed: Mutex::default(),
            last: Mutex::new(Instant::now()),
        }
    }

    async fn run(&self, request: &Request<Payload>) -> Result<(), Check> {
        let allowed = self.allowed(|allowed| allowed.contains(&request.id));
        if !allowed {
            acl::check(&self.host_chains, &request.payload).await?;
            self.allowed(|allowed| {
                // A request that is forgotten is only asked for again.
                if allowed.len() >= PASSES_MAX {
                    allowed.clear();
                }
                allowed.insert(request.id);
            });
        }
        material::check(&self.gateway, self.decryption, &request.payload).await?;
        if let Payload::UserDecrypt(decrypt) = &request.payload {
            let threshold = self.thresholds.of(&decrypt.extra_data).await?;
            let set = self.tidegate.set_response_threshold(request, threshold).await;
            // A lost lease settles nothing either.
            set.map_err(|error| retry(Label::InternalServerError, &error))?;
        }
        Ok(())
    }

    fn allowed<T>(&self, change: impl FnOnce(&mut HashSet<RequestId>) -> T) -> T {
        change(&mut self.allowed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl stage::Readiness for Readiness {
    type Payload = Payload;

    async fn check(&self, request: &Request<Payload>) -> Check {
        let mut check = self.run(request).await.err().unwrap_or(Check::Ready);
        if let Check::Snooze { after } = &mut check {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            *after = Some(again(&mut last, Instant::now()));
        }
        if matches!(check, Check::Ready | Check::Failed(_)) {
            self.allowed(|allowed| allowed.remove(&request.id));
        }
        check
    }
}

/// How long a request waits that is not ready now, after the `last` one that was not.
fn again(last: &mut Instant, now: Instant) -> Duration {
    *last = (*last + PACE).max(now + AGAIN);
    *last - now
}

/// The check itself did not succeed; its request ends with this label if none does.
fn retry(label: Label, cause: &dyn std::fmt::Display) -> Check {
    let error = RequestError::new(label.code(), cause.to_string(), label.repeat());
    Check::Retry { error, after: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_wait_for_three_seconds_and_many_for_as_long_as_all_of_them_take() {
        let now = Instant::now();
        let mut last = now;
        let waits: Vec<_> = (0..5000).map(|_| again(&mut last, now)).collect();
        assert_eq!(waits[0], AGAIN);
        assert!(waits.iter().all(|wait| *wait >= AGAIN));
        assert_eq!(waits[4999], AGAIN + PACE * 4999);
        // Those that come after a pause do not wait for them.
        let later = last + PACE;
        assert_eq!(again(&mut last, later), AGAIN);
    }
}
