use std::sync::Arc;

use tidemill_derive::{Aggregate, vocabulary};

use crate::{
    Actor, BatchId, ExternalDependency, ExternalDependencyId, ProbeReport, ThirdPartyReport, Timestamp,
    WorkerId,
};

/// What is found out outside: paths, third parties, and whether probers look in time.
#[vocabulary(Aggregate)]
pub enum ObservationEvent {
    /// A batch or a report names an external dependency for the first time.
    ///
    /// It is not satisfied; its generation is 1.
    #[event(
        kind = "external_dependency.registered",
        subject = "external_dependency/{external_dependency}",
        public
    )]
    ExternalDependencyRegistered {
        /// Its number.
        external_dependency: ExternalDependencyId,
        /// What it is.
        what: ExternalDependency,
    },
    /// An external dependency is satisfied, for every batch that waits for it.
    ///
    /// One of these runs when nothing else keeps it back: no event says so for each of them.
    #[event(
        kind = "external_dependency.satisfied",
        subject = "external_dependency/{external_dependency}",
        public
    )]
    ExternalDependencySatisfied {
        /// Which.
        external_dependency: ExternalDependencyId,
        /// Its generation.
        generation: u64,
    },
    /// An external dependency is no longer satisfied, for every batch that has not started.
    #[event(
        kind = "external_dependency.revoked",
        subject = "external_dependency/{external_dependency}",
        public
    )]
    ExternalDependencyRevoked {
        /// Which.
        external_dependency: ExternalDependencyId,
        /// Its generation from now on.
        generation: u64,
        /// Who found out, where it was a worker.
        worker: Option<WorkerId>,
    },
    /// Nobody waits for these any more, and they left the state.
    #[event(kind = "external_dependencies.evicted", subject = "external_dependencies", internal = "Eviction")]
    ExternalDependenciesEvicted {
        /// At most 500.
        external_dependencies: Vec<ExternalDependencyId>,
    },
    /// A client requests that missing paths are probed at once.
    #[event(kind = "probes.requested", subject = "{probed(*batch)}", public)]
    ProbesRequested {
        /// Those that this batch waits for; absent: all.
        batch: Option<BatchId>,
        /// Who.
        by: Actor,
    },
    /// A third party reports whether its data for a logical time is ready.
    ///
    /// The catalogue keeps it for batches to come.
    #[event(kind = "third_party.reported", subject = "third_party/{report.code}", public)]
    ThirdPartyReported {
        /// What it says.
        report: ThirdPartyReport,
        /// Who.
        by: Actor,
    },
    /// Old reports left the catalogue.
    #[event(kind = "third_party.evicted", subject = "third_party", internal = "Eviction")]
    ThirdPartyEvicted {
        /// Those that were received up to this time.
        upto: Timestamp,
        /// How many.
        count: u32,
    },
    /// A prober reports that checks of paths fail or are late.
    #[event(kind = "probes.late", subject = "probes/{report.authority}", public)]
    ProbesLate {
        /// What a prober says.
        report: ProbeReport,
    },
    /// A prober reports that checks of paths are on time again.
    #[event(kind = "probes.recovered", subject = "probes/{authority}", public)]
    ProbesRecovered {
        /// Who says so.
        prober: Arc<str>,
        /// Of which authority.
        authority: Arc<str>,
    },
}

fn probed(batch: Option<BatchId>) -> String {
    batch.map_or_else(|| "probes".to_owned(), |batch| format!("batch/{batch}"))
}
