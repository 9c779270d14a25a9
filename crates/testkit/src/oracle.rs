//! The journal as it stands, folded anew by the simulator: what owners are compared with.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_engine::{FaultInjection, Partition};
use tidemill_log::{Chain, Kind, Payload, Verdict};
use tidemill_model::{AttemptEvent, BatchEvent, BatchResult, Envelope, Event, Json as _, ReplicationEvent};

use crate::coverage::Stats;

/// One partition's journal.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) chain: Chain,
    pub(crate) state: Partition,
    /// The envelope of each record that counts and is one, by offset.
    pub(crate) envelopes: BTreeMap<u64, Arc<Envelope>>,
}

impl Oracle {
    pub(crate) fn new(partition: u32, count: u32, fault_injection: FaultInjection) -> Self {
        let state = Partition::new(partition, count).fault_injected(fault_injection);
        Self { chain: Chain::new(), state, envelopes: BTreeMap::new() }
    }

    /// A record has landed. Gives the envelope, if it counts and is one.
    pub(crate) fn land(&mut self, offset: u64, value: &Payload, stats: &mut Stats) -> Option<Arc<Envelope>> {
        match self.chain.accept(offset, value) {
            Verdict::Accepted(header) if header.kind == Kind::Envelope => {
                // From the bytes, whatever the owner thinks that it wrote.
                let envelope = Arc::new(Envelope::from_json(&value.body()).expect("an owner wrote it"));
                let known = value.decoded(Envelope::from_json).expect("an owner wrote it");
                assert_eq!(known, envelope, "an owner's own reading of its record is what others make of it");
                self.state.apply(&envelope);
                self.envelopes.insert(offset, Arc::clone(&envelope));
                Some(envelope)
            }
            Verdict::Accepted(_) => None,
            Verdict::Void(reason) => {
                stats.add("void", reason_name(reason));
                None
            }
        }
    }
}

/// What kinds alone do not tell: marks of what was evicted (GEN-10), times that parents skipped while a batch waited (DEP-3), batches that ended for their parents (BYD-18), values passed on, heard in another
/// group and missed (BYD-20), and other templates that could not be resolved.
pub(crate) fn condition_of(event: &Event) -> Option<&'static str> {
    match event {
        Event::Batch(BatchEvent::ResultOverridden { run: Some(_), .. }) => Some("evicted_marked"),
        Event::Batch(BatchEvent::Finished { result, message, .. }) => match result {
            BatchResult::Failed if message.starts_with("its parent") => Some("failed_for_parent"),
            BatchResult::Skipped if message.starts_with("its parent") => Some("skipped_for_parent"),
            BatchResult::Skipped if message.starts_with("it runs only") => Some("skipped_for_success"),
            BatchResult::Failed if message.contains("${values.") => Some("value_missing"),
            BatchResult::Failed if message.contains("${param.") => Some("failed_at_start"),
            _ => None,
        },
        Event::Batch(BatchEvent::DependencySatisfied { left_out: true, .. }) => {
            Some("left_out_while_waiting")
        }
        Event::Attempt(AttemptEvent::Finished { outcome, .. }) if !outcome.values.is_empty() => {
            Some("values_passed")
        }
        Event::Replication(ReplicationEvent::ParentStatusUpdated { standings, .. })
            if standings.iter().any(|it| !it.values.is_empty()) =>
        {
            Some("values_heard")
        }
        _ => None,
    }
}

fn reason_name(reason: tidemill_log::VoidReason) -> &'static str {
    use tidemill_log::VoidReason;
    match reason {
        VoidReason::Garbled => "garbled",
        VoidReason::BeforeGenesis => "before_genesis",
        VoidReason::SecondGenesis => "second_genesis",
        VoidReason::WrongEpoch => "wrong_epoch",
        VoidReason::WrongPrev => "wrong_prev",
        VoidReason::WrongSeq => "wrong_seq",
        VoidReason::NoOwner => "no_owner",
    }
}
