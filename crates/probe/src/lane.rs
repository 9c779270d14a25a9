//! One authority with everything that protects it, and everything else from it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backon::BackoffBuilder as _;
use futures_util::future::BoxFuture;
use tidemill_model::Timestamp;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use crate::backend::{Backend, Fault, Found, Target};
use crate::circuit::{Admission, Circuit, Pace, Pauses};
use crate::config::Limits;
use crate::statistics::{Counters, count};
use crate::{Authority, Config, Failure, FailureKind, Outcome};

/// One authority: its back end behind a bound of calls in flight, a rate, a timeout and a circuit.
pub(crate) struct Lane {
    pub(crate) authority: Authority,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) counters: Counters,
    limits: Limits,
    config: Arc<Config>,
    permits: Semaphore,
    gate: Mutex<Gate>,
    /// The circuit closed, or paused again.
    changed: Notify,
    origin: Instant,
    used_ms: AtomicU64,
}

struct Gate {
    circuit: Circuit,
    pace: Pace,
    hung_in_a_row: u32,
    last_fault: String,
}

/// Why one call brought nothing.
#[derive(Debug)]
pub(crate) enum Miss {
    Paused { for_ms: u64, reason: String },
    Refused(String),
    Unavailable(String),
    Hung,
    StillHangs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Look,
    List,
}

impl Lane {
    pub(crate) fn new(authority: Authority, backend: Arc<dyn Backend>, config: &Arc<Config>) -> Self {
        let limits = config.limits(authority.kind()).clone();
        let pauses = Pauses {
            after: config.pause_after,
            first_ms: config.pause_ms,
            max_interval_ms: config.max_pause_ms,
        };
        let gate = Gate {
            circuit: Circuit::new(pauses),
            pace: Pace::new(limits.calls_per_s),
            hung_in_a_row: 0,
            last_fault: String::new(),
        };
        Self {
            authority,
            backend,
            counters: Counters::default(),
            permits: Semaphore::new(limits.in_flight),
            limits,
            config: Arc::clone(config),
            gate: Mutex::new(gate),
            changed: Notify::new(),
            origin: Instant::now(),
            used_ms: AtomicU64::new(0),
        }
    }

    /// How many questions are worth having under way: some wait for their next try while others call.
    pub(crate) fn width(&self) -> usize {
        self.limits.in_flight.saturating_mul(2)
    }

    /// For how long nothing was asked; none while something is under way.
    pub(crate) fn idle_for_ms(&self) -> Option<u64> {
        let idle = self.permits.available_permits() == self.limits.in_flight;
        idle.then(|| self.now_ms().saturating_sub(self.used_ms.load(Ordering::Relaxed)))
    }

    /// Looks for one thing, with all tries (DEP-5).
    pub(crate) async fn look(&self, target: &Target) -> Outcome {
        match self.tried(|| self.backend.look(target.clone())).await {
            Ok(Found { present, calls }) => {
                // The first one was counted when it began.
                count(&self.counters.look_calls, u64::from(calls.saturating_sub(1)));
                if present { Outcome::Present } else { Outcome::Absent }
            }
            Err(outcome) => outcome,
        }
    }

    /// When something last changed, with all tries; the error is an outcome of which nobody knows.
    pub(crate) async fn changed_at(&self, inside: &str) -> Result<Option<Timestamp>, Outcome> {
        self.tried(|| self.backend.changed_at(inside)).await
    }

    async fn tried<T>(&self, begin: impl Fn() -> BoxFuture<'static, Result<T, Fault>>) -> Result<T, Outcome> {
        let mut tries = 0;
        let mut pauses = self.config.retry_pauses().build();
        let mut last = None;
        loop {
            let outcome = match self.once(Call::Look, &begin).await {
                Ok(found) => return Ok(found),
                Err(Miss::Refused(reason)) => return Err(failed(FailureKind::Refused, reason, tries + 1)),
                Err(Miss::Paused { for_ms, reason }) => {
                    let paused = || failed(FailureKind::Paused { for_ms }, reason, 0);
                    return Err(last.unwrap_or_else(paused));
                }
                Err(Miss::StillHangs) => return Err(Outcome::Hung { tries }),
                Err(Miss::Unavailable(reason)) => failed(FailureKind::Unavailable, reason, tries + 1),
                Err(Miss::Hung) if !self.backend.retries_hung() => {
                    return Err(Outcome::Hung { tries: tries + 1 });
                }
                Err(Miss::Hung) => Outcome::Hung { tries: tries + 1 },
            };
            tries += 1;
            let Some(pause) = pauses.next() else { return Err(outcome) };
            last = Some(outcome);
            sleep(pause).await;
        }
    }

