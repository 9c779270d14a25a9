//! What has to come up: a kind of event, rejection or fault that is in less than 1 % of the histories is not
//! tested, whatever their number.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use tidemill_model::EventKind;

use crate::plan::Fault;

/// What only the mode `restored` and the tests of the engine have.
const OF_RESTORES: &[Counted] = &[
    ("event", "log.restored"),
    ("event", "worker.end_vouched"),
    ("event", "worker.strays_found"),
    ("event", "worker.stray_kill_requested"),
    ("event", "worker.stray_ended"),
    ("event", "attempt.adopted"),
];

/// What truly cannot come up, and why.
const NEVER: &[(Counted, &str)] = &[(
    ("event", "command_loss.accepted"),
    "a person's act on a live log, with that log's clock; the dispatcher's tests do it on every back end",
)];

const REJECTIONS: &[&str] = &[
    "invalid",
    "cycle",
    "unknown",
    "batch_already_finished",
    "batch_unfinished",
    "not_waited_for",
    "job_unfinished",
    "job_in_use",
    "job_not_moved",
    "job_moving",
    "calendar_in_use",
    "pool_in_use",
    "user_unknown",
    "user_elsewhere",
    "user_moving",
    "grant_live",
    "grant_over",
    "already_completed",
    "not_returned",
    "task_deleted",
    "job_disabled",
    "stale_token",
    "bad_registration",
    "out_of_order",
    "wrong_shard",
    "limit_reached",
    "already_there",
    "apply_running",
    "idempotency_key_reused",
    "revision_changed",
    "plan_outdated",
    "rerun_not_ready",
    "too_old",
    "dead_lettered",
];

/// What several faults add up to, or how the cluster is.
const CONDITIONS: &[&str] = &[
    "late_worker",
    "shim_outlives_worker",
    "attempt_taken_over",
    "two_owners",
    "owner_too_old",
    "left_out_while_waiting",
    "failed_for_parent",
    "skipped_for_parent",
    "skipped_for_success",
    "values_passed",
    "values_heard",
    "value_missing",
    "failed_at_start",
    "pulled_again",
    "completed_again",
    "nothing_due",
    "moved_with_tasks",
    "moved_with_history",
];

/// What the chain is for.
const VOIDS: &[&str] = &["wrong_epoch"];

/// In how many histories something happened, and how often in all.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    histories: u64,
    seen: BTreeMap<Counted, (u64, u64)>,
}

impl Coverage {
    /// One more history.
    pub fn add(&mut self, stats: &Stats) {
        self.histories += 1;
        for (what, times) in stats.iter() {
            let seen = self.seen.entry(what).or_default();
            *seen = (seen.0 + 1, seen.1 + times);
        }
    }

    /// Those of another.
    pub fn merge(&mut self, other: &Coverage) {
        self.histories += other.histories;
        for (what, (histories, times)) in &other.seen {
            let seen = self.seen.entry(*what).or_default();
            *seen = (seen.0 + histories, seen.1 + times);
        }
    }

    /// What must come up and is in less than 1 % of the histories, by more than chance: three standard deviations.
    #[must_use]
    pub fn rare(&self) -> Vec<Counted> {
        let of = |class, names: &'static [&'static str]| names.iter().map(move |name| (class, *name));
        let faults = Fault::ALL.iter().map(|(_, name)| ("fault", *name));
        let events = EventKind::all().map(|kind| ("event", kind.name));
        let wanted = events
            .chain(of("rejection", REJECTIONS))
            .chain(of("condition", CONDITIONS))
            .chain(of("void", VOIDS))
            .chain(faults);
        let never =
            |what: &Counted| NEVER.iter().any(|(never, _)| never == what) || OF_RESTORES.contains(what);
        let seen = |what: &Counted| self.seen.get(what).map_or(0, |(histories, _)| *histories);
        let wanted_in = self.histories as f64 / 100.0;
        let least = wanted_in - 3.0 * wanted_in.sqrt();
        wanted.filter(|what| !never(what) && (seen(what) as f64) < least).collect()
    }

    /// What happened that is said never to.
    #[must_use]
    pub fn surprising(&self) -> Vec<Counted> {
        NEVER.iter().map(|(what, _)| *what).filter(|what| self.seen.contains_key(what)).collect()
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for ((class, name), (histories, times)) in &self.seen {
            let percent = *histories as f64 * 100.0 / self.histories.max(1) as f64;
            writeln!(f, "  {class:<10} {name:<32} {percent:>6.1} %  {times:>9}")?;
        }
        for ((class, name), why) in NEVER {
            writeln!(f, "  {class:<10} {name:<32}  never: {why}")?;
        }
        Ok(())
    }
}

/// Something that is counted: its class and its name.
pub type Counted = (&'static str, &'static str);

/// How often what happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    counts: FxHashMap<Counted, u64>,
}

impl Stats {
    pub(crate) fn add(&mut self, class: &'static str, name: &'static str) {
        *self.counts.entry((class, name)).or_default() += 1;
    }

    /// How often this happened.
    #[must_use]
    pub fn get(&self, class: &'static str, name: &'static str) -> u64 {
        self.counts.get(&(class, name)).copied().unwrap_or(0)
    }

    /// All of it, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Counted, u64)> + '_ {
        self.counts.iter().map(|(what, count)| (*what, *count))
    }

    /// How often anything of this class happened.
    #[must_use]
    pub fn of_class(&self, class: &str) -> u64 {
        self.counts.iter().filter(|((of, _), _)| *of == class).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in 1 % of all histories is in a few less of some thousands by chance; what is in half as many is rare.
    #[test]
    fn rare_is_what_is_in_less_than_one_percent_by_more_than_chance() {
        let is_rare = |seen: u64| {
            let mut coverage = Coverage { histories: 3_000, ..Coverage::default() };
            coverage.seen.insert(("event", "timer.suspended"), (seen, seen));
            coverage.rare().contains(&("event", "timer.suspended"))
        };
        assert_eq!([0, 13, 14, 30].map(is_rare), [true, true, false, false]);
    }
}
