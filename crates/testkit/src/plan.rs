//! What a seed decides before anything runs: the shape of the cluster, the faults, the moments of the wishes.

use crate::rng::Rng;

/// What is left out of a history, to find what a failure needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mask {
    /// Indices of faults.
    pub faults: Vec<usize>,
    /// Indices of wishes.
    pub wishes: Vec<usize>,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A dispatcher process ends at once; what it had sent still lands.
    CrashHost,
    /// The same, and what it had sent lands late.
    CrashHostWithZombies,
    /// The same, and what it had sent is lost.
    CrashHostLosingAppends,
    /// A dispatcher process stands still; what it had sent lands when it goes on.
    PauseHost,
    /// A dispatcher process does not reach the log.
    CutHost,
    /// Its wall clock jumps.
    StepClock,
    /// It reads late.
    SlowReader,
    /// A partition is suggested to another process.
    MoveSuggestion,
    /// A partition is suggested to two processes.
    OverlapSuggestion,
    /// An append has an unknown outcome, and landed.
    UnknownLanded,
    /// An append has an unknown outcome, and did not land.
    UnknownLost,
    /// An append has an unknown outcome, and lands later.
    UnknownLate,
    /// A claim of the present owner's has an unknown outcome and lands later.
    ZombieClaim,
    /// An append's success is told without its offset.
    SuccessWithoutOffset,
    /// An append is refused.
    RefusedAppend,
    /// The producer has no room.
    FullProducer,
    /// An append takes seconds.
    DelayedAppend,
    /// Effects of an owner do not arrive, and it is told so.
    LostEffects,
    /// Replies do not arrive.
    LostReplies,
    /// Commands land twice.
    DuplicatedCommands,
    /// Commands land late.
    DelayedCommands,
    /// A worker process ends at once, and comes back.
    CrashWorker,
    /// The same, and its state directory is gone.
    CrashWorkerLosingDirectory,
    /// Its machine begins anew.
    RebootWorker,
    /// A worker process stands still.
    PauseWorker,
    /// A worker does not reach the log.
    CutWorker,
    /// A worker's heartbeats are lost.
    MuteWorker,
    /// A worker is told to stop, and comes back.
    StopWorker,
    /// A worker misses messages, and knows it.
    MissedWork,
    /// A shim is killed.
    KillShim,
}

impl Fault {
    /// All of them.
    pub const ALL: [(Fault, &'static str); 30] = [
        (Fault::CrashHost, "crash_host"),
        (Fault::CrashHostWithZombies, "crash_host_with_zombies"),
        (Fault::CrashHostLosingAppends, "crash_host_losing_appends"),
        (Fault::PauseHost, "pause_host"),
        (Fault::CutHost, "cut_host"),
        (Fault::StepClock, "step_clock"),
        (Fault::SlowReader, "slow_reader"),
        (Fault::MoveSuggestion, "move_suggestion"),
        (Fault::OverlapSuggestion, "overlap_suggestion"),
        (Fault::UnknownLanded, "unknown_landed"),
        (Fault::UnknownLost, "unknown_lost"),
        (Fault::UnknownLate, "unknown_late"),
        (Fault::ZombieClaim, "zombie_claim"),
        (Fault::SuccessWithoutOffset, "success_without_offset"),
        (Fault::RefusedAppend, "refused_append"),
        (Fault::FullProducer, "full_producer"),
        (Fault::DelayedAppend, "delayed_append"),
        (Fault::LostEffects, "lost_effects"),
        (Fault::LostReplies, "lost_replies"),
        (Fault::DuplicatedCommands, "duplicated_commands"),
        (Fault::DelayedCommands, "delayed_commands"),
        (Fault::CrashWorker, "crash_worker"),
        (Fault::CrashWorkerLosingDirectory, "crash_worker_losing_directory"),
        (Fault::RebootWorker, "reboot_worker"),
        (Fault::PauseWorker, "pause_worker"),
        (Fault::CutWorker, "cut_worker"),
        (Fault::MuteWorker, "mute_worker"),
        (Fault::StopWorker, "stop_worker"),
        (Fault::MissedWork, "missed_work"),
        (Fault::KillShim, "kill_shim"),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(fault, _)| *fault == self).map_or("", |(_, name)| name)
    }
}

/// A fault with its moment.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) index: usize,
    pub(crate) fault: Fault,
    pub(crate) at: u64,
}

/// Everything that the seed decides beforehand.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) partitions: u32,
    pub(crate) groups: usize,
    pub(crate) sites: usize,
    pub(crate) faults: Vec<Planned>,
    /// Index and moment of each wish.
    pub(crate) wishes: Vec<(usize, u64)>,
    /// When the last wish and fault have been.
    pub(crate) end: u64,
}

/// Before this, groups and workers begin.
const BEGIN_MS: u64 = 4_000;

impl Plan {
    pub(crate) fn new(seed: u64, mask: &Mask) -> Self {
        let mut rng = Rng::new(seed, "plan", 0);
        let groups = rng.range(1, 4) as usize;
        let sites = groups.max(rng.range(1, 4) as usize);
        let partitions = rng.range(1, 4) as u32;
        let gap = rng.range(200, 900);
        let mut at = BEGIN_MS;
        let mut wishes = Vec::new();
        for index in 0..rng.range(100, 125) as usize {
            at += rng.range(1, 2 * gap);
            if !mask.wishes.contains(&index) {
                wishes.push((index, at));
            }
        }
        let mut faults = Vec::new();
        for index in 0..rng.range(3, 12) as usize {
            let (fault, _) = Fault::ALL[rng.below(Fault::ALL.len())];
            let at = rng.range(BEGIN_MS, at);
            if !mask.faults.contains(&index) {
                faults.push(Planned { index, fault, at });
            }
        }
        Self { seed, partitions, groups, sites, faults, wishes, end: at + 1_000 }
    }
}
