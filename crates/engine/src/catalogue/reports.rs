//! What concerns all groups of the external dependencies that batches wait for: third parties' reports (DEP-2), how checks of
//! paths go (DEP-5), and the request to probe everything at once (DEP-9).
//!
//! A report is kept here, and goes to every group one of whose jobs has ever named its code; a group that names it
//! for the first time hears all that is kept of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_derive::Stored;
use tidemill_model::{
    Actor, AlarmEvent, AlarmKind, Answer, Event, FieldError, MAX_CODE_BYTES, ObservationEvent, ProbeReport,
    Severity, ShardId, ShardMessage, ThirdPartyReport, Timestamp,
};

use super::{Catalogue, check_limit};
use crate::decision::{Decision, Ruled};
use crate::group::external::external_dependencies::KEPT_FOR;

const MAX_KEPT: usize = 100_000;
/// Of which so many leave at once when there are too many.
const LEAVE_AT_ONCE: usize = 500;
const REPORTS_TOLD_AT_ONCE: usize = 200;
/// Pairs of prober and authority.
const MAX_CHECKS: usize = 1_000;
const IMPORTANT_AFTER_MS: u64 = 5 * 60_000;
const CRITICAL_AFTER_MS: u64 = 10 * 60_000;
/// A prober says at most once in so long that checks are late still.
const SAID_EVERY: SignedDuration = SignedDuration::from_secs(60);
/// A prober that has not said so for longer is gone, or has forgotten about it.
const SILENT_AFTER: SignedDuration = SignedDuration::from_mins(15);

#[derive(Debug, Clone, PartialEq, Default, Stored)]
pub(crate) struct Reports {
    /// What is ready, and when that was reported.
    ready: BTreeMap<(Arc<str>, Timestamp), Timestamp>,
    by_age: BTreeSet<(Timestamp, Arc<str>, Timestamp)>,
    /// Code → groups that wait for it.
    listeners: BTreeMap<Arc<str>, BTreeSet<ShardId>>,
    /// Authority → prober → what is wrong.
    checks: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Trouble>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Stored)]
struct Trouble {
    severity: Severity,
    heard: Timestamp,
}

impl Catalogue {
    pub(super) fn report_third_party(&self, report: &ThirdPartyReport, by: &Actor, now: Timestamp) -> Ruled {
        check_code("code", &report.code)?;
        let known = self.reports.ready.contains_key(&(Arc::clone(&report.code), report.logical_time));
        if known == report.ready {
            return Ok(Decision::unchanged(Answer::Done));
        }
        let reported = ObservationEvent::ThirdPartyReported { report: report.clone(), by: by.clone() };
        let events = self.reports.surplus(now).into_iter().chain([reported.into()]);
        Ok(Decision::answered(events.collect(), Answer::Done))
    }

    /// DEP-5: people are told once per cause, and again when it gets worse.
    pub(super) fn report_probes(&self, report: &ProbeReport, now: Timestamp) -> Ruled {
        check_code("prober", &report.prober).and_then(|()| check_code("authority", &report.authority))?;
        let known = self.reports.checks.get(&report.authority);
        let own = known.and_then(|probers| probers.get(&report.prober));
        let Some(severity) = severity_of(report) else {
            if own.is_none() {
                return Ok(Decision::nothing());
            }
            let (prober, authority) = (Arc::clone(&report.prober), Arc::clone(&report.authority));
            return Ok(Decision::of(ObservationEvent::ProbesRecovered { prober, authority }));
        };
        let is_repeat =
            |own: &&Trouble| own.severity == severity && now.duration_since(own.heard) < SAID_EVERY;
        if own.filter(is_repeat).is_some() {
            return Ok(Decision::nothing());
        }
        if own.is_none() {
            let all: usize = self.reports.checks.values().map(BTreeMap::len).sum();
            let what = "the number of probers and authorities whose checks are late";
            check_limit(what, all + 1, MAX_CHECKS)?;
        }
        let failure: String = report.failure.chars().take(500).collect();
        let cut = ProbeReport { failure: failure.clone(), ..report.clone() };
        let mut events = vec![Event::Observation(ObservationEvent::ProbesLate { report: cut })];
        let told = known.into_iter().flat_map(BTreeMap::values).filter(|trouble| !trouble.is_over(now));
        // The most severe stands first.
        if told.map(|trouble| trouble.severity).min().is_none_or(|told| severity < told) {
            let why = if failure.is_empty() { String::new() } else { format!(": {failure}") };
            let message =
                format!("checks of {} are {} s late{why}", report.authority, report.late_ms / 1_000);
            events.push(alarm(AlarmKind::ProbesLate, severity, message));
        }
        Ok(Decision::events(events))
    }

