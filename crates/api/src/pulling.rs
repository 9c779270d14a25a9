//! A pull: the hint spares the owner where it can, else the owner is asked (PUL-5, PUL-6).
//!
//! ```text
//!  look ── a hint counts ──────────────► nothing is due yet ─┐
//!   └───── none ─► ask the owner ─► a grant                  ├─► the answer, or wait and look again
//!                        └────────► nothing is due; keep it ─┘
//! ```
//! What is told to a client as its grant always comes from the owner.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_journal::now;
use tidemill_model::{
    Answer, Command, Permission, PulledGrant, Rejection, ShardId, TaskCommand, Timestamp, UserName,
};
use tidemill_store::hints::{Hint, Life, Place};
use tokio::sync::OwnedSemaphorePermit;

use crate::Problem;
use crate::app::App;
use crate::known::{HomeGroup, homeless};
use crate::object::Object;
use crate::rights::{Caller, Right};
use crate::standing::Standing;
use crate::write::{Done, Write};

/// Between two looks of a pull that waits.
const LOOK: Duration = Duration::from_millis(200);
/// So much longer for every pull that waits, so that many of them do not look all the time.
const LOOK_EACH: Duration = Duration::from_micros(50);
/// Between two questions to the owner, where no hint tells that nothing has changed.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Where the owner knows of nothing to come, it knows that for its window, an hour or more from when it was asked, which
/// was at most [`FRESH`] ago.
const KNOWN_FOR: Duration = Duration::from_secs(59 * 60);
/// An answer that took longer may be older than marks that are gone: it makes no hint.
const FRESH: Duration = Duration::from_secs(60);

/// Who pulls, and where that is decided.
pub(crate) struct Puller<'a> {
    pub(crate) app: &'a App,
    pub(crate) caller: Caller,
    pub(crate) right: Right,
    pub(crate) user: UserName,
    home: HomeGroup,
}

/// What a client gets.
pub(crate) enum Pulled {
    /// This, new or again.
    Grant(Box<PulledGrant>),
    /// Nothing; something begins then, as far as is known.
    Nothing { next_at: Option<Timestamp> },
}

/// What one look gave.
enum Seen {
    Grant(Box<PulledGrant>),
    /// Nothing before then.
    Nothing {
        until: Timestamp,
        next_at: Option<Timestamp>,
        /// A hint says so, which the next look will see.
        hinted: bool,
    },
}

/// To pull for a user; whoever may not see the user's group is told that there is no such user.
fn right(caller: &Caller, user: &UserName, home: &HomeGroup) -> Result<Right, Problem> {
    if !caller.reaches(&home.group) {
        return Err(homeless(user).foreign());
    }
    caller.may(Permission::Operate, &Object::new("user", user, Arc::clone(&home.group)))
}

impl<'a> Puller<'a> {
    /// Finds the user's home group, which the caller's key has to reach.
    pub(crate) async fn new(app: &'a App, caller: &Caller, user: UserName) -> Result<Self, Problem> {
        let home = app.home_of(&user).await?;
        let right = right(caller, &user, &home)?;
        Ok(Self { app, caller: caller.clone(), right, user, home })
    }

    /// Pulls; where nothing is due, waits for at most `wait` and as long as the caller may. `leave` is called before
    /// that.
    pub(crate) async fn pull(
        &mut self,
        wait: Duration,
        standing: &mut Standing,
        leave: impl FnOnce(),
    ) -> Result<Pulled, Problem> {
        let deadline = Instant::now() + wait;
        let (mut pause, mut leave, mut waiting) = (LOOK, Some(leave), None::<OwnedSemaphorePermit>);
        let mut stopping = self.app.stopping.clone();
        loop {
            let left = |now: Instant| deadline.saturating_duration_since(now);
            if standing.look().await? {
                self.caller = standing.caller().clone();
                self.right = right(&self.caller, &self.user, &self.home)?;
            }
            let (until, next_at) = match self.look().await {
                Ok(Seen::Grant(grant)) => return Ok(Pulled::Grant(grant)),
                Ok(Seen::Nothing { until, next_at, hinted }) => {
                    pause = if hinted { LOOK } else { (pause * 2).min(LONGEST_PAUSE) };
                    (until, next_at)
                }
                // Who waits anyway may as well wait for this.
                Err(problem) if problem.retry_after_s.is_some() && left(Instant::now()) > LONGEST_PAUSE => {
                    pause = LONGEST_PAUSE;
                    (Timestamp::MAX, None)
                }
                Err(problem) => return Err(problem),
            };
            let left = left(Instant::now());
            if left.is_zero() || *stopping.borrow() {
                return Ok(Pulled::Nothing { next_at });
            }
            if waiting.is_none() {
                waiting = Some(self.place_to_wait()?);
                leave.take().into_iter().for_each(|leave| leave());
            }
            let begins = Duration::try_from(until.duration_since(now())).unwrap_or_default();
            let nap = (pause + LOOK_EACH * self.app.pulls_waiting()).min(begins).min(left);
            tokio::select! {
                () = tokio::time::sleep(nap.max(Duration::from_millis(1))) => {}
                // The sender is gone only when nobody can stop it.
                Ok(_) = stopping.wait_for(|stopping| *stopping) => {}
            }
        }
    }

