//! One partition: its chain, its time, its commands, its shards.

mod envelope;
mod level;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_log::{Frame, Kind};
use tidemill_model::{
    Answer, ApplyEvent, BatchEvent, CatalogueEvent, Cause, CommandRecord, DeletionEvent, Envelope, Event,
    JobEvent, Json as _, Level, Outcome, PartitionEvent, PermitEvent, PermitReport, Recorded, RequestId,
    ScheduleEvent, ShardId, Source, Timestamp, TransferEvent,
};

use self::envelope::{
    causes_cover_events, decision_bounded, now_not_ahead_of_the_log, refused_changes_nothing,
};
use crate::Invariant;
use crate::commands::{Commands, Loss};
use crate::effects::Effects;
use crate::findings::{Asked, At, Findings, PartitionSummary};
use crate::link::Link;
use crate::messages::{Messages, PERMITS};
use crate::places::Places;
use crate::requests::{Requests, fingerprint};
use crate::shard::{Bounds, Shard};
use crate::snapshots::CountingRecords;

/// A record of a journal as it is given.
#[derive(Clone, Copy)]
pub(crate) struct Pushed<'a> {
    pub(crate) offset: u64,
    pub(crate) taken_ms: Option<i64>,
    pub(crate) bytes: &'a [u8],
    /// The envelope in it, where the giver has it.
    pub(crate) decoded: Option<&'a Envelope>,
}

pub(crate) struct Shared<'a> {
    pub(crate) found: &'a Findings,
    pub(crate) messages: &'a mut Messages,
    pub(crate) places: &'a mut Places,
    pub(crate) effects: &'a mut Effects,
}

#[derive(Debug, Default)]
pub(crate) struct Partition {
    id: u32,
    bounds: Bounds,
    pub(crate) link: Link,
    counting: CountingRecords,
    records: u64,
    next_offset: u64,
    /// The level that stands.
    level: Level,
    /// The last envelope's time, and its offset.
    now: Option<(Timestamp, u64)>,
    pub(crate) commands: Commands,
    requests: Requests,
    shards: BTreeMap<ShardId, Shard>,
    /// The generation and the counter that the last restore names.
    restored: (u64, u64),
    /// A fault in the chain hides what follows it: what holds at rest is not asked then.
    pub(crate) broken: bool,
}

/// No id is minted from a counter as high as this.
const MOST_MINTED: u64 = 1 << 51;

impl Partition {
    pub(crate) fn new(id: u32, bounds: Bounds) -> Self {
        Self { id, bounds, ..Self::default() }
    }

    pub(crate) fn push(&mut self, record: Pushed<'_>, shared: &mut Shared<'_>) {
        let offset = record.offset;
        self.records += 1;
        self.offsets_dense(shared.found, offset);
        match self.link.judge(self.id, offset, record.bytes) {
            Ok(frame) => {
                self.counting.counts(offset, self.link.head());
                self.frame(&record, &frame, shared);
            }
            Err((void, fault)) => {
                shared.found.void(self.id, offset, void);
                if let Some((rule, why)) = fault {
                    self.broken = true;
                    let last = self.link.offset();
                    self.at(shared.found, offset).contradicts(rule, why, last.as_slice());
                }
            }
        }
    }

    /// `offsets_dense`
    fn offsets_dense(&mut self, found: &Findings, offset: u64) {
        if offset != self.next_offset {
            self.broken = true;
            let why = match self.next_offset {
                0 => format!("the journal begins at {offset}, what was before is gone"),
                next => format!("offset {offset} stands where {next} should"),
            };
            self.at(found, offset).breaks(Invariant::OffsetsDense, why);
        }
        self.next_offset = self.next_offset.max(offset.saturating_add(1));
    }

