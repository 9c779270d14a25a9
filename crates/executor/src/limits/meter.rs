//! A look at the processes of a tree, by `/proc`: how many they are, and how much memory they have.
//!
//! Only the tree is walked, so a look costs by its size, and not by that of the host. A process that begins or ends meanwhile may
//! be missed. Memory that processes share, as since a fork, counts in each of them at a quick look; [`look_closely`] counts it
//! once.

use std::fs;

use rustix::process::Pid;
use tidemill_model::LiveUsage;

use crate::machine::boottime_ms;
use crate::shim::Located;

/// Processes that one look goes through, at most.
const MOST: usize = 65_536;

/// What a look saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seen {
    /// Processes and threads.
    pub(super) processes: u32,
    /// Their memory without files in the cache, KiB.
    pub(super) memory_kib: u64,
}

impl Seen {
    fn of(all: &[Found], memory_kib: fn(i32) -> u64) -> Self {
        let processes = all.iter().fold(0, |sum: u32, found| sum.saturating_add(found.threads));
        Self { processes, memory_kib: all.iter().map(|found| memory_kib(found.pid)).sum() }
    }
}

/// A process that a walk has found.
struct Found {
    pid: i32,
    threads: u32,
}

/// All below this process, without itself, and without one of its children and what is below that.
pub(super) fn look(root: Pid, spared: Option<Pid>) -> Seen {
    Seen::of(&below(root, spared), memory_kib)
}

/// The same, with memory that processes share counted once. It costs much more.
pub(super) fn look_closely(root: Pid, spared: Option<Pid>) -> Seen {
    Seen::of(&below(root, spared), own_memory_kib)
}

/// What the tree below a shim uses now, and has used; nothing where the shim is gone.
pub(crate) fn used(Located { shim, beside, peak_memory_kib, peak_processes }: &Located) -> Option<LiveUsage> {
    let all = below(Pid::from_raw(*shim)?, beside.and_then(Pid::from_raw));
    let seen = Seen::of(&all, memory_kib);
    let ticks = rustix::param::clock_ticks_per_second();
    let ms = |of: u64| of.saturating_mul(1_000) / ticks;
    let own = Stat::of(*shim)?;
    let mut usage = LiveUsage {
        duration_ms: boottime_ms().saturating_sub(ms(own.started)),
        // What was left to the shim when its parent ended.
        cpu_ms: own.waited_for,
        memory_kib: seen.memory_kib,
        peak_memory_kib: seen.memory_kib.max(*peak_memory_kib),
        processes: seen.processes,
        peak_processes: seen.processes.max(*peak_processes),
        ..LiveUsage::default()
    };
    let add = |to: &mut Option<u64>, bytes: Option<u64>| {
        *to = to.map_or(bytes, |sum| Some(sum + bytes.unwrap_or(0)));
    };
    for Found { pid, .. } in all {
        if let Some(stat) = Stat::of(pid) {
            usage.cpu_ms += stat.own + stat.waited_for;
        }
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        add(&mut usage.read_kib, field(&io, "read_bytes:"));
        add(&mut usage.written_kib, field(&io, "write_bytes:"));
    }
    usage.cpu_ms = ms(usage.cpu_ms);
    usage.read_kib = usage.read_kib.map(|bytes| bytes / 1024);
    usage.written_kib = usage.written_kib.map(|bytes| bytes / 1024);
    Some(usage)
}

/// Of `/proc/PID/stat`, in clock ticks.
struct Stat {
    own: u64,
    /// Of children that have ended.
    waited_for: u64,
    started: u64,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // A name may have anything in it.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            own: number(11)? + number(12)?,
            waited_for: number(13)? + number(14)?,
            started: number(19)?,
        })
    }
}

/// All below a process, without one of its children and what is below that.
fn below(root: Pid, spared: Option<Pid>) -> Vec<Found> {
    let mut open = children(root.as_raw_nonzero().get()).1;
    open.retain(|pid| Pid::from_raw(*pid) != spared);
    let mut all = Vec::new();
    while let Some(pid) = open.get(all.len()).copied().filter(|_| all.len() < MOST) {
        let (threads, children) = children(pid);
        open.extend(children);
        all.push(Found { pid, threads });
    }
    all
}

/// The threads of a process, and the children of all of them.
fn children(pid: i32) -> (u32, Vec<i32>) {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return (0, Vec::new()) };
    let (mut threads, mut below) = (0, Vec::new());
    for task in tasks.flatten() {
        threads += 1;
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        below.extend(text.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    (threads, below)
}

fn memory_kib(pid: i32) -> u64 {
    sum(&format!("/proc/{pid}/status"), ["RssAnon:", "RssShmem:"]).unwrap_or(0)
}

/// Its share of what is shared. Where the kernel does not say it, what a quick look counts.
fn own_memory_kib(pid: i32) -> u64 {
    sum(&format!("/proc/{pid}/smaps_rollup"), ["Pss_Anon:", "Pss_Shmem:"]).unwrap_or_else(|| memory_kib(pid))
}

/// Of the fields that the file has; [`None`]: it cannot be read, or has none.
fn sum(file: &str, fields: [&str; 2]) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let found = fields.map(|name| field(&text, name));
    found.iter().any(Option::is_some).then(|| found.into_iter().flatten().sum())
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Processes of this host that the kernel has ended for want of memory since it began.
pub(super) fn host_oom_kills() -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EXE-2: what processes share since a fork counts once at a close look.
    #[test]
    fn shared_memory_counts_once_at_a_close_look() {
        let text = "import os, time\nheld = bytearray(b'x') * (64 << 20)\n\
            children = [os.fork() or time.sleep(60) for _ in range(3)]\ntime.sleep(60)";
        let mut child = std::process::Command::new("python3").args(["-c", text]).spawn().unwrap();
        let me = Pid::from_raw(i32::try_from(std::process::id()).unwrap()).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let main = i32::try_from(child.id()).unwrap();
        while children(main).1.len() < 3 && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        let all = children(main).1;
        let of = |memory: fn(i32) -> u64| all.iter().copied().chain([main]).map(memory).sum::<u64>();
        let (quick, close) = (of(memory_kib), of(own_memory_kib));
        assert!(quick > 4 * 64 * 1024 && (64 * 1024..128 * 1024).contains(&close), "{quick} {close}");
        assert!(look_closely(me, None).memory_kib <= look(me, None).memory_kib);
        for pid in all {
            let _ = rustix::process::kill_process(Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// EXE-7: a grandchild is of the tree, and its memory counts.
    #[test]
    fn grandchildren_are_seen() {
        let mut child = std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let root = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while look(root, None).processes == 0 && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        let seen = look(root, None);
        assert_eq!(seen.processes, 1);
        assert!(host_oom_kills().is_some());
        let sleeping = children(root.as_raw_nonzero().get()).1;
        for pid in sleeping {
            let _ = rustix::process::kill_process(Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL);
        }
        child.wait().unwrap();
        assert_eq!(look(root, None), Seen::default());
    }
}
