//! The control group of one attempt: the files of it, whichever version the kernel has.
//!
//! | | version 1 | version 2 |
//! |---|---|---|
//! | memory | `memory.limit_in_bytes`, and `memory.memsw…` where swap is counted | `memory.max`, `memory.swap.max` 0 |
//! | processes | `pids.max` | `pids.max` |
//! | processor | `cpu.cfs_quota_us` of `cpu.cfs_period_us` | `cpu.max` |
//!
//! Version 1 has a tree for each of them, version 2 one for all.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill_derive::skip_none;
use tidemill_model::{Limits, Token};

use super::find::SHIMS;

/// The span in which a group has its share of a processor, microseconds.
const PERIOD_US: u64 = 100_000;
/// How often a group is tried to be removed that the kernel has not let go yet, and the pause between two tries.
const REMOVE_TRIES: u32 = 20;
const REMOVE_PAUSE: Duration = Duration::from_millis(5);
/// Usage so near to its limit has reached it: the kernel charges memory in batches.
const NEAR_BYTES: u64 = 256 * 1024;

/// Which interface of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// A tree for each controller.
    V1,
    /// One tree.
    V2,
}

/// A directory of a tree of control groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Where.
    pub dir: PathBuf,
    /// What its files are called.
    pub version: Version,
}

/// The directories of one group, or those below which groups are made. Absent: there is no such controller.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// Memory.
    pub memory: Option<Place>,
    /// Processes and threads.
    pub processes: Option<Place>,
    /// Processor time.
    pub cpu: Option<Place>,
}

impl Place {
    fn file(&self, v1: &str, v2: &str) -> PathBuf {
        self.dir.join(match self.version {
            Version::V1 => v1,
            Version::V2 => v2,
        })
    }

    fn number(&self, v1: &str, v2: &str) -> Option<u64> {
        fs::read_to_string(self.file(v1, v2)).ok()?.trim().parse().ok()
    }

    /// A number of a file of names and numbers.
    fn entry(&self, (v1, v2): (&str, &str), name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.file(v1, v2)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    }
}

impl Tree {
    /// Each directory once.
    pub(super) fn dirs(&self) -> Vec<&Path> {
        let mut dirs: Vec<&Path> = [&self.memory, &self.processes, &self.cpu]
            .into_iter()
            .flatten()
            .map(|place| &*place.dir)
            .collect();
        dirs.sort_unstable();
        dirs.dedup();
        dirs
    }

    /// The same below each directory.
    fn below(&self, name: &str) -> Self {
        let of = |place: &Option<Place>| {
            place.as_ref().map(|place| Place { dir: place.dir.join(name), version: place.version })
        };
        Self { memory: of(&self.memory), processes: of(&self.processes), cpu: of(&self.cpu) }
    }
}

/// What the kernel counted of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counted {
    /// The most memory at once, files in the cache among it, KiB.
    pub(super) peak_kib: Option<u64>,
    /// Processes that were ended for want of memory.
    pub(super) oom_kills: u64,
    /// Whether it has reached its own limit.
    pub(super) reached_limit: bool,
    /// The most processes and threads at once.
    pub(super) peak_processes: Option<u32>,
    /// How often one could not be started.
    pub(super) refused: u64,
}

/// The group of one attempt.
#[derive(Debug)]
pub(super) struct Group {
    tree: Tree,
    limit_bytes: Option<u64>,
}

