//! Histories with a bug in them, and who notices: the checker, over what the history left on record, or those
//! who look from outside. Assertions and panics of the product do not count.
//!
//! What is expected of each is here in every build; the bugs themselves are in the product with the feature only.

mod expected;
#[cfg(feature = "planted")]
mod judge;
#[cfg(feature = "planted")]
mod projected;

pub use expected::{EXPECTED, Expected, Stage};
#[cfg(feature = "planted")]
pub use judge::{Verdict, judge, plant};

/// What is seen from outside, where a bug leaves no trace on record: the beginning of what the simulator says,
/// the rule's name.
const SEEN_FROM_OUTSIDE: &[(&str, &str, &str)] = &[
    ("two live processes of batch", "one_process_per_batch", "No batch ever has two live processes."),
    ("two live runs of job", "one_process_per_run", "No logical time of a job ever has two live processes."),
    (
        "after its end is on record",
        "nothing_runs_after_its_end",
        "Nothing of an attempt runs once its end is on record.",
    ),
    (
        "taken back as not begun",
        "taken_back_is_not_begun",
        "No process begins of what is taken back, or ended, as not begun.",
    ),
    (
        "its start is not on record",
        "begun_is_on_record",
        "At quiescence, the start of each process that began is on record.",
    ),
    (
        "started elsewhere runs when",
        "earlier_external_work_has_ended",
        "No process of an attempt begins while external work of an earlier attempt of its batch runs.",
    ),
    ("was answered", "answers_agree", "Everybody is answered what is on record, once."),
    (
        "is not the fold up to its record",
        "snapshot_is_the_fold",
        "A snapshot is the fold of its journal up to its record.",
    ),
    ("begins with another state", "state_is_the_fold", "An owner's state is the fold of its journal."),
    ("holds another state", "state_is_the_fold", "An owner's state is the fold of its journal."),
    (
        "the tables are not the fold",
        "projection_is_the_fold",
        "The read tables are the fold of the journal at their position, whatever broke off a write.",
    ),
    (
        "a power cut",
        "told_outlives_power_cut",
        "What was told of the embedded log is in it after a power cut, with all that it rests on.",
    ),
];

/// The sentence of a rule, whoever watches it.
#[must_use]
pub fn sentence(rule: &str) -> Option<String> {
    let checked = tidemill_checker::Invariant::ALL.iter().find(|known| known.name() == rule);
    let seen = SEEN_FROM_OUTSIDE.iter().find(|(_, name, _)| *name == rule);
    checked.map(|known| known.sentence().to_owned()).or(seen.map(|(_, _, sentence)| (*sentence).to_owned()))
}

/// Whether the checker watches this rule; else the simulator does.
#[must_use]
pub fn is_checked(rule: &str) -> bool {
    tidemill_checker::Invariant::ALL.iter().any(|known| known.name() == rule)
}
