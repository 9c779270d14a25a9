//! EXE-8: people hear what will be ended with the lease of a silent worker while they can still do something: bring the
//! worker back, or let the group hold.

use tidemill_model::{
    AlarmEvent, AlarmKind, BatchId, Event, Incarnation, Level, Severity, Token, WorkerEvent, WorkerId,
};

use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::batches::batch::Batch;
use crate::group::listed::listed;
use crate::group::workers::Worker;

/// Jobs that an alarm names; of more it says how many.
const MAX_NAMED: usize = 20;

impl GroupShard {
    /// Whether half of the worker's lease is worth a warning: something runs there, the lease will end it, and nobody was
    /// warned since the worker fell silent.
    pub(in crate::group) fn owes_warning(&self, worker: &Worker) -> bool {
        self.level().allows(Level::new(3))
            && worker.lost
            && !worker.expired
            && (!worker.warned || planted!(LeaseWarningRepeated))
            && self.lease_of(worker).ends_after_ms.is_some()
            && self.running_on(worker).next().is_some()
    }

    /// Half of the lease has passed.
    pub(crate) fn warn_of_lease(&self, id: &WorkerId, incarnation: &Incarnation) -> Decision {
        let owed = |known: &&Worker| known.incarnation == *incarnation && self.owes_warning(known);
        let Some(known) = self.workers.get(id).filter(owed) else { return Decision::nothing() };
        let running: Vec<_> = self.running_on(known).collect();
        let named = listed(&running, MAX_NAMED, |(id, batch)| {
            format!("{} of {} (batch {id})", batch.definition.full_name(), batch.logical_time)
        });
        let message = format!(
            "worker {id} ({}) has been silent for half of its lease; when the lease ends, so do the attempts of {named}",
            known.host,
        );
        let warned = WorkerEvent::LeaseHalfOver { worker: id.clone(), incarnation: incarnation.clone() };
        let alarm = AlarmEvent::Raised {
            kind: AlarmKind::LeaseHalfOver,
            severity: Severity::Critical,
            job: None,
            batch: None,
            worker: Some(id.clone()),
            message,
        };
        Decision::events(vec![Event::Worker(warned), Event::Alarm(alarm)])
    }

    /// The batches of which an attempt runs on the worker, or may run.
    fn running_on<'a>(&'a self, worker: &'a Worker) -> impl Iterator<Item = (BatchId, &'a Batch)> + 'a {
        let runs = |token: &Token| {
            let id = self.batches.of_token(*token)?;
            let batch = self.batches.get(&id)?;
            batch.running_as().map(|_| (id, batch))
        };
        worker.tokens.iter().filter_map(runs)
    }
}
