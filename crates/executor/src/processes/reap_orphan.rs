//! Learns how an attempt ended whose shim is gone, and makes sure that it has.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;
use std::{io, thread};

use rustix::process::Signal;
use tidemill_model::{JobType, Token, WorkerId};

use crate::attempt_dir::AttemptDir;
use crate::limits::Tree;
use crate::machine::boottime_ms;
use crate::shim::Stuck;
use crate::worker::{Input, ProcessEnd};
use crate::{TypeConfig, disk, environment, external_work, limits, shim};

/// Between two looks at what a killed shim left behind.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The same where something of that cannot be killed.
const LOOK_LATER: Duration = Duration::from_secs(1);
/// So many looks a worker takes at its start before it goes on without the end.
const LOOKS_AT_START: u32 = 20;

/// In whose time the shim was started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    This,
    Earlier,
}

/// What a shim has left that is gone.
pub(super) struct Remains {
    pub(super) dir: AttemptDir,
    pub(super) worker: WorkerId,
    pub(super) token: Token,
    /// Where its control group is, if it has one.
    pub(super) groups: Tree,
}

impl Remains {
    /// How the attempt ended. Returns only when nothing of it is left; `stuck` hears of what cannot be killed.
    pub(super) fn learn_end(&self, life: Life, stuck: &dyn Fn(&str)) -> ProcessEnd {
        // Whoever has the lock knows that no shim does, or will do, anything here.
        let end = self.learned(self.dir.lock().and_then(|lock| self.try_learn_end(&lock, life)));
        if matches!(end, ProcessEnd::Vanished) {
            self.end_leftovers(stuck);
        }
        end
    }

    /// The same, where this one has the lock, or the directory is gone. [`None`]: something of it is left that has not gone
    /// for a second.
    pub(super) fn learn_end_under(&self, lock: io::Result<File>, life: Life) -> Option<ProcessEnd> {
        let end = self.learned(lock.and_then(|lock| self.try_learn_end(&lock, life)));
        if matches!(end, ProcessEnd::Vanished) && !self.end_leftovers_soon() {
            return None;
        }
        Some(end)
    }

    /// EXE-13: what its job has reported, of which nobody has made sure that it has ended.
    pub(super) fn reported_work(&self, types: &BTreeMap<JobType, TypeConfig>) -> Option<Input> {
        let ids = external_work::ids_of_any(types.values(), &self.dir.reported_work().lines);
        (!ids.is_empty()).then_some(Input::ExternalWorkFound { token: self.token, ids })
    }

    fn learned(&self, end: io::Result<ProcessEnd>) -> ProcessEnd {
        end.unwrap_or_else(|error| {
            tracing::error!(token = %self.token, %error, "cannot read how an attempt ended");
            ProcessEnd::Vanished
        })
    }

    fn try_learn_end(&self, _lock: &File, life: Life) -> io::Result<ProcessEnd> {
        if let Some(record) = self.dir.exit_record()? {
            return Ok(ProcessEnd::Recorded(record));
        }
        let marked = match self.dir.mark_started() {
            // Its shim is gone, so nobody else will make the marker either.
            Err(error) if life == Life::This && disk::is_full(&error) => {
                self.dir.remove();
                return Ok(ProcessEnd::NoRoom(format!("nothing can be written there: {error}")));
            }
            marked => marked?,
        };
        if marked.is_some() {
            return Ok(match life {
                Life::This => ProcessEnd::NotStarted("its shim ended before it was started".to_owned()),
                Life::Earlier => ProcessEnd::Abandoned,
            });
        }
        Ok(ProcessEnd::Vanished)
    }

    /// The shim was killed. The server of shims has ended what it watched over, before it gave up the lock, unless the server
    /// was killed too: then it is found by its environment, or in the control group of the attempt. A process that
    /// has put on another environment, of an attempt without limits, is not found then: that is the weakness of having no cgroup.
    fn end_leftovers(&self, tell: &dyn Fn(&str)) {
        let mut stuck = Stuck::default();
        while let Some(left) = self.kill_leftovers() {
            if let Some(process) = stuck.lives_on(left, boottime_ms()) {
                tell(process);
            }
            thread::sleep(if stuck.process().is_some() { LOOK_LATER } else { LOOK_AGAIN });
        }
    }

    /// Whether nothing is left.
    fn end_leftovers_soon(&self) -> bool {
        (0..LOOKS_AT_START).any(|look| {
            if look > 0 {
                thread::sleep(LOOK_AGAIN);
            }
            self.kill_leftovers().is_none()
        })
    }

    /// Gives the first process that was left.
    fn kill_leftovers(&self) -> Option<i32> {
        let marked =
            shim::signal_by_environment(&environment::marks(&self.worker, self.token), &[Signal::KILL]);
        let grouped = shim::kill_listed(&|| limits::members(&self.groups, self.token));
        marked.or(grouped)
    }
}
