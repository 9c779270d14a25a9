//! What batches wait for outside: things, overrides, the quality service, third parties and checks.

use tidemill_model::{BatchId, Event, Thing, ThingId};
use tidemill_store::rows::{
    BatchQualityRow, BatchThingRow, LateCheckRow, OverrideRow, ThingRow, ThirdPartyReportRow,
};

use super::batch::person;
use super::job::{json, number};
use super::{Caches, Place};

impl Caches {
    pub(super) fn apply_things(&mut self, at: Place, event: &Event) {
        match event {
            Event::ThingWaited { thing, what } => self.things.put(waited(at, *thing, what)),
            Event::ThingSatisfied { thing, generation } => self.things.change((thing.0,), |row| {
                row.satisfied = true;
                row.generation = number(*generation);
                row.satisfied_at = Some(at.now);
            }),
            Event::ThingWithdrawn { thing, generation, worker } => self.things.change((thing.0,), |row| {
                row.satisfied = false;
                row.generation = number(*generation);
                row.withdrawn_at = Some(at.now);
                row.withdrawn_by = worker.as_ref().map(|worker| worker.0.clone());
            }),
            Event::ThingsForgotten { things } => {
                for thing in things {
                    self.things.change((thing.0,), |row| row.forgotten_at = Some(at.now));
                }
            }
            Event::DependencyOverridden { .. } => self.overridden(at, event),
            Event::QualityRequested { batch, number: asked, again_at } => {
                self.batch_quality.change((batch.0,), |row| {
                    row.state = "requested".into();
                    row.asked = i64::from(*asked);
                    row.requested_at = Some(at.now);
                    row.again_at = Some(again_at.as_millisecond());
                });
            }
            Event::QualityTaken { batch, .. } => self.batch_quality.change((batch.0,), |row| {
                row.state = "sent".into();
                row.sent_at = Some(at.now);
            }),
            Event::QualityAnswered { batch, allowed, reason, by } => {
                self.batch_quality.change((batch.0,), |row| {
                    row.state = if *allowed { "allowed" } else { "refused" }.into();
                    row.again_at = None;
                    row.answered_at = Some(at.now);
                    row.answered_by = Some(person(by));
                    row.reason = reason.as_str().into();
                });
            }
            Event::ThirdPartyReported { report, by } => self.third_party_reports.put(ThirdPartyReportRow {
                code: report.code.clone(),
                logical_time: report.logical_time.as_millisecond(),
                ready: report.ready,
                reported_at: at.now,
                reported_by: person(by),
            }),
            Event::ChecksLate { report } => {
                let key = (report.authority.clone(), report.prober.clone());
                let since = self.late_checks.get(&key).map_or(at.now, |row| row.since);
                self.late_checks.put(LateCheckRow {
                    authority: key.0,
                    prober: key.1,
                    late_ms: number(report.late_ms),
                    failure: report.failure.as_str().into(),
                    since,
                    heard_at: at.now,
                });
            }
            Event::ChecksRecovered { prober, authority } => {
                self.late_checks.remove((authority.clone(), prober.clone()));
            }
            other => unreachable!("{} is not about things", other.kind()),
        }
    }

    /// What a new batch waits for besides parents.
    pub(super) fn await_things(&mut self, batch: BatchId, things: &[ThingId], quality_gate: bool) {
        for thing in things {
            self.batch_things.put(BatchThingRow {
                batch_id: batch.0,
                thing_id: thing.0,
                overridden_at: None,
            });
        }
        if quality_gate {
            self.batch_quality.put(BatchQualityRow {
                batch_id: batch.0,
                state: "waiting".into(),
                asked: 0,
                requested_at: None,
                sent_at: None,
                again_at: None,
                answered_at: None,
                answered_by: None,
                reason: "".into(),
            });
        }
    }

    fn overridden(&mut self, at: Place, event: &Event) {
        let Event::DependencyOverridden {
            batch,
            things,
            parents,
            counted_parents,
            quality,
            unmet,
            by,
            reason,
        } = event
        else {
            unreachable!("called for that event only")
        };
        self.overrides.put(OverrideRow {
            partition_no: at.partition,
            journal_offset: at.offset,
            event_index: at.index,
            batch_id: batch.0,
            things: json(things),
            parents: json(parents),
            counted_parents: *counted_parents,
            quality: *quality,
            overridden_by: person(by),
            reason: reason.as_str().into(),
            overridden_at: at.now,
        });
        for thing in things {
            self.batch_things.put(BatchThingRow {
                batch_id: batch.0,
                thing_id: thing.0,
                overridden_at: Some(at.now),
            });
        }
        if !parents.is_empty() || *counted_parents {
            self.batches.change((batch.0,), |row| {
                row.unmet = i64::from(*unmet);
                row.ready_at = (*unmet == 0).then_some(at.now);
            });
        }
        if *quality {
            self.batch_quality.change((batch.0,), |row| {
                row.state = "overridden".into();
                row.again_at = None;
            });
        }
    }
}

fn waited(at: Place, id: ThingId, what: &Thing) -> ThingRow {
    let row = ThingRow {
        id: id.0,
        kind: "path".into(),
        path: None,
        mark: None,
        code: None,
        logical_time: None,
        satisfied: false,
        generation: 1,
        waited_at: at.now,
        satisfied_at: None,
        withdrawn_at: None,
        withdrawn_by: None,
        forgotten_at: None,
    };
    match what {
        Thing::Path { path, mark } => ThingRow { path: Some(path.clone()), mark: mark.clone(), ..row },
        Thing::ThirdParty { code, logical_time } => ThingRow {
            kind: "third_party".into(),
            code: Some(code.clone()),
            logical_time: Some(logical_time.as_millisecond()),
            ..row
        },
    }
}
