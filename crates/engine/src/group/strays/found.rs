//! Which of what a registering worker runs is a stray, and what people are told of it.

use std::collections::BTreeSet;

use tidemill_model::{
    AlarmEvent, AlarmKind, BatchId, Event, Level, Registration, RunningAttempt, Severity, Token, WorkerEvent,
    bounds,
};

use super::GroupShard;
use crate::group::listed::listed;

/// Strays that an alarm names; of more it says how many.
const MAX_NAMED: usize = 20;
/// A token so far above all that were minted is none that this log gave.
const MOST_AHEAD: u64 = 1 << 32;

impl GroupShard {
    /// Whether strays are on record where this level stands.
    pub(in crate::group) fn records_strays(&self) -> bool {
        self.level().allows(Level::new(3))
    }

    /// Whether this shard gave the token in a life of the log that is lost.
    fn is_of_lost_life(&self, token: Token) -> bool {
        let (counter, minted) = (token.counter(), self.batches.tokens_minted());
        let is_beyond = counter > minted && counter - minted <= MOST_AHEAD;
        token.0 > 0 && token.shard() == self.id && (is_beyond || self.strays.is_in_gap(counter))
    }

    /// What a registration shows of attempts of a lost life, and the alarm.
    pub(in crate::group) fn strays_of(&self, registration: &Registration) -> Vec<Event> {
        if !self.records_strays() || registration.running.is_empty() {
            return Vec::new();
        }
        let worker = &registration.worker;
        let room = bounds::STRAYS.saturating_sub(self.strays.on(worker).count());
        let mut seen = BTreeSet::new();
        let mut is_new = |attempt: &&RunningAttempt| {
            let is_known = self.batches.of_token(attempt.token).is_some()
                || self.final_commands.holds(attempt.token)
                || self.strays.has(attempt.token);
            !is_known && self.is_of_lost_life(attempt.token) && seen.insert(attempt.token)
        };
        let mut strays: Vec<RunningAttempt> =
            registration.running.iter().filter(|attempt| is_new(attempt)).copied().collect();
        let too_many = strays.len().saturating_sub(room);
        strays.truncate(room);
        if strays.is_empty() {
            return Vec::new();
        }
        let alarm = self.alarm_of_strays(registration, &strays, too_many);
        let (worker, incarnation) = (worker.clone(), registration.incarnation.clone());
        let found = WorkerEvent::StraysFound { worker, incarnation, strays };
        vec![found.into(), alarm]
    }

    fn alarm_of_strays(
        &self,
        registration: &Registration,
        strays: &[RunningAttempt],
        too_many: usize,
    ) -> Event {
        let named = listed(strays, MAX_NAMED, |stray| {
            let RunningAttempt { token, job, logical_time, .. } = stray;
            let beside = self.running_of_time(stray).map(|id| format!(", beside batch {id}"));
            format!("{token} of {} for {logical_time}{}", self.name_of(*job), beside.unwrap_or_default())
        });
        let ended = match too_many {
            0 => String::new(),
            _ => {
                format!("; {too_many} beyond the {} that can be held on one worker are ended", bounds::STRAYS)
            }
        };
        let Registration { worker, host, .. } = registration;
        let message = format!(
            "worker {worker} ({host}) runs attempts of a life of the log that is lost: {named}{ended}; nothing of their logical times \
             starts until each of them has ended: adopt it with `tidemill batch adopt`, or end it with `tidemill worker end-stray`"
        );
        Event::Alarm(AlarmEvent::Raised {
            kind: AlarmKind::StraysFound,
            severity: Severity::Critical,
            job: None,
            batch: None,
            worker: Some(worker.clone()),
            message,
        })
    }

    /// A batch of the same logical time that runs, or may run by now.
    fn running_of_time(&self, stray: &RunningAttempt) -> Option<BatchId> {
        let runs = |id: &BatchId| self.batches.get(id).is_some_and(|batch| batch.running_as().is_some());
        self.batches_of_times(&BTreeSet::from([(stray.job, stray.logical_time)])).into_iter().find(runs)
    }
}
