//! Rebuilds and verifies while this process serves: on a thread of its own, one at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tidemill_api::ports::{Admin, OperationState, OperationStatus, Task};
use tidemill_cli::Done;
use tidemill_journal::Shutdown;
use tidemill_log::Log;
use tidemill_projector::{Config, VerifyConfig};
use tidemill_store::Tables;
use tidemill_store::hints::Hints;

use super::replay::{self, Sight};
use super::standalone::{join, spawn};
use crate::config::Settings;

/// What operations work on.
#[derive(Clone)]
struct Place {
    config: Config,
    verify: VerifyConfig,
    log: Arc<dyn Log>,
    tables: Arc<dyn Tables>,
    hints: Arc<dyn Hints>,
    shutdown: Shutdown,
}

/// The operations of this process.
#[derive(Clone)]
pub(crate) struct Operator {
    place: Place,
    present: Arc<Mutex<Present>>,
}

#[derive(Default)]
struct Present {
    status: Option<OperationStatus>,
    thread: Option<JoinHandle<Done>>,
}

impl Operator {
    /// Nothing goes on yet.
    pub(crate) fn new(
        settings: &Settings,
        log: &Arc<dyn Log>,
        tables: &Arc<dyn Tables>,
        hints: &Arc<dyn Hints>,
    ) -> Self {
        let (log, tables, hints) = (Arc::clone(log), Arc::clone(tables), Arc::clone(hints));
        let (config, verify) = (settings.projector.clone(), settings.verify_config());
        let place = Place { config, verify, log, tables, hints, shutdown: Shutdown::new() };
        Self { place, present: Arc::default() }
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        // Each change is one assignment, so a thread that panicked left nothing half done.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut OperationStatus)) {
        if let Some(status) = &mut self.present().status {
            change(status);
        }
    }

    fn run(&self, task: &Task) -> Done {
        // A panic, too, ends the operation.
        let mut end = End { operator: self, outcome: None };
        let Place { config, verify, log, tables, hints, shutdown } = &self.place;
        let hints = Some(&**hints);
        let sight = Sight { config, verify, log: &**log, tables: &**tables, hints, shutdown };
        let outcome = replay::work(&sight, task, &mut |records, total_records| {
            self.change(|status| (status.records, status.total_records) = (records, total_records));
        });
        end.outcome = Some(outcome.map_err(|failure| failure.message));
        Ok(())
    }

    /// Ends what goes on.
    pub(crate) fn stop(&self) -> Done {
        self.place.shutdown.request();
        let thread = self.present().thread.take();
        thread.map_or(Ok(()), |thread| join("operation", thread))
    }
}

struct End<'a> {
    operator: &'a Operator,
    outcome: Option<Result<serde_json::Value, String>>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| Err("it ended unexpectedly".to_owned()));
        self.operator.change(|status| match outcome {
            Ok(report) => (status.state, status.report) = (OperationState::Done, Some(report)),
            Err(error) => (status.state, status.error) = (OperationState::Failed, Some(error)),
        });
    }
}

impl Admin for Operator {
    fn begin(&self, task: Task) -> Result<OperationStatus, Box<OperationStatus>> {
        let mut present = self.present();
        if let Some(running) = present.status.as_ref().filter(|it| it.state == OperationState::Running) {
            return Err(Box::new(running.clone()));
        }
        let mut status = OperationStatus {
            number: present.status.as_ref().map_or(1, |last| last.number + 1),
            operation: task.operation(),
            state: OperationState::Running,
            records: 0,
            total_records: 0,
            report: None,
            error: None,
        };
        let operator = self.clone();
        match spawn("operation", move || operator.run(&task)) {
            Ok(thread) => present.thread = Some(thread),
            Err(failure) => (status.state, status.error) = (OperationState::Failed, Some(failure.message)),
        }
        Ok(present.status.insert(status).clone())
    }

    fn status(&self) -> Option<OperationStatus> {
        self.present().status.clone()
    }
}
