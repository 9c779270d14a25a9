//! EXE-13: the attempt while none of its processes runs: before the first, while work of earlier attempts is ended, and after the
//! last, until what it started elsewhere has ended.

use std::io;

use nix::sys::signalfd::SignalFd;

use super::super::elsewhere::{Elsewhere, Said};
use super::super::line::Line;
use super::{Watch, boottime_ms, hear, set_timer, timer};
use crate::attempt_dir::{ExitRecord, ExternalRecord};
use crate::limits::Guard;
use crate::shim::{KillCause, line};

/// How long an agent goes on for an attempt whose end the owner has on record already, milliseconds.
const DISOWNED_MS: u64 = 600_000;

impl Watch {
    /// Waits until nothing of earlier attempts runs elsewhere. Gives how the attempt ends that is not to start. The process has no
    /// other thread, so that no control socket is made: an attempt whose worker is gone meanwhile ends as interrupted, for nothing of it
    /// has begun.
    pub(in crate::shim) fn until_cleared(
        &mut self,
        (line, signals): (&mut Line<'_>, &SignalFd),
        elsewhere: &mut Elsewhere,
    ) -> io::Result<Option<ExitRecord>> {
        let timer = timer()?;
        self.obey();
        loop {
            let now_ms = boottime_ms();
            self.end_with_lease(now_ms);
            self.end_with_limit(now_ms);
            if let Some(killing) = &self.killing {
                let kill_cause = Some(killing.because);
                return Ok(Some(ExitRecord { kill_cause, ..ExitRecord::default() }));
            }
            if elsewhere.is_gone() {
                let error = Some("cannot end the external work of its earlier attempts".to_owned());
                return Ok(Some(ExitRecord { error, ..ExitRecord::default() }));
            }
            set_timer(&timer, self.deadline_ms())?;
            let heard = hear((line, signals), &timer, None, Some(elsewhere))?;
            if heard.line && line.hear(&mut self.control) == line::Heard::WorkerGone {
                self.end(KillCause::WorkerStopped, now_ms);
            }
            self.obey();
            if heard.signals {
                self.read_signals(signals)?;
            }
            if heard.elsewhere && self.hear_elsewhere(Some(elsewhere), line).contains(&Said::Cleared) {
                return Ok(None);
            }
        }
    }

    /// None of its processes is left: waits until nothing of it runs elsewhere.
    pub(in crate::shim) fn until_ended_elsewhere(
        &mut self,
        guard: &Guard,
        (line, signals): (&mut Line<'_>, &SignalFd),
        elsewhere: &mut Elsewhere,
    ) -> io::Result<ExternalRecord> {
        let timer = timer()?;
        self.lasts_elsewhere = elsewhere.waits_for_states() && self.killing.is_none();
        elsewhere.settle(self.killing.is_some(), self.may_have_cut_a_submission());
        loop {
            let now_ms = boottime_ms();
            if !line.see_to_control(now_ms) {
                self.cannot_be_found();
            }
            self.end_with_lease(now_ms);
            self.end_with_limit(now_ms);
            if self.killing.is_some() {
                elsewhere.kill();
            }
            let give_up_at_ms = self.disowned_at_ms.map(|at_ms| at_ms.saturating_add(DISOWNED_MS));
            if elsewhere.is_gone() || give_up_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                let work = self.found.iter().map(|id| (id.clone(), None)).collect();
                return Ok(ExternalRecord { work, unconfirmed: true, decides: elsewhere.waits_for_states() });
            }
            let own = self.deadline_ms().filter(|_| self.lasts_elsewhere && self.killing.is_none());
            set_timer(&timer, own.into_iter().chain(line.look_at_ms()).chain(give_up_at_ms).min())?;
            let heard = hear((line, signals), &timer, None, Some(elsewhere))?;
            if heard.line {
                self.hear(line, guard);
            }
            if heard.signals {
                self.read_signals(signals)?;
            }
            self.reap(Some(elsewhere))?;
            for said in if heard.elsewhere { self.hear_elsewhere(Some(elsewhere), line) } else { Vec::new() }
            {
                if let Said::Ended(record) = said {
                    return Ok(*record);
                }
            }
        }
    }

    /// Only a job that has succeeded, and has left no process behind, has had all answers of the cluster.
    fn may_have_cut_a_submission(&self) -> bool {
        let has_succeeded = self.status.is_some_and(|status| status.exit_status() == Some(0));
        self.killing.is_some() || self.has_killed_strays || !has_succeeded
    }

    /// When its lease or its time is over.
    fn deadline_ms(&self) -> Option<u64> {
        self.lease.map(|lease| lease.term_at_ms).into_iter().chain(self.limit_at_ms).min()
    }
}