impl Group {
    /// Makes the group of this name, with those of its directories that the limits need. A limit that the kernel refuses, as one above
    /// that of a group above, is left out and returned as an error; the others stay.
    pub(super) fn make(tree: &Tree, name: &str, limits: &Limits) -> (Self, Vec<io::Error>) {
        let Tree { memory, processes, cpu } = tree.below(name);
        let limit_bytes = limits.memory_mb.map(|mb| u64::from(mb) << 20);
        let wants_memory = limit_bytes.is_some() || limits.memory_alarm_mb.is_some();
        let (mut failed, mut left) = (Vec::new(), Vec::new());
        let mut keep = |place: Option<Place>, limit: &dyn Fn(&Place) -> io::Result<()>| {
            let place = place?;
            match fs::create_dir_all(&place.dir).and_then(|()| limit(&place)) {
                Ok(()) => Some(place),
                Err(error) => {
                    failed.push(error);
                    left.push(place.dir);
                    None
                }
            }
        };
        let memory = keep(memory.filter(|_| wants_memory), &|place| limit_memory(place, limit_bytes));
        let processes = keep(processes.filter(|_| limits.processes.is_some()), &|place| {
            let most = limits.processes.unwrap_or(u32::MAX);
            fs::write(place.dir.join("pids.max"), most.to_string())
        });
        let cpu = keep(cpu.filter(|_| limits.cpu_percent.is_some()), &|place| {
            limit_cpu(place, limits.cpu_percent.unwrap_or(100))
        });
        let group = Self { tree: Tree { memory, processes, cpu }, limit_bytes };
        for dir in left.iter().filter(|dir| !group.tree.dirs().contains(&&***dir)) {
            // One that was not made is not there.
            let _ = fs::remove_dir(dir);
        }
        (group, failed)
    }

    /// Whether nothing needs a group.
    pub(super) fn is_empty(&self) -> bool {
        self.tree == Tree::default()
    }

    /// Which controllers it has.
    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The calling process is of the group from now on, and so is what it starts.
    pub(super) fn enter(&self) -> io::Result<()> {
        self.tree.dirs().into_iter().try_for_each(|dir| fs::write(dir.join("cgroup.procs"), "0"))
    }

    /// Memory that is in use and cannot just be dropped, KiB.
    pub(super) fn memory_kib(&self) -> Option<u64> {
        let place = self.tree.memory.as_ref()?;
        let of = |v1: &str, v2: &str| {
            let name = if place.version == Version::V1 { v1 } else { v2 };
            place.entry(("memory.stat", "memory.stat"), name)
        };
        let shared = of("total_shmem", "shmem").unwrap_or(0);
        Some((of("total_rss", "anon")? + shared) / 1024)
    }

    pub(super) fn counted(&self) -> Counted {
        let mut counted = Counted::default();
        if let Some(place) = &self.tree.memory {
            let peak = place.number("memory.max_usage_in_bytes", "memory.peak");
            counted.peak_kib = peak.map(|bytes| bytes / 1024);
            let kills = place.entry(("memory.oom_control", "memory.events"), "oom_kill");
            counted.oom_kills = kills.unwrap_or(0);
            counted.reached_limit = self.reached_limit(place, peak);
        }
        if let Some(place) = &self.tree.processes {
            counted.peak_processes =
                place.number("pids.peak", "pids.peak").and_then(|of| u32::try_from(of).ok());
            counted.refused = place.entry(("pids.events", "pids.events"), "max").unwrap_or(0);
        }
        counted
    }

    /// Version 2 counts how often an allocation failed at the group's own limit. Of version 1 it shows by the most that was in use, in
    /// memory or with swap, which files in the cache bring to the limit, too; its counts of failures are not kept by every
    /// kernel.
    fn reached_limit(&self, place: &Place, peak: Option<u64>) -> bool {
        let Some(limit) = self.limit_bytes else { return false };
        match place.version {
            Version::V1 => {
                let with_swap = place.number("memory.memsw.max_usage_in_bytes", "");
                peak.into_iter().chain(with_swap).any(|peak| peak + NEAR_BYTES >= limit)
            }
            Version::V2 => {
                // What is above the group, and counts in it where the tree is mounted so, is left out of the local file.
                let local = place.entry(("memory.events.local", "memory.events.local"), "oom");
                local.or_else(|| place.entry(("memory.events", "memory.events"), "oom")).unwrap_or(0) > 0
            }
        }
    }

    /// Removes it. What the kernel does not let go for a while stays for the worker's next start.
    pub(super) fn remove(self) {
        for dir in self.tree.dirs() {
            for _ in 0..REMOVE_TRIES {
                match remove_with_children(dir) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => sleep(REMOVE_PAUSE),
                    Ok(()) | Err(_) => break,
                }
            }
        }
    }
}

