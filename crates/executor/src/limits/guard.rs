//! What a shim does about the limits of its attempt, from before its first process to after its last.

use std::io;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getpriority_process, getrlimit, setpriority_process, setrlimit,
};
use tidemill_model::{Excess, ExcessKind, LimitKind, Limits};

use super::ShimLimits;
use super::group::{Counted, Group};
use super::meter::{self, Seen};
use crate::attempt_dir::{ExitRecord, OutputCount};
use crate::machine::boottime_ms;
use crate::shim::Located;
use crate::stderr;

/// From one look at an attempt with limits to the next, and from the start of any to the first.
const LOOK_MS: u64 = 1_000;
/// The longest pause between two looks at an attempt without limits, which only measure it.
const SELDOM_MS: u64 = 16_000;
/// What the exit code of a shell is whose last program was killed.
const SHELL_KILLED: i32 = 128 + 9;
/// The kernel takes a process with a low score last, when there is no memory.
const OOM_SCORE: &str = "-900";
/// Before all others of the account that share the processor.
const HIGHEST: i32 = -20;

/// Keeps the limits of one attempt, and measures what it uses.
#[derive(Debug)]
pub(crate) struct Guard {
    limits: Limits,
    group: Option<Group>,
    unenforced: Vec<LimitKind>,
    /// The most that was seen.
    peak: Seen,
    look_at_ms: u64,
    pause_ms: u64,
    excesses: Vec<Excess>,
    must_end: bool,
    /// Processes of the host that had been ended for want of memory at the first look.
    host_oom_kills: Option<u64>,
    /// A child of the shim that is no process of the attempt.
    spared: Option<Pid>,
}

impl Guard {
    /// Makes the group of an attempt that has limits. Where the kernel refuses a limit, its processes are looked at instead.
    pub(crate) fn begin(limits: Option<&ShimLimits>, name: &str) -> Self {
        let mut guard = Self {
            limits: Limits::default(),
            group: None,
            unenforced: Vec::new(),
            peak: Seen::default(),
            look_at_ms: boottime_ms() + LOOK_MS,
            pause_ms: LOOK_MS,
            excesses: Vec::new(),
            must_end: false,
            host_oom_kills: None,
            spared: None,
        };
        if let Some(ShimLimits { limits, tree }) = limits {
            guard.limits = *limits;
            let (group, failed) = Group::make(tree, name, limits);
            for error in failed {
                stderr::say(format_args!(
                    "tidemill shim: a limit of {name} is not kept by the kernel: {error}"
                ));
            }
            guard.group = Some(group).filter(|group| !group.is_empty());
            let has_cpu = guard.group.as_ref().is_some_and(|group| group.tree().cpu.is_some());
            guard.unenforced.extend((limits.cpu_percent.is_some() && !has_cpu).then_some(LimitKind::Cpu));
        }
        guard
    }

    /// Whether the job's first process has to do something before it becomes the job.
    pub(crate) fn prepares(&self) -> bool {
        self.group.is_some() || self.limits.open_files.is_some()
    }