    fn place_to_wait(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.app.waiting_pulls).try_acquire_owned().map_err(|_| {
            let bound = self.app.config.max_waiting_pulls;
            Problem::overloaded(format!("{bound} pulls wait already, the bound; pull without wait_s"), 1)
        })
    }

    async fn look(&mut self) -> Result<Seen, Problem> {
        let begun_at = Instant::now();
        let place = self.place();
        // Without hints, everything is as it is without them, only slower.
        let look = self.app.deps.hints.look(&place).await.unwrap_or_default();
        let begun = now();
        if let Some(hint) = look.counting(begun.as_millisecond()) {
            let until = Timestamp::from_millisecond(hint.until_ms).unwrap_or(begun);
            return Ok(Seen::Nothing { until, next_at: hint.begins.then_some(until), hinted: true });
        }
        let done = self.ask().await?;
        match done.answer {
            Answer::Pulled(grant) => Ok(Seen::Grant(grant)),
            Answer::NothingDue { next_at } => {
                let until = next_at.unwrap_or(now().saturating_add(KNOWN_FOR).unwrap_or(Timestamp::MAX));
                let is_of_it = done.position.partition == place.partition && place == self.place();
                let life = look.life.filter(|_| is_of_it && begun_at.elapsed() < FRESH);
                let hinted = match life {
                    Some(life) => {
                        self.keep(&place, life, done.position.offset, until, next_at.is_some()).await
                    }
                    None => false,
                };
                Ok(Seen::Nothing { until, next_at, hinted })
            }
            _ => Err(done.unexpected()),
        }
    }

    /// Keeps what the owner said; `life` held before it was asked.
    async fn keep(&self, place: &Place, life: Life, offset: u64, until: Timestamp, begins: bool) -> bool {
        let hint = Hint { life, offset, until_ms: until.as_millisecond(), begins };
        let kept_for = Duration::try_from(until.duration_since(now())).unwrap_or_default();
        !kept_for.is_zero() && self.app.deps.hints.keep(place, &hint, kept_for).await.is_ok()
    }

    fn place(&self) -> Place {
        let shard: ShardId = self.home.shard;
        let partition = shard.partition(self.app.deps.partitions);
        Place { partition, shard: shard.0, user: self.user.as_str().into() }
    }

    /// Asks the owner, a bounded number at once, so that a group that wakes leaves room for others.
    async fn ask(&mut self) -> Result<Done, Problem> {
        let asking = Arc::clone(&self.app.asking_pulls).acquire_owned();
        let patience = self.app.config.write_timeout();
        let Ok(Ok(_permit)) = tokio::time::timeout(patience, asking).await else {
            let bound = self.app.config.max_pull_requests_in_flight;
            return Err(Problem::overloaded(format!("{bound} pulls are being decided, the bound"), 1));
        };
        let command = TaskCommand::Pull { user: self.user.clone() };
        self.send(&Write::fresh(self.app, self.right.clone()), command).await
    }

    /// Sends a command to the owner of the user's home group; where that does not know the user, the user may have
    /// moved a moment ago. The request's id there names the shard, so that a repeat finds its answer from whichever home it
    /// begins, and none that was meant for another shard.
    pub(crate) async fn send(&mut self, write: &Write<'_>, command: TaskCommand) -> Result<Done, Problem> {
        let command = Command::from(command);
        let to = async |shard: ShardId| write.part(shard).send_once(shard, command.clone()).await;
        let refused = match to(self.home.shard).await? {
            Ok(done) => return Ok(done),
            Err(rejection) => rejection,
        };
        if !refused.is_of_no_member() {
            return Err(refused.into());
        }
        let moving = Rejection::UserMoving { user: self.user.to_string() };
        let home = self.app.home_of(&self.user).await?;
        self.right = right(&self.caller, &self.user, &home)?;
        if home.moving || home.shard == self.home.shard {
            // It is on its way: the catalogue knows it, its shard not yet, or no more.
            return Err(moving.into());
        }
        self.home = home;
        // The shard to which it moved may not have heard of it yet.
        let refused =
            |refused: Rejection| if refused.is_of_no_member() { moving.into() } else { refused.into() };
        to(self.home.shard).await?.map_err(refused)
    }
}