    pub(super) fn apply_observation(&mut self, now: Timestamp, event: &ObservationEvent) {
        match event {
            ObservationEvent::ThirdPartyReported { report, .. } => {
                self.reports.reported(now, report);
                let listeners = self.reports.listeners.get(&report.code);
                for shard in listeners.into_iter().flatten() {
                    let reports = vec![report.clone()];
                    self.mailbox.send(*shard, ShardMessage::ThirdParty { reports });
                }
            }
            ObservationEvent::ThirdPartyEvicted { upto, .. } => self.reports.forget(*upto),
            ObservationEvent::ProbesLate { report } => {
                let Some(severity) = severity_of(report) else { return };
                let probers = self.reports.checks.entry(Arc::clone(&report.authority)).or_default();
                probers.retain(|_, trouble| !trouble.is_over(now));
                probers.insert(Arc::clone(&report.prober), Trouble { severity, heard: now });
            }
            ObservationEvent::ProbesRecovered { prober, authority } => {
                if let Some(probers) = self.reports.checks.get_mut(authority) {
                    probers.remove(prober);
                }
                self.reports.checks.retain(|_, probers| !probers.is_empty());
            }
            ObservationEvent::ProbesRequested { by, .. } => {
                self.tell_groups(None, &ShardMessage::ProbeNow { by: by.clone() });
            }
            // Facts of group shards.
            ObservationEvent::ExternalDependencyRegistered { .. }
            | ObservationEvent::ExternalDependencySatisfied { .. }
            | ObservationEvent::ExternalDependencyRevoked { .. }
            | ObservationEvent::ExternalDependenciesEvicted { .. } => {}
        }
    }

    /// A job of the group names these codes: the group hears of them from now on, and all that is kept.
    pub(super) fn listen(&mut self, shard: ShardId, codes: &[String]) {
        for code in codes {
            let code: Arc<str> = code.as_str().into();
            if !self.reports.listeners.entry(Arc::clone(&code)).or_default().insert(shard) {
                continue;
            }
            let all = (Arc::clone(&code), Timestamp::MIN)..=(code, Timestamp::MAX);
            let report = |(code, time): &(Arc<str>, Timestamp)| ThirdPartyReport {
                code: Arc::clone(code),
                logical_time: *time,
                ready: true,
            };
            let reports: Vec<_> = self.reports.ready.range(all).map(|(key, _)| report(key)).collect();
            for reports in reports.chunks(REPORTS_TOLD_AT_ONCE) {
                self.mailbox.send(shard, ShardMessage::ThirdParty { reports: reports.to_vec() });
            }
        }
    }
}

impl Reports {
    fn reported(&mut self, now: Timestamp, report: &ThirdPartyReport) {
        let (code, time) = (Arc::clone(&report.code), report.logical_time);
        if let Some(at) = self.ready.remove(&(Arc::clone(&code), time)) {
            self.by_age.remove(&(at, Arc::clone(&code), time));
        }
        if report.ready {
            self.ready.insert((Arc::clone(&code), time), now);
            self.by_age.insert((now, code, time));
        }
    }

    /// Before another is kept: what is too old, or too much.
    fn surplus(&self, now: Timestamp) -> Option<Event> {
        let cutoff = now.saturating_sub(KEPT_FOR).unwrap_or(Timestamp::MIN);
        let too_many = if self.ready.len() >= MAX_KEPT { LEAVE_AT_ONCE } else { 0 };
        let oldest = self.by_age.iter().enumerate();
        let leave = oldest.take_while(|(index, (at, ..))| *index < too_many || *at < cutoff);
        let upto = leave.map(|(_, (at, ..))| *at).last()?;
        let count = self.by_age.iter().take_while(|(at, ..)| *at <= upto).count();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Some(ObservationEvent::ThirdPartyEvicted { upto, count }.into())
    }

    fn forget(&mut self, upto: Timestamp) {
        while self.by_age.first().is_some_and(|(at, ..)| *at <= upto) {
            if let Some((_, code, time)) = self.by_age.pop_first() {
                self.ready.remove(&(code, time));
            }
        }
    }
}

impl Trouble {
    fn is_over(&self, now: Timestamp) -> bool {
        now.duration_since(self.heard) > SILENT_AFTER
    }
}

/// About no job, batch or worker.
pub(super) fn alarm(kind: AlarmKind, severity: Severity, message: String) -> Event {
    AlarmEvent::Raised { kind, severity, job: None, batch: None, worker: None, message }.into()
}

fn severity_of(report: &ProbeReport) -> Option<Severity> {
    match report.late_ms {
        late if late > CRITICAL_AFTER_MS => Some(Severity::Critical),
        late if late > IMPORTANT_AFTER_MS => Some(Severity::Important),
        _ if !report.failure.is_empty() => Some(Severity::Important),
        _ => None,
    }
}

/// What stands in the journal as a name.
pub(super) fn check_code(field: &str, code: &str) -> Result<(), FieldError> {
    if code.is_empty() || code.len() > MAX_CODE_BYTES || code.chars().any(char::is_control) {
        let rule = format!("must be 1 to {MAX_CODE_BYTES} bytes without control characters");
        return Err(FieldError::new(field, code, rule));
    }
    Ok(())
}