    /// What that is. The error is for people.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        if let Some(group) = &self.group {
            group.enter().map_err(|error| format!("cannot enter its control group: {error}"))?;
        }
        match self.limits.open_files {
            Some(most) => limit_files(u64::from(most))
                .map_err(|error| format!("cannot limit its open files to {most}: {error}")),
            None => Ok(()),
        }
    }

    /// This child of the shim is no process of the attempt.
    pub(crate) fn spare(&mut self, child: Option<Pid>) {
        self.spared = child;
    }

    /// When to look next.
    pub(crate) fn look_at_ms(&self) -> u64 {
        self.look_at_ms
    }

    /// Looks at the processes.
    pub(crate) fn look(&mut self, now_ms: u64) {
        if self.limits.is_empty() {
            self.pause_ms = (self.pause_ms * 2).min(SELDOM_MS);
        }
        self.look_at_ms = now_ms + self.pause_ms;
        if self.host_oom_kills.is_none() {
            self.host_oom_kills = meter::host_oom_kills();
        }
        let seen = meter::look(getpid(), self.spared);
        self.peak.processes = self.peak.processes.max(seen.processes);
        self.peak.memory_kib = self.peak.memory_kib.max(seen.memory_kib);
        self.judge(seen);
    }

    /// Where the processes are, and the most that was seen of them.
    pub(crate) fn located(&self) -> Located {
        let counted = self.group.as_ref().map(Group::counted).unwrap_or_default();
        Located {
            shim: getpid().as_raw_nonzero().get(),
            beside: self.spared.map(|pid| pid.as_raw_nonzero().get()),
            peak_memory_kib: self.peak.memory_kib.max(counted.peak_kib.unwrap_or(0)),
            peak_processes: self.peak.processes.max(counted.peak_processes.unwrap_or(0)),
        }
    }

    fn judge(&mut self, seen: Seen) {
        let has = |of: fn(&Group) -> bool| self.group.as_ref().is_some_and(of);
        let (memory_kept, processes_kept) =
            (has(|group| group.tree().memory.is_some()), has(|group| group.tree().processes.is_some()));
        let memory_kib =
            self.group.as_ref().and_then(Group::memory_kib).unwrap_or_else(|| self.confirmed(seen));
        if let Some(limit) = self.limits.memory_alarm_mb.filter(|limit| memory_kib > kib(*limit)) {
            self.note(ExcessKind::MemoryAlarm, limit, mib(memory_kib));
        }
        if let Some(limit) = self.limits.memory_mb.filter(|limit| !memory_kept && memory_kib > kib(*limit)) {
            self.note(ExcessKind::Memory, limit, mib(memory_kib));
            self.must_end = true;
        }
        match self.limits.processes {
            Some(limit) if processes_kept => self.refused(limit),
            Some(limit) if seen.processes > limit => {
                self.note(ExcessKind::Processes, limit, seen.processes);
                self.must_end = true;
            }
            Some(_) | None => {}
        }
    }

    /// A quick look counts what processes share in each of them, so what seems too much is looked at closely.
    fn confirmed(&self, seen: Seen) -> u64 {
        let lowest = [self.limits.memory_mb, self.limits.memory_alarm_mb].into_iter().flatten().min();
        match lowest {
            Some(limit) if seen.memory_kib > kib(limit) => {
                meter::look_closely(getpid(), self.spared).memory_kib
            }
            Some(_) | None => seen.memory_kib,
        }
    }

    /// The kernel has let it start no more processes, and that by its own limit: where one above has refused them, its own was
    /// not reached.
    fn refused(&mut self, limit: u32) {
        let counted = self.group.as_ref().map(Group::counted).unwrap_or_default();
        // Older kernels do not say how many there were at most.
        let is_own = counted.peak_processes.is_none_or(|peak| peak >= limit);
        if counted.refused > 0 && is_own {
            self.note(ExcessKind::Processes, limit, counted.peak_processes);
        }
    }

    /// What it has printed, each of its outputs, where a log keeps no more than so many bytes.
    pub(crate) fn printed(&mut self, outputs: [OutputCount; 2], max_bytes: Option<u64>) {
        let longest = outputs.map(|output| output.written_bytes.saturating_add(output.dropped_bytes));
        let longest = longest.into_iter().max().unwrap_or(0);
        if let Some(max_bytes) = max_bytes.filter(|max_bytes| longest > *max_bytes) {
            self.note(ExcessKind::Output, mib(max_bytes >> 10), mib(longest.div_ceil(1024)));
        }
    }

    /// Each kind once.
    fn note(&mut self, kind: ExcessKind, limit: u32, seen: impl Into<Option<u32>>) {
        if self.excesses.iter().all(|excess| excess.kind != kind) {
            self.excesses.push(Excess { kind, limit: Some(limit), seen: seen.into() });
        }
    }

    /// Whether it is beyond a limit that nobody else keeps.
    pub(crate) fn must_end(&self) -> bool {
        self.must_end
    }

    /// What was noted of it so far, in this order.
    pub(crate) fn excesses(&self) -> &[Excess] {
        &self.excesses
    }

    /// Nothing of it is left: says what it used, and removes its group.
    pub(crate) fn finish(mut self, record: &mut ExitRecord) {
        let counted = self.group.as_ref().map(Group::counted).unwrap_or_default();
        if let Some(limit) = self.limits.processes {
            self.refused(limit);
        }
        let killed = self.killed_by_the_kernel(&counted, record);
        self.excesses.extend(killed);
        record.excess = self.excesses.iter().copied().min_by_key(|excess| rank(excess.kind));
        let peaks = [record.peak_memory_kib, self.peak.memory_kib, counted.peak_kib.unwrap_or(0)];
        record.peak_memory_kib = peaks.into_iter().max().unwrap_or(0);
        let has_run = record.exit_code.is_some() || record.signal.is_some();
        let processes = counted.peak_processes.unwrap_or(0).max(self.peak.processes);
        record.peak_processes = has_run.then_some(processes.max(1));
        record.unenforced = self.unenforced;
        if let Some(group) = self.group {
            group.remove();
        }
    }

    /// A process of it was ended for want of memory: the group knows by whose limit. Without a group it can only be inferred, from a
    /// kill that nobody here sent while the kernel ended processes of the host.
    fn killed_by_the_kernel(&self, counted: &Counted, record: &ExitRecord) -> Option<Excess> {
        let seen = counted.peak_kib.map(mib);
        let of_host = Excess { kind: ExcessKind::HostMemory, limit: None, seen };
        if self.group.as_ref().is_some_and(|group| group.tree().memory.is_some()) {
            let limit = self.limits.memory_mb.filter(|_| counted.reached_limit);
            let own = limit.map(|limit| Excess { kind: ExcessKind::Memory, limit: Some(limit), seen });
            return (counted.oom_kills > 0).then(|| own.unwrap_or(of_host));
        }
        let was_killed =
            record.signal == Some(Signal::KILL.as_raw()) || record.exit_code == Some(SHELL_KILLED);
        let by_others = was_killed && record.kill_cause.is_none() && !self.must_end;
        let before = self.host_oom_kills.filter(|_| by_others)?;
        (meter::host_oom_kills()? > before).then_some(of_host)
    }
}

/// The shim is to outlive what it watches over, and to end it however many processes that has: this thread of it comes before them
/// for the processor. Without the right to either, it is as any other. Gives the priority that the shim had.
pub(crate) fn protect_shim() -> i32 {
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    let before = getpriority_process(None).unwrap_or(0);
    let _ = setpriority_process(None, HIGHEST);
    before
}

fn kib(mb: u32) -> u64 {
    u64::from(mb) * 1024
}

/// Rounded up, so that it is above what it was found above.
fn mib(kib: u64) -> u32 {
    u32::try_from(kib.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// What says most of an attempt that is over several limits comes first.
fn rank(kind: ExcessKind) -> u8 {
    match kind {
        ExcessKind::Memory => 0,
        ExcessKind::HostMemory => 1,
        ExcessKind::Processes => 2,
        ExcessKind::Output => 3,
        ExcessKind::MemoryAlarm => 4,
    }
}

/// Both what it has and what it may raise that to.
fn limit_files(most: u64) -> io::Result<()> {
    // What the worker may not have itself it cannot give: then the job has as much as the worker may have, which is less.
    let most = getrlimit(Resource::Nofile).maximum.map_or(most, |maximum| most.min(maximum));
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) })?)
}
