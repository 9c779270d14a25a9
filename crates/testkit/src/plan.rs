//! What a seed decides before anything runs: the shape of the cluster, the faults, the moments of the requests.

use std::ops::Range;

use tidemill_model::Timestamp;

use crate::rng::Rng;

/// What is left out of a history, to find what a failure needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mask {
    /// Indices of faults.
    pub faults: Vec<usize>,
    /// Indices of requests.
    pub client_requests: Vec<usize>,
}

/// What a history may contain beyond the faults that Tidemill lives with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Nothing: every rule holds, and everything comes to rest.
    #[default]
    Usual,
    /// The log loses records that it had acknowledged: the end of a journal, or of the commands.
    LostTail,
    /// The commands of a partition are cut off above the resume point, or their topic is rebuilt.
    LostTopic,
    /// To fold an event panics, until somebody fixes it.
    FailingFold,
    /// The log is restored from a state that it had some seconds before, while workers live on.
    Restored,
}

impl Mode {
    /// All of them, with their names.
    pub const ALL: [(Mode, &'static str); 5] = [
        (Mode::Usual, "usual"),
        (Mode::LostTail, "lost-tail"),
        (Mode::LostTopic, "lost-topic"),
        (Mode::FailingFold, "failing-fold"),
        (Mode::Restored, "restored"),
    ];
}

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $fault:ident => $name:literal,)+) => {
        /// What goes wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $($(#[doc = $doc])+ $fault,)+
        }

        impl Fault {
            /// All of them, with their names.
            pub const ALL: &'static [(Fault, &'static str)] = &[$((Fault::$fault, $name),)+];
        }
    };
}

faults! {
    /// A dispatcher process ends at once; what it had sent still lands.
    CrashHost => "crash_host",
    /// The same, and what it had sent lands late.
    CrashHostWithZombies => "crash_host_with_zombies",
    /// The same, and what it had sent is lost.
    CrashHostLosingAppends => "crash_host_losing_appends",
    /// A dispatcher process stands still; what it had sent lands when it goes on.
    PauseHost => "pause_host",
    /// A dispatcher process does not reach the log.
    CutHost => "cut_host",
    /// Its wall clock jumps.
    StepClock => "step_clock",
    /// It reads late.
    SlowReader => "slow_reader",
    /// A partition is suggested to another process.
    MoveSuggestion => "move_suggestion",
    /// A partition is suggested to two processes.
    OverlapSuggestion => "overlap_suggestion",
    /// Two processes claim one epoch of a partition.
    RivalClaims => "rival_claims",
    /// An append has an unknown outcome, and landed.
    UnknownLanded => "unknown_landed",
    /// An append has an unknown outcome, and did not land.
    UnknownLost => "unknown_lost",
    /// An append has an unknown outcome, and lands later.
    UnknownLate => "unknown_late",
    /// A claim of the present owner's has an unknown outcome and lands later.
    ZombieClaim => "zombie_claim",
    /// An append's success is told without its offset.
    SuccessWithoutOffset => "success_without_offset",
    /// An append is refused.
    RefusedAppend => "refused_append",
    /// The producer has no room.
    FullProducer => "full_producer",
    /// An append takes seconds.
    DelayedAppend => "delayed_append",
    /// Effects of an owner do not arrive, and it is told so.
    LostEffects => "lost_effects",
    /// Replies do not arrive.
    LostReplies => "lost_replies",
    /// Commands land twice.
    DuplicatedCommands => "duplicated_commands",
    /// Commands land late.
    DelayedCommands => "delayed_commands",
    /// Commands that are done with are deleted.
    TrimmedCommands => "trimmed_commands",
    /// A worker process ends at once, and comes back.
    CrashWorker => "crash_worker",
    /// The same, and its state directory is gone.
    CrashWorkerLosingDirectory => "crash_worker_losing_directory",
    /// Its machine begins anew.
    RebootWorker => "reboot_worker",
    /// A worker process stands still.
    PauseWorker => "pause_worker",
    /// A worker does not reach the log.
    CutWorker => "cut_worker",
    /// A worker's heartbeats are lost.
    MuteWorker => "mute_worker",
    /// A worker is told to stop, and comes back.
    StopWorker => "stop_worker",
    /// A worker misses messages, and knows it.
    MissedWork => "missed_work",
    /// A shim is killed.
    KillShim => "kill_shim",
    /// What a worker said to give assignments back arrives after these were granted to it.
    OverdueRejections => "overdue_rejections",
    /// Workers are cut off, or their heartbeats lost, mostly past their leases, just when they are granted something.
    CutAtGrant => "cut_at_grant",
    /// Every machine is off for days, or for more than a year.
    LongStop => "long_stop",
    /// Workers' questions are lost, and their heartbeats are not.
    LostQuestions => "lost_questions",
    /// What owners tell workers arrives late, in another order, or twice.
    LateWork => "late_work",
    /// The log's acknowledgements come late to workers.
    LateAcknowledgements => "late_acknowledgements",
    /// Just when they are assigned something, workers end or stand still, and batches are killed.
    CutAtAssignment => "cut_at_assignment",
}

