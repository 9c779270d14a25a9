//! Calls that were refused, until the audit list has them (API-9): the same ones are summed up, and however many there are, no more
//! than a command holds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidemill_model::{Refusal, RefusalReason, Timestamp, bounds};

/// Refusals that are told apart; of each reason what is beyond is one entry more.
const KINDS: usize = bounds::REFUSALS - REASONS.len();
const REASONS: [RefusalReason; 2] = [RefusalReason::Unauthenticated, RefusalReason::Forbidden];
/// What stands for the call in those entries.
const OTHERS: &str = "others";
/// Characters of each, at most.
const APP_CHARS: usize = 64;
const PERSON_CHARS: usize = 128;
const CALL_CHARS: usize = 200;
const ADDRESS_CHARS: usize = 64;

/// The application and the person that a call showed, where they do not stand in its headers: who reads its body, or looks its
/// credential up, says it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown(Arc<(OnceLock<String>, OnceLock<String>)>);

impl Shown {
    pub(crate) fn set(&self, app: &str) {
        self.0.0.get_or_init(|| app.to_owned());
    }

    pub(crate) fn set_person(&self, person: &str) {
        self.0.1.get_or_init(|| person.to_owned());
    }

    pub(crate) fn app(&self) -> Option<&str> {
        self.0.0.get().map(String::as_str)
    }

    pub(crate) fn person(&self) -> Option<&str> {
        self.0.1.get().map(String::as_str)
    }
}

/// An answer in a form of its own says so where it refuses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused(pub(crate) RefusalReason);

/// A call, as it is told where it is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RefusedCall {
    pub(crate) app: String,
    pub(crate) person: Option<String>,
    pub(crate) call: String,
    pub(crate) address: String,
    pub(crate) reason: RefusalReason,
}

impl RefusedCall {
    /// As long as it may be.
    fn cut(self) -> Self {
        let cut = |text: String, most: usize| match text.char_indices().nth(most) {
            Some((end, _)) => text[..end].to_owned(),
            None => text,
        };
        Self {
            app: cut(self.app, APP_CHARS),
            person: self.person.map(|person| cut(person, PERSON_CHARS)),
            call: cut(self.call, CALL_CHARS),
            address: cut(self.address, ADDRESS_CHARS),
            reason: self.reason,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Sum {
    count: u32,
    first_at: Timestamp,
    last_at: Timestamp,
}

/// What was refused since it was reported last.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<RefusedCall, Sum>>);

impl Refusals {
    pub(crate) fn note(&self, call: RefusedCall, at: Timestamp) {
        self.sum(call.cut(), Sum { count: 1, first_at: at, last_at: at });
    }

    fn sum(&self, mut call: RefusedCall, more: Sum) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !sums.contains_key(&call) && sums.keys().filter(|known| known.call != OTHERS).count() >= KINDS {
            let (app, person, address) = Default::default();
            call = RefusedCall { app, person, call: OTHERS.to_owned(), address, reason: call.reason };
        }
        let sum = sums.entry(call).or_insert(Sum { count: 0, ..more });
        sum.count = sum.count.saturating_add(more.count);
        sum.first_at = sum.first_at.min(more.first_at);
        sum.last_at = sum.last_at.max(more.last_at);
    }

    /// What was taken and could not be reported; it goes with those of the next minute.
    pub(crate) fn give_back(&self, refusals: Vec<Refusal>) {
        for refusal in refusals {
            let Refusal { app, person, call, address, reason, count, first_at, last_at } = refusal;
            self.sum(RefusedCall { app, person, call, address, reason }, Sum { count, first_at, last_at });
        }
    }

    /// All of them, which are forgotten here.
    pub(crate) fn take(&self) -> Vec<Refusal> {
        let sums = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let refusal = |(call, sum): (RefusedCall, Sum)| {
            let (RefusedCall { app, person, call, address, reason }, Sum { count, first_at, last_at }) =
                (call, sum);
            Refusal { app, person, call, address, reason, count, first_at, last_at }
        };
        sums.into_iter().map(refusal).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(app: &str, reason: RefusalReason) -> RefusedCall {
        RefusedCall {
            app: app.to_owned(),
            person: None,
            call: "GET /api/jobs".to_owned(),
            address: "10.0.0.1".to_owned(),
            reason,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// API-9
    #[test]
    fn the_same_refusals_are_one_with_their_number_and_times() {
        let refusals = Refusals::default();
        for second in [1, 2, 9] {
            refusals.note(call("etl", RefusalReason::Unauthenticated), at(second));
        }
        refusals.note(call("etl", RefusalReason::Forbidden), at(3));
        let found = refusals.take();
        let told: Vec<_> = found.iter().map(|it| (it.reason, it.count, it.first_at, it.last_at)).collect();
        let expected =
            [(RefusalReason::Unauthenticated, 3, at(1), at(9)), (RefusalReason::Forbidden, 1, at(3), at(3))];
        assert_eq!(told, expected);
        assert!(refusals.take().is_empty());
    }

    /// API-9: however many there are, one command holds them, and none is lost.
    #[test]
    fn a_flood_is_summed_up() {
        let refusals = Refusals::default();
        for number in 0..10_000_u32 {
            let reason = REASONS[usize::from(number % 3 == 0)];
            refusals.note(call(&format!("app-{number}"), reason), at(number.into()));
        }
        refusals.note(call("app-1", RefusalReason::Unauthenticated), at(20_000));
        let found = refusals.take();
        assert_eq!(found.len(), bounds::REFUSALS);
        assert_eq!(found.iter().map(|it| it.count).sum::<u32>(), 10_001);
        let others = found.iter().filter(|it| it.call == OTHERS && it.app.is_empty());
        assert_eq!(others.map(|it| it.reason).collect::<Vec<_>>(), REASONS);
        assert!(found.iter().any(|it| it.app == "app-1" && it.count == 2));
    }

    /// API-9: what could not be reported goes with what came since, under the same bound.
    #[test]
    fn what_is_given_back_is_summed_up_with_the_rest() {
        let refusals = Refusals::default();
        refusals.note(call("etl", RefusalReason::Forbidden), at(1));
        refusals.note(call("etl", RefusalReason::Forbidden), at(2));
        let taken = refusals.take();
        refusals.note(call("etl", RefusalReason::Forbidden), at(5));
        refusals.give_back(taken);
        let found = refusals.take();
        let told: Vec<_> = found.iter().map(|it| (it.count, it.first_at, it.last_at)).collect();
        assert_eq!(told, [(3, at(1), at(5))]);
    }

    #[test]
    fn what_is_long_is_cut() {
        let refusals = Refusals::default();
        let long = "ü".repeat(500);
        let (app, person, address) = (long.clone(), Some(long.clone()), long.clone());
        let reason = RefusalReason::Forbidden;
        refusals.note(RefusedCall { app, person, call: long, address, reason }, at(1));
        let found = refusals.take().remove(0);
        let lengths = [&found.app, found.person.as_ref().unwrap(), &found.call, &found.address];
        assert_eq!(lengths.map(|text| text.chars().count()), [64, 128, 200, 64]);
    }
}
