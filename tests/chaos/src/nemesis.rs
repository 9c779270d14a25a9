//! Strikes and heals, as the schedule says.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use jiff::Timestamp;
use rustix::process::Signal;
use serde::Serialize;

use crate::database::Locked;
use crate::fault::Kind;
use crate::fixture::Fixture;
use crate::proxy::Mode;
use crate::schedule::Step;
use crate::services::Service;

/// A fault as it was.
#[derive(Clone, Debug, Serialize)]
pub struct Struck {
    /// As planned.
    pub step: Step,
    /// When it struck, milliseconds since 1970.
    pub at_ms: i64,
    /// When it was healed.
    pub healed_ms: i64,
    /// Why it could not be made or healed.
    pub failed: Option<String>,
}

/// Carries the schedule out; gives the faults in their order. Takes so long, or ends early, all healed, when told
/// so.
#[must_use]
pub(crate) fn run(fixture: &Fixture, steps: &[Step], total_ms: u64, is_over: &AtomicBool) -> Vec<Struck> {
    let begun_at = Instant::now();
    let struck = Mutex::new(Vec::new());
    // A heal can take longer than was planned; the next fault of the same subject waits for it.
    let subjects: BTreeMap<&str, Mutex<()>> =
        steps.iter().map(|step| (step.subject(), Mutex::default())).collect();
    thread::scope(|scope| {
        for step in steps {
            if !sleep_until(begun_at, step.at_ms, is_over) {
                break;
            }
            println!("{step}");
            let (struck, subject) = (&struck, &subjects[step.subject()]);
            scope.spawn(move || {
                let _alone = subject.lock().unwrap_or_else(PoisonError::into_inner);
                let done = one(fixture, step, is_over);
                if let Some(failed) = &done.failed {
                    println!("     {} failed: {failed}", step.kind.name());
                }
                struck.lock().unwrap_or_else(PoisonError::into_inner).push(done);
            });
        }
        sleep_until(begun_at, total_ms, is_over);
    });
    let mut struck = struck.into_inner().unwrap_or_else(PoisonError::into_inner);
    struck.sort_by_key(|it| it.step.number);
    struck
}

fn one(fixture: &Fixture, step: &Step, is_over: &AtomicBool) -> Struck {
    let at_ms = Timestamp::now().as_millisecond();
    let begun_at = Instant::now();
    let result = strike(fixture, step).and_then(|held| {
        sleep_until(begun_at, step.for_ms, is_over);
        heal(fixture, step, held)
    });
    let healed_ms = Timestamp::now().as_millisecond();
    Struck { step: step.clone(), at_ms, healed_ms, failed: result.err().map(|error| format!("{error:#}")) }
}

/// False where the run is over before that.
fn sleep_until(begun_at: Instant, after_ms: u64, is_over: &AtomicBool) -> bool {
    let after = Duration::from_millis(after_ms);
    while !is_over.load(Ordering::SeqCst) {
        let left = after.saturating_sub(begun_at.elapsed());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
    false
}

/// Begins it; some faults are held by a connection.
fn strike(fixture: &Fixture, step: &Step) -> Result<Option<Locked>> {
    let (target, services) = (step.target.as_str(), &fixture.services);
    match step.kind {
        Kind::KillDispatcher
        | Kind::KillExecutor
        | Kind::KillProjector
        | Kind::KillApi
        | Kind::KillProducers
        | Kind::KillLogs => {
            fixture.role(target)?.kill()?;
        }
        Kind::RestartExecutor | Kind::UpgradeExecutor => fixture.role(target)?.leave()?,
        Kind::PauseDispatcher
        | Kind::PauseExecutor
        | Kind::PauseProjector
        | Kind::PauseApi
        | Kind::PauseProducers
        | Kind::PauseLogs => {
            fixture.role(target)?.signal(Signal::STOP)?;
        }
        Kind::BrokerKill => services.end(Service::Kafka, Signal::KILL)?,
        Kind::BrokerRestart => services.end(Service::Kafka, Signal::TERM)?,
        Kind::BrokerPause => services.signal(Service::Kafka, Signal::STOP)?,
        Kind::DatabaseKill => services.end(Service::Mariadb, Signal::KILL)?,
        Kind::DatabaseLock => return services.lock_tables().map(Some),
        Kind::RedisFlush => services.flush_redis()?,
        Kind::RedisKill => services.end(Service::Redis, Signal::KILL)?,
        Kind::DiskFull => fixture.disk.as_ref().ok_or_else(|| anyhow!("there is no disk"))?.fill()?,
        Kind::Cut => plug(fixture, target, false)?,
        Kind::Delay => fixture.link(target)?.set(Mode::Delay(Duration::from_millis(step.size))),
        Kind::Stall => fixture.link(target)?.set(Mode::Stall),
        Kind::Reset => fixture.link(target)?.set(Mode::Reset),
        Kind::LoseSent => fixture.link(target)?.set(Mode::LoseSent),
        Kind::LoseReceived => fixture.link(target)?.set(Mode::LoseReceived),
    }
    Ok(None)
}

fn heal(fixture: &Fixture, step: &Step, held: Option<Locked>) -> Result<()> {
    let (target, services) = (step.target.as_str(), &fixture.services);
    match step.kind {
        Kind::KillDispatcher
        | Kind::KillExecutor
        | Kind::KillProjector
        | Kind::KillApi
        | Kind::KillProducers
        | Kind::KillLogs
        | Kind::RestartExecutor => fixture.role(target)?.start(),
        Kind::UpgradeExecutor => fixture.role(target)?.start_another_file(),
        Kind::PauseDispatcher
        | Kind::PauseExecutor
        | Kind::PauseProjector
        | Kind::PauseApi
        | Kind::PauseProducers
        | Kind::PauseLogs => fixture.role(target)?.signal(Signal::CONT),
        Kind::BrokerKill | Kind::BrokerRestart => services.restart(Service::Kafka),
        Kind::BrokerPause => services.signal(Service::Kafka, Signal::CONT),
        Kind::DatabaseKill => services.restart(Service::Mariadb),
        Kind::DatabaseLock => {
            drop(held);
            Ok(())
        }
        Kind::RedisFlush => Ok(()),
        Kind::RedisKill => services.restart(Service::Redis),
        Kind::DiskFull => fixture.disk.as_ref().ok_or_else(|| anyhow!("there is no disk"))?.empty(),
        Kind::Cut => plug(fixture, target, true),
        Kind::Delay | Kind::Stall | Kind::Reset | Kind::LoseSent | Kind::LoseReceived => {
            fixture.link(target)?.set(Mode::Pass);
            Ok(())
        }
    }
}

fn plug(fixture: &Fixture, target: &str, is_in: bool) -> Result<()> {
    let network = fixture.role(target)?.network.as_ref();
    network.ok_or_else(|| anyhow!("{target} has no network of its own"))?.plug(is_in)
}
