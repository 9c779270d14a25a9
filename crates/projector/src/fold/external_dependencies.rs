//! What batches wait for outside: external dependencies, overrides, the quality service, third parties and checks.

use tidemill_model::{BatchEvent, BatchId, ExternalDependency, ExternalDependencyId, ObservationEvent};
use tidemill_store::rows::{
    BatchExternalDependencyRow, BatchQualityRow, ExternalDependencyRow, LateProbeRow, OverrideRow,
    ThirdPartyReportRow,
};

use super::batch::person;
use super::job::{json, number};
use super::{Caches, Place};

impl Caches {
    pub(super) fn need_observation(&mut self, event: &ObservationEvent) {
        match event {
            ObservationEvent::ExternalDependencyRegistered { external_dependency, .. } => {
                self.external_dependencies.expect_new((external_dependency.0,))
            }
            ObservationEvent::ExternalDependencySatisfied { external_dependency, .. }
            | ObservationEvent::ExternalDependencyRevoked { external_dependency, .. } => {
                self.external_dependencies.need((external_dependency.0,));
            }
            ObservationEvent::ExternalDependenciesEvicted { external_dependencies } => external_dependencies
                .iter()
                .for_each(|external_dependency| self.external_dependencies.need((external_dependency.0,))),
            ObservationEvent::ProbesLate { report } => {
                self.late_probes.need((report.authority.clone(), report.prober.clone()));
            }
            ObservationEvent::ProbesRequested { .. }
            | ObservationEvent::ThirdPartyReported { .. }
            | ObservationEvent::ThirdPartyEvicted { .. }
            | ObservationEvent::ProbesRecovered { .. } => {}
        }
    }

    pub(super) fn apply_observation(&mut self, at: Place, event: &ObservationEvent) {
        match event {
            ObservationEvent::ExternalDependencyRegistered { external_dependency, what } => {
                self.external_dependencies.put(waited(at, *external_dependency, what))
            }
            ObservationEvent::ExternalDependencySatisfied { external_dependency, generation } => {
                self.external_dependencies.change((external_dependency.0,), |row| {
                    row.satisfied = true;
                    row.generation = number(*generation);
                    row.satisfied_at = Some(at.now);
                })
            }
            ObservationEvent::ExternalDependencyRevoked { external_dependency, generation, worker } => {
                self.external_dependencies.change((external_dependency.0,), |row| {
                    row.satisfied = false;
                    row.generation = number(*generation);
                    row.revoked_at = Some(at.now);
                    row.revoked_by = worker.as_ref().map(|worker| worker.0.clone());
                })
            }
            ObservationEvent::ExternalDependenciesEvicted { external_dependencies } => {
                for external_dependency in external_dependencies {
                    self.external_dependencies
                        .change((external_dependency.0,), |row| row.evicted_at = Some(at.now));
                }
            }
            ObservationEvent::ThirdPartyReported { report, by } => {
                self.third_party_reports.put(ThirdPartyReportRow {
                    code: report.code.clone(),
                    logical_time: report.logical_time.as_millisecond(),
                    ready: report.ready,
                    reported_at: at.now,
                    reported_by: person(by),
                })
            }
            ObservationEvent::ProbesLate { report } => {
                let key = (report.authority.clone(), report.prober.clone());
                let since = self.late_probes.get(&key).map_or(at.now, |row| row.since);
                self.late_probes.put(LateProbeRow {
                    authority: key.0,
                    prober: key.1,
                    late_ms: number(report.late_ms),
                    failure: report.failure.as_str().into(),
                    since,
                    reported_at: at.now,
                });
            }
            ObservationEvent::ProbesRecovered { prober, authority } => {
                self.late_probes.remove((authority.clone(), prober.clone()));
            }
            // No table shows these.
            ObservationEvent::ProbesRequested { .. } | ObservationEvent::ThirdPartyEvicted { .. } => {}
        }
    }

    /// What a new batch waits for besides parents.
    pub(super) fn await_external_dependencies(
        &mut self,
        batch: BatchId,
        external_dependencies: &[ExternalDependencyId],
        quality_gate: bool,
    ) {
        for external_dependency in external_dependencies {
            self.batch_external_dependencies.put(BatchExternalDependencyRow {
                batch_id: batch.0,
                external_dependency_id: external_dependency.0,
                overridden_at: None,
            });
        }
        if quality_gate {
            self.batch_quality.put(BatchQualityRow {
                batch_id: batch.0,
                state: "waiting".into(),
                ..BatchQualityRow::default()
            });
        }
    }

    pub(super) fn overridden(&mut self, at: Place, event: &BatchEvent) {
        let BatchEvent::DependencyOverridden {
            batch,
            external_dependencies,
            parents,
            counted_parents,
            quality,
            unmet,
            by,
            reason,
        } = event
        else {
            return;
        };
        self.dependency_overrides.put(OverrideRow {
            journal_partition: at.partition,
            journal_offset: at.offset,
            event_index: at.index,
            batch_id: batch.0,
            external_dependencies: json(external_dependencies),
            parents: json(parents),
            counted_parents: *counted_parents,
            quality: *quality,
            overridden_by: person(by),
            reason: reason.as_str().into(),
            overridden_at: at.now,
        });
        for external_dependency in external_dependencies {
            self.batch_external_dependencies.put(BatchExternalDependencyRow {
                batch_id: batch.0,
                external_dependency_id: external_dependency.0,
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

fn waited(at: Place, id: ExternalDependencyId, what: &ExternalDependency) -> ExternalDependencyRow {
    let row = ExternalDependencyRow {
        id: id.0,
        kind: "path".into(),
        generation: 1,
        registered_at: at.now,
        ..ExternalDependencyRow::default()
    };
    match what {
        ExternalDependency::Path { path, mark } => {
            ExternalDependencyRow { path: Some(path.clone()), mark: mark.clone(), ..row }
        }
        ExternalDependency::ThirdParty { code, logical_time } => ExternalDependencyRow {
            kind: "third_party".into(),
            code: Some(code.clone()),
            logical_time: Some(logical_time.as_millisecond()),
            ..row
        },
    }
}
