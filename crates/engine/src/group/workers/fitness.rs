//! MON-7: a worker that says that it can take no work gets none, until it says that it can.

use tidemill_model::{AlarmEvent, AlarmKind, Event, Heartbeat, Severity, WorkerEvent};

use crate::group::workers::worker::Worker;

const MAX_REASON_CHARS: usize = 255;

/// What changes in a worker that lives and says this.
pub(crate) fn heard(known: &Worker, heartbeat: &Heartbeat) -> Vec<Event> {
    let (worker, incarnation) = (heartbeat.worker.clone(), heartbeat.incarnation.clone());
    let reason =
        heartbeat.unready.as_ref().map(|reason| reason.chars().take(MAX_REASON_CHARS).collect::<String>());
    match (&known.unready, reason) {
        (None, Some(reason)) => {
            let alarm = Event::Alarm(AlarmEvent::Raised {
                kind: AlarmKind::WorkerUnready,
                severity: Severity::Important,
                job: None,
                batch: None,
                worker: Some(worker.clone()),
                message: format!("worker {worker} ({}) takes no work: {reason}", known.host),
            });
            vec![Event::Worker(WorkerEvent::Unready { worker, incarnation, reason }), alarm]
        }
        (Some(_), None) => vec![Event::Worker(WorkerEvent::Ready { worker, incarnation })],
        (Some(_), Some(_)) | (None, None) => Vec::new(),
    }
}
