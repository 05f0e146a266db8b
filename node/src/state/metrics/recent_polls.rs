//! How often callers poll for a request until they get its end.

use std::collections::{HashMap, VecDeque};

use tidegate::request::RequestId;

/// The number of requests that are remembered, live and ended; the oldest are forgotten first.
const REMEMBERED: usize = 50_000;

/// The requests polled recently, oldest first.
#[derive(Default)]
pub(super) struct RecentPolls {
    /// The polls of each request before its end was answered; none afterwards.
    polls: HashMap<RequestId, Option<i64>>,
    order: VecDeque<RequestId>,
}

impl RecentPolls {
    /// Counts a poll; the number of all polls when it is the first that answers the request's end.
    pub(super) fn count(&mut self, id: RequestId, ended: bool) -> Option<i64> {
        if !self.polls.contains_key(&id) {
            if self.order.len() == REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.polls.remove(&oldest);
            }
            self.order.push_back(id);
        }
        let polls = self.polls.entry(id).or_insert(Some(0));
        *polls = Some(polls.as_ref()? + 1);
        if ended { polls.take() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u128) -> RequestId {
        RequestId(uuid::Uuid::from_u128(number))
    }

    #[test]
    fn the_end_of_a_request_is_counted_once_with_the_polls_it_took() {
        let mut recent = RecentPolls::default();

        assert_eq!(recent.count(id(1), false), None);
        assert_eq!(recent.count(id(1), false), None);
        assert_eq!(recent.count(id(2), true), Some(1));
        assert_eq!(recent.count(id(1), true), Some(3));
        assert_eq!(recent.count(id(1), true), None);
    }

    #[test]
    fn the_oldest_are_forgotten_first() {
        let mut recent = RecentPolls::default();

        for number in 0..=REMEMBERED as u128 {
            recent.count(id(number), false);
        }

        assert_eq!(recent.polls.len(), REMEMBERED);
        assert_eq!(recent.count(id(REMEMBERED as u128), true), Some(2));
        assert_eq!(recent.count(id(0), true), Some(1));
    }
}
