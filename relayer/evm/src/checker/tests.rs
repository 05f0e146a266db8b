//! Each violation is found in a chain that has it and in no other.

use uuid::Uuid;

use super::*;

const WALLET: Address = Address::repeat_byte(0xaa);
const CONTRACT: Address = Address::repeat_byte(0xcc);

fn id(n: u8) -> RequestId {
    RequestId(Uuid::from_bytes([n; 16]))
}

fn hash(n: u64) -> B256 {
    B256::with_last_byte(u8::try_from(n).unwrap())
}

fn request(n: u8, sends: Sends) -> ExpectedRequest {
    ExpectedRequest { id: id(n), to: CONTRACT, calldata: vec![n].into(), sends }
}

/// The transaction of a nonce that calls for request `n`; its hash is that of the nonce.
fn call(nonce: u64, n: u8) -> OnChain {
    OnChain {
        block: nonce,
        hash: hash(nonce),
        from: WALLET,
        nonce,
        to: Some(CONTRACT),
        input: vec![n].into(),
        succeeded: true,
    }
}

fn filler(nonce: u64) -> OnChain {
    OnChain { to: Some(WALLET), input: Bytes::new(), ..call(nonce, 0) }
}

/// Three requests on the nonces 5 to 7, and a filler on nonce 8.
fn sound() -> (Expected, Vec<OnChain>) {
    let own = (5..8).map(|nonce| (hash(nonce), Signed::Own(Some(id(u8::try_from(nonce).unwrap())))));
    let wallet = ExpectedWallet {
        name: "a".to_owned(),
        address: WALLET,
        first_block: None,
        first_nonce: 5,
        next_nonce: 9,
        attempts: own.chain([(hash(8), Signed::Filler)]).collect(),
    };
    let requests = (5..8).map(|n| request(n, Sends::One)).chain([request(9, Sends::None)]).collect();
    let chain = vec![call(5, 5), call(6, 6), call(7, 7), filler(8)];
    (Expected { wallets: vec![wallet], requests, at_rest: true }, chain)
}

fn violations(expected: &Expected, chain: &[OnChain]) -> Vec<Violation> {
    compare(expected, &HashMap::new(), chain).violations
}

#[test]
fn a_sound_chain_has_no_violation_and_its_report_counts_it() {
    let (expected, chain) = sound();
    let report = compare(&expected, &HashMap::new(), &chain);
    assert_eq!(report.violations, []);
    assert_eq!((report.requests, report.sent), (4, 3));
    let line = &report.wallets[0];
    assert_eq!((line.first, line.mined, line.reverted, line.fillers, line.open), (5, 4, 0, 1, 0));
    assert!(report.to_string().contains("4 requests, 3 successful transactions"), "{report}");
}

#[test]
fn what_others_and_the_wallets_former_owner_sent_is_not_looked_at() {
    let (expected, mut chain) = sound();
    chain.insert(0, OnChain { from: Address::ZERO, ..call(5, 5) });
    chain.insert(0, call(4, 5));
    assert_eq!(violations(&expected, &chain), []);
}

#[test]
fn a_second_transaction_for_a_request_is_found_whatever_the_database_says_it_is_for() {
    let (mut expected, mut chain) = sound();
    let attempts = &mut expected.wallets[0].attempts;
    attempts.insert(hash(9), Signed::Own(None));
    expected.wallets[0].next_nonce = 10;
    chain.push(call(9, 6));
    let twice = Violation::TooMany { requests: vec![id(6)], most: 1, hashes: vec![hash(6), hash(9)] };
    assert_eq!(violations(&expected, &chain), [twice]);
    chain[4].succeeded = false;
    assert_eq!(violations(&expected, &chain), [], "a transaction that failed is none");
}

#[test]
fn a_transaction_for_a_request_that_should_have_none_is_found() {
    let (mut expected, mut chain) = sound();
    chain[3] = call(8, 9);
    expected.wallets[0].attempts.insert(hash(8), Signed::Own(Some(id(9))));
    let found = Violation::TooMany { requests: vec![id(9)], most: 0, hashes: vec![hash(8)] };
    assert_eq!(violations(&expected, &chain), [found]);
}

