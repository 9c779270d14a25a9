//! MON-7: how workers' machines stand, and whether they can take work, as they say themselves. A heartbeat that says
//! nothing new makes no event.

use jiff::SignedDuration;
use tidemill_model::{
    AlarmEvent, AlarmKind, Event, GroupSettings, Heartbeat, LiveAnswer, Measure, Severity, SlotUse,
    Timestamp, WorkerEvent, WorkerId, WorkerPresent,
};

use crate::group::GroupShard;
use crate::group::workers::{Slots, Worker};

/// A change that puts no worker over a bound, nor back, is on record at most this often.
const SELDOM: SignedDuration = SignedDuration::from_secs(60);
/// Of all memory, in percent: a smaller change is not worth knowing.
const MEMORY_STEP_PERCENT: u64 = 10;
/// Of load, in percent of the processors.
const LOAD_STEP_PERCENT: u32 = 50;
const MAX_REASON_CHARS: usize = 255;

impl GroupShard {
    pub(crate) fn measured(&self, id: &WorkerId, measure: Measure, now: Timestamp) -> Option<Event> {
        let known = self.workers.get(id)?.machine;
        let measure =
            Measure { memory_free_mb: measure.memory_free_mb.min(measure.memory_total_mb), ..measure };
        let was = known.is_some_and(|machine| machine.overloaded);
        let overloaded = is_overloaded(&self.settings(), measure, was);
        let is_news = known.is_none_or(|machine| {
            let seldom = now.duration_since(machine.at) >= SELDOM;
            overloaded != was || seldom && has_moved(machine.measure, measure)
        });
        is_news.then(|| Event::Worker(WorkerEvent::Measured { worker: id.clone(), measure, overloaded }))
    }
}

impl GroupShard {
    /// How it stands with a worker, beside what only the owner's clock and its heartbeats tell.
    pub(in crate::group) fn present(&self, id: &WorkerId) -> LiveAnswer {
        let Some(known) = self.workers.get(id) else { return LiveAnswer::NotFound };
        let of = |slots: &Slots| SlotUse { slots: slots.max, used: slots.used };
        let slots = known.slots.iter().map(|(kind, slots)| (kind.clone(), of(slots))).collect();
        let strays = self.strays.on(id).collect();
        LiveAnswer::Worker(Box::new(WorkerPresent {
            slots,
            strays,
            unheard: known.unheard,
            ..WorkerPresent::default()
        }))
    }
}

/// What changes in a worker that lives and says whether it can take work.
pub(super) fn heard(known: &Worker, heartbeat: &Heartbeat) -> Vec<Event> {
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

fn has_moved(before: Measure, now: Measure) -> bool {
    let memory = u64::from(before.memory_free_mb.abs_diff(now.memory_free_mb)) * 100;
    before.memory_total_mb != now.memory_total_mb
        || memory >= u64::from(now.memory_total_mb) * MEMORY_STEP_PERCENT
        || before.load_percent.abs_diff(now.load_percent) >= LOAD_STEP_PERCENT
}

/// A worker that is over a bound is back only when it is well below it, so that it does not come and go.
fn is_overloaded(settings: &GroupSettings, measure: Measure, was: bool) -> bool {
    let of = |percent: u32, whole: u32| u64::from(percent) * u64::from(whole) / 100;
    let most = match (settings.max_load_percent, was) {
        (0, _) => u64::MAX,
        (most, false) => u64::from(most),
        (most, true) => of(80, most),
    };
    let least = match (settings.min_free_memory_percent, was) {
        (0, _) => 0,
        (least, false) => of(least, measure.memory_total_mb),
        (least, true) => of(least, measure.memory_total_mb) * 5 / 4,
    };
    u64::from(measure.load_percent) > most || u64::from(measure.memory_free_mb) < least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(load_percent: u32, memory_free_mb: u32) -> Measure {
        Measure { memory_total_mb: 1_000, memory_free_mb, load_percent }
    }

    /// MON-7: sick beyond a bound, well again only with a margin.
    #[test]
    fn a_worker_recovers_with_a_margin() {
        let settings =
            GroupSettings { max_load_percent: 200, min_free_memory_percent: 10, ..GroupSettings::default() };
        let table = [
            (machine(200, 100), false, false),
            (machine(201, 100), false, true),
            (machine(170, 500), true, true),
            (machine(160, 500), true, false),
            (machine(0, 99), false, true),
            (machine(0, 124), true, true),
            (machine(0, 125), true, false),
        ];
        for (measure, was, is) in table {
            assert_eq!(is_overloaded(&settings, measure, was), is, "{measure:?}, {was}");
        }
        assert!(!is_overloaded(&GroupSettings::default(), machine(90_000, 0), false), "no bound is set");
    }

    #[test]
    fn small_changes_are_not_worth_knowing() {
        assert!(!has_moved(machine(100, 500), machine(149, 599)));
        assert!(has_moved(machine(100, 500), machine(150, 500)));
        assert!(has_moved(machine(100, 500), machine(100, 400)));
    }
}