    fn at<'a>(&self, found: &'a Findings, offset: u64) -> At<'a> {
        let now = self.now.map_or(Timestamp::UNIX_EPOCH, |(now, _)| now);
        At::record(found, self.id, offset, now)
    }

    fn frame(&mut self, record: &Pushed<'_>, frame: &Frame, shared: &mut Shared<'_>) {
        let Pushed { offset, taken_ms, decoded, .. } = *record;
        self.packed_since_its_level(&self.at(shared.found, offset), frame);
        match (frame.kind, decoded) {
            (Kind::Genesis | Kind::Claim | Kind::Resigned | Kind::Stopped, _) => {}
            (Kind::Envelope, Some(envelope)) => self.envelope(offset, taken_ms, envelope, shared),
            (Kind::Envelope, None) => match Envelope::from_json(&frame.body) {
                Ok(envelope) => self.envelope(offset, taken_ms, &envelope, shared),
                Err(error) => {
                    self.broken = true;
                    let why = format!("the envelope cannot be read: {error}");
                    self.at(shared.found, offset).breaks(Invariant::EnvelopesBounded, why);
                }
            },
        }
    }

    fn envelope(&mut self, offset: u64, taken_ms: Option<i64>, envelope: &Envelope, shared: &mut Shared<'_>) {
        let at = At { level: self.level, ..At::record(shared.found, self.id, offset, envelope.now) };
        {
            let report = &mut *at.found.report.borrow_mut();
            report.envelopes += 1;
            report.events += envelope.events.len() as u64;
        }
        self.nothing_above_the_level(&at, envelope);
        self.counting.are_named(&at, offset, envelope);
        self.now_never_goes_back(&at);
        now_not_ahead_of_the_log(&at, taken_ms, self.bounds.tolerance);
        if let Some(loss) = Loss::of(envelope) {
            self.commands.lose(&at, envelope, loss);
        }
        self.commands.resume_point_moves_forward(&at, envelope);
        self.commands.every_command_decided_once(&at, envelope);
        let covered = causes_cover_events(&at, envelope);
        self.requests.pass(at.now);
        let mut next = 0;
        for cause in &envelope.causes {
            let count = usize::try_from(cause.events).unwrap_or(usize::MAX);
            let end = if covered { next + count } else { next };
            self.cause(&at, envelope, cause, next..end, shared);
            next = end;
        }
        if !covered {
            self.events(&at, envelope, Asked::Unknown, 0..envelope.events.len(), shared);
        }
        for shard in self.shards.values_mut() {
            shard.settle(&at);
        }
        self.commands.cover(envelope, offset);
        self.now = Some((envelope.now, offset));
        let set = envelope.events.iter().rev().find_map(|recorded| match &recorded.event {
            Event::Partition(PartitionEvent::ClockSet { now }) => Some(*now),
            _ => None,
        });
        if let Some(now) = set {
            self.now = Some((now, offset));
        }
    }

    /// `now_never_goes_back`
    fn now_never_goes_back(&self, at: &At<'_>) {
        if let Some((before, said)) = self.now.filter(|(before, _)| at.now < *before) {
            let why = format!("the envelope's time is {}, after {before}", at.now);
            at.contradicts(Invariant::NowNeverGoesBack, why, &[said]);
        }
    }

    fn cause(
        &mut self,
        at: &At<'_>,
        envelope: &Envelope,
        cause: &Cause,
        events: std::ops::Range<usize>,
        shared: &mut Shared<'_>,
    ) {
        refused_changes_nothing(at, cause, &envelope.events[events.clone()]);
        crate::depth::outcome(at, &cause.outcome);
        let record = match &cause.source {
            Source::Command { offset, request, .. } => {
                if let Some(request) = request {
                    let command = self.commands.record(*offset).map(|record| &record.command);
                    if crate::requests::is_kept(command, &cause.outcome) {
                        self.requests.one_outcome_per_request(at, request, &cause.outcome);
                    }
                    shared.effects.decided(at, request, &cause.outcome);
                }
                if let Some(record) = self.commands.record(*offset)
                    && let Some(shard) = self.shards.get(&record.shard)
                {
                    shard.mark_accepted(at, &record.command, &cause.outcome);
                }
                decision_bounded(at, &envelope.events[events.clone()]);
                Some(self.commands.record(*offset).map(Arc::clone))
            }
            Source::Timer | Source::Observed => None,
        };
        if cause.source == Source::Timer {
            self.timers(at, envelope, events.clone());
        }
        let asked = record.as_ref().map_or(Asked::Owner, |record| Asked::Command(record.as_deref()));
        self.events(at, envelope, asked, events.clone(), shared);
        if let Some(Some(record)) = &record {
            self.pulls_answered(at, record, (&cause.outcome, &envelope.events[events]));
        }
    }

    /// `pulls_answered_as_on_record`
    fn pulls_answered(
        &self,
        at: &At<'_>,
        record: &CommandRecord,
        (outcome, events): (&Outcome, &[Recorded]),
    ) {
        let at = At { asked: Asked::Command(Some(record)), ..*at };
        if let Some(shard) = self.shards.get(&record.shard) {
            shard.pulls_answered_as_on_record(&at, outcome, events);
        }
    }

    /// Asks of every event of a timer when it was due. Only the first one of an entity in an envelope is
    /// asked; later ones follow from it.
    fn timers(&self, at: &At<'_>, envelope: &Envelope, events: std::ops::Range<usize>) {
        let covered = envelope.resume.as_ref().map(|resume| resume.offset);
        for index in events {
            let Recorded { shard, event } = &envelope.events[index];
            let Some(shard) = self.shards.get(shard) else { continue };
            let due = match event {
                Event::Batch(BatchEvent::Generated {
                    job, origin: tidemill_model::Origin::Schedule, ..
                })
                | Event::Schedule(ScheduleEvent::Skipped { job, .. }) => shard.fire_due(*job),
                _ => shard.timer_due(event),
            };
            if let Some(due) = due {
                let at = At { index: u32::try_from(index).ok(), recorded: envelope.events.get(index), ..*at };
                let tolerance = self.bounds.tolerance;
                self.commands.timers_never_overtake_commands(&at, due, covered, tolerance);
            }
        }
    }

    fn events(
        &mut self,
        at: &At<'_>,
        envelope: &Envelope,
        asked: Asked<'_>,
        events: std::ops::Range<usize>,
        shared: &mut Shared<'_>,
    ) {
        let end = events.end;
        for index in events {
            let recorded = &envelope.events[index];
            let at = At { index: u32::try_from(index).ok(), recorded: Some(recorded), asked, ..*at };
            self.shards_stay_in_their_partition(&at, recorded.shard);
            self.between_shards(&at, recorded, envelope.events[..end].get(index + 1), shared);
            crate::depth::event(&at, &recorded.event);
            shared.effects.event(&recorded.event);
            shared.places.event(&at, recorded.shard, &recorded.event);
            if let Some((request, outcome)) = late_outcome(&recorded.event) {
                shared.effects.decided(&at, request, &outcome);
            }
            if let Event::Partition(PartitionEvent::Restored { generation, ids_above, .. }) = recorded.event {
                self.log_restored(&at, (generation, ids_above));
            }
            let (bounds, (_, ids_above)) = (self.bounds, self.restored);
            let new = || Shard::new(recorded.shard, bounds, ids_above);
            let shard = self.shards.entry(recorded.shard).or_insert_with(new);
            let ended = shard.ends(&recorded.event);
            shard.event(&at, recorded);
            shared.messages.foreign.event(&at, recorded, ended, shard);
            if let Event::Partition(
                PartitionEvent::CommandDeadLettered { .. } | PartitionEvent::CommandLossAccepted { .. },
            ) = recorded.event
            {
                self.shards.values_mut().for_each(Shard::hold_rights);
            }
        }
    }

    /// `minted_ids_grow`: from one life of the log to the next, too.
    fn log_restored(&mut self, at: &At<'_>, restored: (u64, u64)) {
        let before = std::mem::replace(&mut self.restored, restored);
        if restored.0 <= before.0 || restored.1 < before.1 {
            let why = format!("generation {} mints above {}, after {before:?}", restored.0, restored.1);
            at.breaks(Invariant::MintedIdsGrow, why);
        }
        if restored.1 >= MOST_MINTED {
            let why = format!("generation {} mints above {}, where no ids are left", restored.0, restored.1);
            return at.breaks(Invariant::MintedIdsGrow, why);
        }
        for shard in self.shards.values_mut() {
            shard.mints_above(restored.1);
            shard.holds_all(at);
        }
    }

    fn between_shards(
        &self,
        at: &At<'_>,
        recorded: &Recorded,
        fact: Option<&Recorded>,
        shared: &mut Shared<'_>,
    ) {
        let shard = recorded.shard;
        match &recorded.event {
            Event::Partition(PartitionEvent::MessageReceived { from, number }) => {
                let fact = fact.filter(|fact| {
                    !matches!(fact.event, Event::Partition(PartitionEvent::MessageReceived { .. }))
                });
                shared.messages.received(at, shard, (*from, *number), fact);
            }
            Event::Partition(PartitionEvent::OutboxAcknowledged { to, upto }) => {
                shared.messages.acknowledged(at, shard, (*to, *upto));
            }
            Event::Permit(PermitEvent::Reported { report }) => {
                shared.messages.permits.told(at, PERMITS, shard, of_report(report));
            }
            Event::Permit(PermitEvent::ReportReceived { from, report }) => {
                shared.messages.permits.heard(at, PERMITS, *from, of_report(report));
            }
            event @ Event::Transfer(
                TransferEvent::UserDetached { .. } | TransferEvent::UserDetachRejected { .. },
            ) => {
                shared.messages.user_groups.told(at, shard, event);
            }
            event @ Event::Transfer(
                TransferEvent::JobDetached { .. } | TransferEvent::JobDetachRejected { .. },
            ) => {
                shared.messages.moves.told(at, shard, event);
            }
            event if shard == ShardId::CATALOGUE => shared.messages.sends(at, event),
            _ => {}
        }
    }

    /// `shards_stay_in_their_partition`
    fn shards_stay_in_their_partition(&self, at: &At<'_>, shard: ShardId) {
        if let Some(home) =
            self.link.count.map(|count| shard.partition(count)).filter(|home| *home != self.id)
        {
            let why = format!("an event of shard {shard}, whose partition is {home}");
            at.breaks(Invariant::ShardsStayInTheirPartition, why);
        }
    }

    /// What holds once nothing is on its way any more.
    pub(crate) fn at_rest(&self, found: &Findings) {
        let Some((_, offset)) = self.now.filter(|_| !self.broken) else { return };
        let at = self.at(found, offset);
        self.commands.at_rest(&at);
        for shard in self.shards.values() {
            shard.at_rest(&at);
        }
    }

    pub(crate) fn summary(&self) -> PartitionSummary {
        let (epoch, seq, hash) = self.link.head();
        let (partition, records, offset) = (self.id, self.records, self.link.offset());
        PartitionSummary { partition, records, offset, epoch, seq, hash }
    }
}

fn of_report(report: &PermitReport) -> u64 {
    fingerprint(&serde_json::to_string(report).ok())
}

/// Who waits for the end of something that takes several envelopes, and what it hears.
fn late_outcome(event: &Event) -> Option<(&RequestId, Outcome)> {
    match event {
        Event::Deletion(DeletionEvent::Decided { request, outcome, .. }) => {
            Some((request.as_ref()?, outcome.clone()))
        }
        Event::Apply(ApplyEvent::Finished { request, .. })
        | Event::Catalogue(CatalogueEvent::UserMoved { request, .. })
        | Event::Job(JobEvent::Moved { request, .. }) => {
            Some((request.as_ref()?, Outcome::Answered(Answer::Done)))
        }
        Event::Catalogue(CatalogueEvent::UserMoveRejected { request, reason, .. })
        | Event::Job(JobEvent::MoveRejected { request, reason, .. }) => {
            Some((request.as_ref()?, Outcome::Refused(reason.clone())))
        }
        _ => None,
    }
}
