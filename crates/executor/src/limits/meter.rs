//! A look at the processes of a tree, by `/proc`: how many they are, and how much memory they have.
//!
//! Only the tree is walked, so a look costs by its size, and not by that of the host. A process that begins or ends meanwhile may
//! be missed. Memory that processes share since a fork counts in each of them.

use std::fs;

use rustix::process::Pid;

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

/// All below this process, without itself, and without one of its children and what is below that.
pub(super) fn look(root: Pid, spared: Option<Pid>) -> Seen {
    let mut found = children(root.as_raw_nonzero().get()).1;
    found.retain(|pid| Pid::from_raw(*pid) != spared);
    let (mut seen, mut next) = (Seen::default(), 0);
    while let Some(pid) = found.get(next).copied().filter(|_| next < MOST) {
        next += 1;
        let (threads, below) = children(pid);
        found.extend(below);
        seen.processes = seen.processes.saturating_add(threads);
        seen.memory_kib += memory_kib(pid);
    }
    seen
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
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    of("RssAnon:").unwrap_or(0) + of("RssShmem:").unwrap_or(0)
}

/// Processes of this host that the kernel has ended for want of memory since it began.
pub(super) fn host_oom_kills() -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

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