#[test]
fn requests_with_one_call_may_have_as_many_transactions_as_they_are() {
    let (mut expected, mut chain) = sound();
    expected.requests[1].calldata = vec![5].into();
    chain[1] = call(6, 5);
    assert_eq!(violations(&expected, &chain), []);
    expected.wallets[0].attempts.insert(hash(6), Signed::Own(Some(id(5))));
    let twice = Violation::TooMany { requests: vec![id(5)], most: 1, hashes: vec![hash(5), hash(6)] };
    assert_eq!(violations(&expected, &chain), [twice], "both are of one of them");
}

#[test]
fn a_request_without_its_transaction_is_found() {
    let (mut expected, mut chain) = sound();
    chain[2].succeeded = false;
    let missing = Violation::TooFew { requests: vec![id(7)], least: 1, found: 0 };
    assert_eq!(violations(&expected, &chain), [missing]);
    expected.requests[2].sends = Sends::AtMostOne;
    assert_eq!(violations(&expected, &chain), []);
}

#[test]
fn a_foreign_transaction_is_found() {
    let (mut expected, chain) = sound();
    expected.wallets[0].attempts.remove(&hash(8));
    let foreign = Violation::Foreign { wallet: "a".to_owned(), nonce: 8, hash: hash(8), block: 8 };
    assert_eq!(violations(&expected, &chain), [foreign]);
}

#[test]
fn a_gap_and_a_repetition_are_found() {
    let (expected, mut chain) = sound();
    chain.remove(1);
    let found = violations(&expected, &chain);
    assert!(found.contains(&Violation::Gap { wallet: "a".to_owned(), expected: 6, found: 7 }), "{found:?}");
    let (expected, mut chain) = sound();
    chain.insert(1, filler(5));
    let found = violations(&expected, &chain);
    assert!(found.contains(&Violation::Gap { wallet: "a".to_owned(), expected: 6, found: 5 }), "{found:?}");
}

#[test]
fn the_first_nonce_is_counted_from_the_wallets_start() {
    let (expected, chain) = sound();
    let found = violations(&expected, &chain[1..]);
    assert!(found.contains(&Violation::Gap { wallet: "a".to_owned(), expected: 5, found: 6 }), "{found:?}");
    let later = HashMap::from([(WALLET, 6)]);
    let mut expected = expected;
    expected.requests.remove(0);
    assert_eq!(compare(&expected, &later, &chain[1..]).violations, [], "the first block comes after it");
}

#[test]
fn a_nonce_that_was_never_used_is_a_hole_once_nothing_is_on_its_way() {
    let (mut expected, mut chain) = sound();
    chain.pop();
    assert_eq!(violations(&expected, &chain), [Violation::Hole { wallet: "a".to_owned(), nonce: 8, open: 1 }]);
    expected.at_rest = false;
    let report = compare(&expected, &HashMap::new(), &chain);
    assert_eq!((report.violations, report.wallets[0].open), (vec![], 1));
}

#[test]
fn an_attempt_with_another_call_than_its_requests_is_found() {
    let (mut expected, chain) = sound();
    expected.wallets[0].attempts.insert(hash(7), Signed::Own(Some(id(6))));
    let found = violations(&expected, &chain);
    assert!(found.contains(&Violation::OtherCall { request: Some(id(6)), hash: hash(7) }), "{found:?}");
    expected.wallets[0].attempts.insert(hash(7), Signed::Filler);
    let found = violations(&expected, &chain);
    assert_eq!(found, [Violation::OtherCall { request: None, hash: hash(7) }]);
    expected.wallets[0].attempts.insert(hash(7), Signed::Own(Some(id(77))));
    let found = violations(&expected, &chain);
    assert_eq!(found, [Violation::OtherCall { request: Some(id(77)), hash: hash(7) }], "a request that is not there");
}