impl Fault {
    /// Those that any history may have; the others are planned by themselves.
    fn common() -> impl Iterator<Item = Fault> {
        let planned = |fault: &Fault| *fault == Fault::LongStop || Self::OF_RIGHTS.contains(fault);
        Self::ALL.iter().map(|(fault, _)| *fault).filter(move |fault| !planned(fault))
    }

    /// What only histories with rights to start have.
    const OF_RIGHTS: [Fault; 4] =
        [Fault::LostQuestions, Fault::LateWork, Fault::LateAcknowledgements, Fault::CutAtAssignment];

    /// By which attempts that have begun are lost: some histories have more of them.
    const OF_LOSSES: [Fault; 2] = [Fault::RebootWorker, Fault::KillShim];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(fault, _)| *fault == self).map_or("", |(_, name)| name)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) index: usize,
    pub(crate) fault: Fault,
    pub(crate) at: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) mode: Mode,
    /// Nothing is left out of it.
    pub(crate) whole: bool,
    /// What the clocks show when it begins.
    pub(crate) start: Timestamp,
    pub(crate) partitions: u32,
    pub(crate) groups: usize,
    pub(crate) clusters: usize,
    pub(crate) faults: Vec<Planned>,
    /// Whether it is one in which everything is off for days.
    pub(crate) stops: bool,
    /// Whether shards evict all of their history that they can.
    pub(crate) forgets: bool,
    /// Whether somebody applies hundreds of jobs at once.
    pub(crate) is_large: bool,
    /// Whether all processes read level 2 from the start, so that workers get rights to start.
    pub(crate) rights: bool,
    /// Index and moment of each request.
    pub(crate) client_requests: Vec<(usize, u64)>,
    /// When the last request and fault have been.
    pub(crate) end: u64,
}

/// Where most histories begin: at the end of an ordinary Wednesday.
const WEDNESDAY: Timestamp = Timestamp::constant(1_790_812_780);
/// The others begin shortly before the clocks of Berlin are set back, from 03:00 to 02:00.
const LONG_NIGHT: Timestamp = Timestamp::constant(1_792_889_980);

/// Before this, groups and workers begin.
const BEGIN_MS: u64 = 4_000;
/// The index of the fault that is planned by itself.
const LONG_STOP: usize = 900;
/// The indices of those of rights begin here.
const OF_RIGHTS: usize = 910;
/// And of those by which attempts are lost.
const OF_LOSSES: usize = 920;
/// The fewest commands in the log of a history, of people, clients, workers and the world outside.
pub(crate) const LEAST_COMMANDS: usize = 100;
/// The fewest faults of a history.
pub(crate) const LEAST_FAULTS: u64 = 3;