/// A job may have made groups of its own below its own one.
fn remove_with_children(dir: &Path) -> io::Result<()> {
    let below = fs::read_dir(dir)?.flatten();
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_with_children(&entry.path())?;
    }
    fs::remove_dir(dir)
}

fn limit_memory(place: &Place, bytes: Option<u64>) -> io::Result<()> {
    let Some(bytes) = bytes else { return Ok(()) };
    fs::write(place.file("memory.limit_in_bytes", "memory.max"), bytes.to_string())?;
    // Where swap is not counted there is no such file. It may not be below the limit of memory, which comes first.
    let swap = place.file("memory.memsw.limit_in_bytes", "memory.swap.max");
    let most = if place.version == Version::V1 { bytes } else { 0 };
    if swap.exists() { fs::write(swap, most.to_string()) } else { Ok(()) }
}

fn limit_cpu(place: &Place, percent: u32) -> io::Result<()> {
    let quota_us = u64::from(percent) * PERIOD_US / 100;
    match place.version {
        Version::V1 => {
            fs::write(place.dir.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
            fs::write(place.dir.join("cpu.cfs_quota_us"), quota_us.to_string())
        }
        Version::V2 => fs::write(place.dir.join("cpu.max"), format!("{quota_us} {PERIOD_US}")),
    }
}

/// The worker ends: its own directories go, where no attempt has a group in them.
pub(crate) fn leave(tree: &Tree) {
    for dir in tree.dirs() {
        // Those of attempts that go on, and of their shims, stay for the next life.
        let _ = fs::remove_dir(dir.join(SHIMS));
        let _ = fs::remove_dir(dir);
    }
}

/// The processes in the group of this attempt, and in those that it has made below; none where it has no group.
pub(crate) fn members(tree: &Tree, token: Token) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut left: Vec<PathBuf> =
        tree.below(&token.to_string()).dirs().into_iter().map(Path::to_owned).collect();
    while let Some(dir) = left.pop() {
        let listed = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
        found.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()));
        let below = fs::read_dir(dir).into_iter().flatten().flatten();
        let groups = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(groups.map(|entry| entry.path()));
    }
    found
}

/// Removes the group that a dead shim left of this attempt, if there is one and nothing is in it.
pub(crate) fn remove(tree: &Tree, token: Token) {
    for dir in tree.below(&token.to_string()).dirs() {
        // What stays is removed when the worker starts again.
        let _ = remove_with_children(dir);
    }
}

