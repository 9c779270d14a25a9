//! Every fact of a journal, read as every reader has to: through the chain.

#![allow(dead_code, reason = "each suite uses some of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use tidemill_journal::{Journal, Start};
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
        let mut reached = 0;
        while reached + 1 < end {
            // Where the rest does not count, there is nothing more.
            let Some(entry) = journal.next(Duration::from_secs(1)).unwrap() else { break };
            reached = entry.offset;
            for (index, recorded) in entry.envelope.events.into_iter().enumerate() {
                let source = format!("tidemill/{}/{partition}", log.log_id());
                let name = (source, format!("{}-{index}", entry.offset));
                facts.push(Fact { name, at: entry.envelope.now, event: recorded.event });
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