impl Plan {
    /// Whether an hour comes twice in it.
    pub(crate) fn is_long_night(&self) -> bool {
        self.start == LONG_NIGHT
    }

    pub(crate) fn new(seed: u64, mode: Mode, mask: &Mask) -> Self {
        let client_requests = match mode {
            Mode::Usual => 20..36,
            // What is to be lost has to be there.
            Mode::LostTail | Mode::LostTopic | Mode::FailingFold | Mode::Restored => 100..125,
        };
        Self::with(seed, mode, mask, client_requests)
    }

    /// A longer history, in which a fault of the product comes up sooner.
    #[cfg(feature = "planted")]
    pub(crate) fn long(seed: u64) -> Self {
        Self::with(seed, Mode::Usual, &Mask::default(), 40..50)
    }

    fn with(seed: u64, mode: Mode, mask: &Mask, count: Range<u64>) -> Self {
        let mut rng = Rng::new(seed, "plan", 0);
        let groups = rng.range(1, 4) as usize;
        let clusters = groups.max(rng.range(1, 4) as usize);
        let partitions = rng.range(1, 4) as u32;
        // In some, leases run out between two requests.
        let pace = if mode == Mode::Usual && Rng::new(seed, "pace", 0).chance(30) { 3 } else { 1 };
        let gap = pace * rng.range(200, 900);
        let mut at = BEGIN_MS;
        let mut client_requests = Vec::new();
        for index in 0..rng.range(count.start, count.end) as usize {
            at += rng.range(1, 2 * gap);
            if !mask.client_requests.contains(&index) {
                client_requests.push((index, at));
            }
        }
        let common: Vec<Fault> = Fault::common().collect();
        let mut faults = Vec::new();
        for index in 0..rng.range(LEAST_FAULTS, 12) as usize {
            let fault = common[rng.below(common.len())];
            let at = rng.range(BEGIN_MS, at);
            if !mask.faults.contains(&index) {
                faults.push(Planned { index, fault, at });
            }
        }
        let mut stop = Rng::new(seed, "stop", 0);
        let stops = mode == Mode::Usual && stop.chance(8);
        if stops && !mask.faults.contains(&LONG_STOP) {
            let at = stop.range(at / 3, at);
            faults.push(Planned { index: LONG_STOP, fault: Fault::LongStop, at });
        }
        let mut of_rights = Rng::new(seed, "rights", 0);
        let rights = of_rights.chance(60);
        if rights {
            faults.extend(several(&mut of_rights, (OF_RIGHTS, &Fault::OF_RIGHTS), at, mask));
        }
        let mut losses = Rng::new(seed, "losses", 0);
        if losses.chance(40) {
            faults.extend(several(&mut losses, (OF_LOSSES, &Fault::OF_LOSSES), at, mask));
        }
        let forgets = Rng::new(seed, "forgets", 0).chance(75);
        let is_large = Rng::new(seed, "large", 0).chance(4);
        let start = if Rng::new(seed, "night", 0).chance(5) { LONG_NIGHT } else { WEDNESDAY };
        let whole = *mask == Mask::default();
        let end = at + 1_000;
        Self {
            seed,
            mode,
            whole,
            start,
            partitions,
            groups,
            clusters,
            faults,
            stops,
            forgets,
            is_large,
            rights,
            client_requests,
            end,
        }
    }
}

/// One to four more faults of some kinds, the first with the index `first`.
fn several(rng: &mut Rng, (first, kinds): (usize, &[Fault]), until: u64, mask: &Mask) -> Vec<Planned> {
    let count = rng.range(1, 5) as usize;
    let planned = |index| {
        let fault = kinds[rng.below(kinds.len())];
        Planned { index, fault, at: rng.range(BEGIN_MS, until) }
    };
    (first..first + count).map(planned).filter(|fault| !mask.faults.contains(&fault.index)).collect()
}