/// Removes the groups that dead shims left below these directories: all but those of attempts that live. What still has
/// processes stays. Gives how many went, and how many stayed.
pub(crate) fn sweep(tree: &Tree, live: &[Token]) -> (usize, usize) {
    let (mut removed, mut left) = (0, 0);
    for entry in tree.dirs().into_iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten() {
        let token = entry.file_name().to_str().and_then(|name| name.parse::<Token>().ok());
        if token.is_some_and(|token| !live.contains(&token)) {
            match remove_with_children(&entry.path()) {
                Ok(()) => removed += 1,
                Err(_) => left += 1,
            }
        }
    }
    (removed, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { memory_mb: Some(64), cpu_percent: Some(150), processes: Some(7), ..Limits::default() }
    }

    fn tree(dir: &Path, version: Version) -> Tree {
        let place = |name: &str| {
            let dir = if version == Version::V2 { dir.to_owned() } else { dir.join(name) };
            fs::create_dir_all(&dir).unwrap();
            Some(Place { dir, version })
        };
        Tree { memory: place("memory"), processes: place("pids"), cpu: place("cpu") }
    }

    fn made(tree: &Tree, name: &str, limits: &Limits) -> Group {
        let (group, failed) = Group::make(tree, name, limits);
        assert!(failed.is_empty(), "{failed:?}");
        group
    }

    fn said(group: &Group, file: &str) -> String {
        let texts = group.tree.dirs().into_iter().filter_map(|dir| fs::read_to_string(dir.join(file)).ok());
        texts.collect::<Vec<_>>().join("|")
    }

    /// EXE-2: what is written, in plain directories that stand in for a tree of version 2.
    #[test]
    fn group_of_version_2_has_its_limits_in_one_directory() {
        let dir = tempfile::tempdir().unwrap();
        let group = made(&tree(dir.path(), Version::V2), "4096", &limits());
        assert_eq!(group.tree.dirs(), [dir.path().join("4096")]);
        assert_eq!(said(&group, "memory.max"), "67108864");
        assert_eq!((said(&group, "pids.max"), said(&group, "cpu.max")), ("7".into(), "150000 100000".into()));
        group.enter().unwrap();
        assert_eq!(said(&group, "cgroup.procs"), "0");
    }

    /// EXE-2: the same of version 1, and only the directories that the limits need.
    #[test]
    fn group_of_version_1_has_a_directory_for_each_limit() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path(), Version::V1);
        let group = made(&tree, "4096", &limits());
        assert_eq!(
            (said(&group, "memory.limit_in_bytes"), said(&group, "pids.max")),
            ("67108864".into(), "7".into())
        );
        assert_eq!(
            (said(&group, "cpu.cfs_quota_us"), said(&group, "cpu.cfs_period_us")),
            ("150000".into(), "100000".into())
        );
        let one = made(&tree, "8192", &Limits { processes: Some(1), ..Limits::default() });
        assert_eq!(one.tree.dirs(), [dir.path().join("pids/8192")]);
        assert!(made(&tree, "1", &Limits { open_files: Some(64), ..Limits::default() }).is_empty());
    }

    /// EXE-2: a limit that cannot be set leaves the others as they are, and no directory behind.
    #[test]
    fn one_limit_that_is_refused_takes_no_other_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path(), Version::V1);
        fs::remove_dir(dir.path().join("cpu")).unwrap();
        fs::write(dir.path().join("cpu"), "no directory").unwrap();
        let (group, failed) = Group::make(&tree, "4096", &limits());
        assert_eq!((failed.len(), group.tree.cpu.is_none()), (1, true));
        assert_eq!(said(&group, "pids.max"), "7");
    }

    /// EXE-7: whether the group's own limit or the host had too little memory.
    #[test]
    fn own_limit_and_host_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let v2 = made(&tree(&dir.path().join("2"), Version::V2), "4096", &limits());
        let v1 = made(&tree(&dir.path().join("1"), Version::V1), "4096", &limits());
        let of = |group: &Group, name: &str, text: &str| {
            fs::write(group.tree.memory.as_ref().unwrap().dir.join(name), text).unwrap();
            let Counted { oom_kills, reached_limit, .. } = group.counted();
            (oom_kills, reached_limit)
        };
        assert_eq!(
            of(&v2, "memory.events", "low 0\nmax 9\noom 0\noom_kill 1\noom_group_kill 0\n"),
            (1, false)
        );
        assert_eq!(of(&v2, "memory.events", "max 9\noom 2\noom_kill 2\n"), (2, true));
        assert_eq!(
            of(&v1, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
            (3, false)
        );
        assert_eq!(of(&v1, "memory.max_usage_in_bytes", "1048576\n"), (3, false));
        assert_eq!(of(&v1, "memory.memsw.max_usage_in_bytes", "67108864\n"), (3, true));
        assert_eq!(of(&v1, "memory.memsw.max_usage_in_bytes", "1048576\n"), (3, false));
        assert_eq!(of(&v1, "memory.max_usage_in_bytes", "67108864\n"), (3, true));
        fs::write(
            v1.tree.memory.as_ref().unwrap().dir.join("memory.stat"),
            "rss 1\ntotal_rss 4096\ntotal_shmem 1024\n",
        )
        .unwrap();
        assert_eq!(v1.memory_kib(), Some(5));
    }

    /// EXE-2: what is left of dead shims goes, and what lives stays; each is tried once.
    #[test]
    fn sweep_leaves_what_lives_and_what_cannot_go() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path(), Version::V2);
        for name in ["4096/of/the/job", "8192", "12288", "worker"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("8192/busy"), "").unwrap();
        assert_eq!(sweep(&tree, &[Token(12_288)]), (1, 1));
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort_unstable();
        assert_eq!(left, ["12288", "8192", "worker"]);
    }
}
