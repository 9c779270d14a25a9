//! Every fact of a journal, read as every reader has to: through the chain.

#![allow(dead_code, reason = "each suite uses some of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_journal::{Entry, Journal, Start};
use tidemill_log::{Readers, Topic};
use tidemill_model::{Event, EventKind, Timestamp};

/// A fact.
pub(crate) struct Fact {
    /// As CloudEvents has it: `source` and `id`.
    pub(crate) name: (String, String),
    /// When its owner decided it.
    pub(crate) at: Timestamp,
    pub(crate) event: Event,
}

/// All facts that the journals have now.
pub(crate) fn facts(log: &dyn Readers) -> Vec<Fact> {
    let mut facts = Vec::new();
    for partition in 0..log.partitions(Topic::Journal) {
        let end = log.range(Topic::Journal, partition).unwrap().end;
        let mut journal = Journal::open(log, partition, "the test", Start::Beginning).unwrap();
        let mut next = 0;
        while next < end {
            let read = journal.poll(1_000, Duration::from_secs(30)).unwrap();
            next = read.last.expect("what the journal has can be read") + 1;
            for Entry { offset, envelope, .. } in read.entries {
                let at = envelope.now;
                for (index, recorded) in Arc::unwrap_or_clone(envelope).events.into_iter().enumerate() {
                    let source = format!("tidemill/{}/{partition}", log.log_id());
                    let name = (source, format!("{offset}-{index}"));
                    facts.push(Fact { name, at, event: recorded.event });
                }
            }
        }
    }
    facts
}

/// The kinds of the public ones, by name, and the names of the internal kinds among them.
pub(crate) fn public_and_internal(
    facts: &[Fact],
) -> (BTreeMap<(String, String), &'static str>, Vec<&'static str>) {
    let (mut public, mut internal) = (BTreeMap::new(), Vec::new());
    for fact in facts {
        let kind = fact.event.of_kind();
        match kind.sentence() {
            Some(_) => drop(public.insert(fact.name.clone(), kind.name)),
            None => internal.push(kind.name),
        }
    }
    (public, internal)
}

/// Whether the feed has events of this CloudEvents type.
pub(crate) fn is_public(event_type: &str) -> bool {
    EventKind::public().any(|kind| format!("tidemill.{}.v1", kind.name) == event_type)
}