    /// One call, once it may be made; never longer under way than the timeout.
    pub(crate) async fn once<'a, T>(
        &self,
        call: Call,
        begin: impl FnOnce() -> BoxFuture<'a, Result<T, Fault>>,
    ) -> Result<T, Miss> {
        let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
        self.used_ms.store(self.now_ms(), Ordering::Relaxed);
        let trial = self.admit().await?;
        self.wait_for_pace().await;
        count(
            match call {
                Call::Look => &self.counters.look_calls,
                Call::List => &self.counters.list_calls,
            },
            1,
        );
        let begun = Instant::now();
        let result = timeout(self.limits.timeout(), begin()).await;
        match result {
            Ok(Ok(found)) => {
                self.counters.took(begun.elapsed());
                self.answered(trial);
                Ok(found)
            }
            Ok(Err(Fault::Refused(reason))) => {
                self.counters.took(begun.elapsed());
                self.answered(trial);
                Err(Miss::Refused(reason))
            }
            // No call was made, so nothing is known about the others.
            Ok(Err(Fault::StillHangs)) => Err(Miss::StillHangs),
            Ok(Err(Fault::Unavailable(reason))) => {
                count(&self.counters.failed_calls, 1);
                self.faulted(&reason, trial);
                Err(Miss::Unavailable(reason))
            }
            Err(_) => {
                count(&self.counters.hung_calls, 1);
                self.hung(trial);
                Err(Miss::Hung)
            }
        }
    }

    /// Waits while another call tries whether the authority is back.
    async fn admit(&self) -> Result<Option<Trial<'_>>, Miss> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (admission, reason) = {
                let mut gate = self.gate();
                let admission = gate.circuit.admit(self.now_ms());
                (admission, gate.last_fault.clone())
            };
            match admission {
                Admission::Ask => return Ok(None),
                Admission::Try => return Ok(Some(Trial { lane: self, open: true })),
                Admission::Paused { for_ms } => return Err(Miss::Paused { for_ms, reason }),
                // The trial ends by its own timeout, or is dropped; both are changes.
                Admission::Wait => changed.await,
            }
        }
    }

    async fn wait_for_pace(&self) {
        let now = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let wait = self.gate().pace.wait_ns(now);
        if wait > 0 {
            sleep(Duration::from_nanos(wait)).await;
        }
    }

    fn answered(&self, trial: Option<Trial<'_>>) {
        let mut gate = self.gate();
        gate.hung_in_a_row = 0;
        let is_back = gate.circuit.answered();
        drop(gate);
        close(trial);
        if is_back {
            tracing::info!(authority = %self.authority, "answers again");
            self.changed.notify_waiters();
        }
    }

    fn hung(&self, trial: Option<Trial<'_>>) {
        let renew = {
            let mut gate = self.gate();
            gate.hung_in_a_row += 1;
            let renew = gate.hung_in_a_row >= self.config.renew_after;
            if renew {
                gate.hung_in_a_row = 0;
            }
            renew
        };
        if renew {
            count(&self.counters.renewals, 1);
            self.backend.renew();
        }
        self.faulted(&format!("no answer within {} ms", self.limits.timeout_ms), trial);
    }

    fn faulted(&self, reason: &str, trial: Option<Trial<'_>>) {
        let paused = {
            let mut gate = self.gate();
            let paused = gate.circuit.failed(self.now_ms(), trial.is_some());
            if gate.last_fault != reason {
                reason.clone_into(&mut gate.last_fault);
            }
            paused
        };
        if paused {
            count(&self.counters.pauses, 1);
            if trial.is_none() {
                tracing::warn!(authority = %self.authority, reason, "left alone until it answers");
            }
            self.changed.notify_waiters();
        }
        close(trial);
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The call that goes first after a pause. Where it is dropped before it knows, another one goes.
struct Trial<'a> {
    lane: &'a Lane,
    open: bool,
}

fn close(trial: Option<Trial<'_>>) {
    if let Some(mut trial) = trial {
        trial.open = false;
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if self.open {
            self.lane.gate().circuit.forsaken(self.lane.now_ms());
            self.lane.changed.notify_waiters();
        }
    }
}

fn failed(kind: FailureKind, reason: String, tries: u32) -> Outcome {
    Outcome::Failed(Failure { kind, reason, tries })
}
