//! Who belongs to an attempt, and signals to all of them.
//!
//! The shim is a *subreaper*: whatever becomes of the processes in between, a descendant stays a descendant,
//! in whatever session or process group it has put itself. That the kernel says "no children" is therefore
//! the proof that the tree is empty; the walk below only serves to find whom to signal.

#[cfg(test)]
mod corpus;

use std::collections::{BTreeSet, HashMap};
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::SHIM;

/// So many processes above one are looked at for a shim.
const CLIMB_MAX: usize = 64;

/// What `/proc/PID/stat` says about a process.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: i32,
    /// In clock ticks since boot: with the number it names a process for good.
    started: u64,
    zombie: bool,
}

/// Kills every living descendant of `root`, parents first.
pub(crate) fn kill_descendants(root: Pid) {
    kill_strays(root, &|_| false);
}

/// Whether a process has a child but this one, dead ones among them. What was there at the beginning is seen: only its parent takes a
/// dead child from the table, and whatever is below has a child of the parent above it.
pub(crate) fn has_children_beside(root: Pid, known: Pid) -> bool {
    let children = by_parent().remove(&root.as_raw_nonzero().get()).unwrap_or_default();
    children.iter().any(|(pid, _)| *pid != known.as_raw_nonzero().get())
}

/// What a walk has found.
pub(crate) struct Strays {
    /// How many children are not known, the dead ones among them.
    pub(crate) children: usize,
    /// The first one of all below them that lives.
    pub(crate) living: Option<i32>,
}

/// Kills every living descendant of `root` that does not belong to one of its children that `is_known`.
pub(crate) fn kill_strays(root: Pid, is_known: &dyn Fn(Pid) -> bool) -> Strays {
    let mut children = by_parent();
    let mut strays = children.remove(&root.as_raw_nonzero().get()).unwrap_or_default();
    strays.retain(|(pid, _)| Pid::from_raw(*pid).is_some_and(|pid| !is_known(pid)));
    let count = strays.len();
    let found = below(strays, children);
    for (pid, stat) in &found {
        signal_process(*pid, *stat, &[Signal::KILL]);
    }
    Strays { children: count, living: found.first().map(|(pid, _)| *pid) }
}

/// Asks every living descendant of `root` to end, once, but not those of `spared`. They are stopped first, until no further one turns
/// up: so none is missed that is just being forked, and what they start then to clean up is left in peace.
///
/// Children go on before their parents: where a parent ends while a child of another process group is stopped, the kernel ends that
/// child by SIGHUP, before it has heard of SIGTERM.
pub(crate) fn ask_descendants(root: Pid, spared: Option<Pid>) {
    let (mut asked, mut stopped) = (HashMap::new(), Vec::new());
    loop {
        let mut found = descendants(root.as_raw_nonzero().get(), spared);
        found.retain(|(pid, stat)| {
            asked.insert(*pid, *stat).is_none_or(|before| before.started != stat.started)
        });
        if found.is_empty() {
            break;
        }
        for (pid, stat) in &found {
            signal_process(*pid, *stat, &[Signal::STOP]);
        }
        stopped.extend(found);
    }
    for (pid, stat) in stopped.into_iter().rev() {
        signal_process(pid, stat, &[Signal::TERM, Signal::CONT]);
    }
}

/// What stands behind `prefix` in the environments of living processes that have `wanted` there, too, and a shim above them.
pub(crate) fn marked_below_shims(wanted: &str, prefix: &str) -> BTreeSet<String> {
    let stats: HashMap<i32, Stat> = processes().into_iter().collect();
    let is_below_shim = |mut pid: i32| {
        (0..CLIMB_MAX).any(|_| {
            pid = stats.get(&pid).map_or(0, |stat| stat.parent);
            pid > 0
                && fs::read(format!("/proc/{pid}/comm"))
                    .is_ok_and(|name| name.trim_ascii() == SHIM.to_bytes())
        })
    };
    let mut found = BTreeSet::new();
    for (pid, _) in stats.iter().filter(|(_, stat)| !stat.zombie) {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let entries = || environment.split(|byte| *byte == 0);
        if entries().any(|entry| entry == wanted.as_bytes()) && is_below_shim(*pid) {
            let values = entries().filter_map(|entry| entry.strip_prefix(prefix.as_bytes()));
            found.extend(values.filter_map(|value| String::from_utf8(value.to_vec()).ok()));
        }
    }
    found
}

/// Signals every process whose environment has all of these: the tree of a shim that was itself killed. Gives the first of
/// them.
pub(crate) fn signal_by_environment(wanted: &[String], signals: &[Signal]) -> Option<i32> {
    let marked = |pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        wanted
            .iter()
            .all(|wanted| environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()))
    };
    let found = processes().into_iter().filter(|(pid, stat)| !stat.zombie && marked(*pid));
    let signalled: Vec<i32> =
        found.filter(|(pid, stat)| signal_process(*pid, *stat, signals)).map(|(pid, _)| pid).collect();
    signalled.first().copied()
}

/// Kills the living processes of a list that the kernel keeps, if they are still in it. Gives the first of them.
pub(crate) fn kill_listed(list: &dyn Fn() -> BTreeSet<i32>) -> Option<i32> {
    let found: Vec<_> = list().into_iter().filter_map(|pid| Some((pid, stat_of(pid)?))).collect();
    // One that was looked at, and is in the list after that, was of the list when it was looked at.
    let still = list();
    let killed = found.into_iter().filter(|(pid, stat)| {
        !stat.zombie && still.contains(pid) && signal_process(*pid, *stat, &[Signal::KILL])
    });
    killed.map(|(pid, _)| pid).collect::<Vec<_>>().first().copied()
}

fn signal_process(pid: i32, stat: Stat, signals: &[Signal]) -> bool {
    let Some(handle) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return false;
    };
    // The handle is of the process we looked at, and not of a later one with its number.
    let same = stat_of(pid).is_some_and(|now| now.started == stat.started);
    same && signals.iter().all(|signal| pidfd_send_signal(&handle, *signal).is_ok())
}

fn descendants(root: i32, spared: Option<Pid>) -> Vec<(i32, Stat)> {
    let mut children = by_parent();
    let mut found = children.remove(&root).unwrap_or_default();
    found.retain(|(pid, _)| Pid::from_raw(*pid) != spared);
    below(found, children)
}

type Children = HashMap<i32, Vec<(i32, Stat)>>;

fn by_parent() -> Children {
    let mut children = Children::new();
    for (pid, stat) in processes() {
        children.entry(stat.parent).or_default().push((pid, stat));
    }
    children
}

/// These and all below them, as far as they live.
fn below(mut found: Vec<(i32, Stat)>, mut children: Children) -> Vec<(i32, Stat)> {
    let mut next = 0;
    while next < found.len() {
        found.extend(children.remove(&found[next].0).unwrap_or_default());
        next += 1;
    }
    found.retain(|(_, stat)| !stat.zombie);
    found
}

fn processes() -> Vec<(i32, Stat)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, stat_of(pid)?))).collect()
}

fn stat_of(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(&String::from_utf8_lossy(&text))
}

/// The name in parentheses may hold anything, so the fields are counted from the last one.
fn parse(stat: &str) -> Option<Stat> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let zombie = matches!(*fields.first()?, "Z" | "X");
    Some(Stat { parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()?, zombie })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let stat = parse("12 (a) b (c) S 7 1 1 0 -1 4 0 0 0 0 1 2 0 0 20 0 1 0 9876 1 2").unwrap();
        assert_eq!((stat.parent, stat.started, stat.zombie), (7, 9876, false));
    }

    #[test]
    fn own_child_is_found_below_this_process() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let me = i32::try_from(std::process::id()).unwrap();
        let id = i32::try_from(child.id()).unwrap();
        assert!(descendants(me, None).iter().any(|(pid, _)| *pid == id));
        let pid = Pid::from_raw(id);
        assert!(!descendants(me, pid).iter().any(|(pid, _)| *pid == id), "it is spared");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    /// EXE-5: a number that was read of one process names another one by now: that gets no signal.
    #[test]
    fn later_process_of_the_same_number_gets_no_signal() {
        use std::os::unix::process::ExitStatusExt as _;

        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let stat = stat_of(id).unwrap();
        let earlier = Stat { started: stat.started - 1, ..stat };
        assert!(!signal_process(id, earlier, &[Signal::KILL]));
        assert!(signal_process(id, stat, &[Signal::TERM]));
        assert_eq!(child.wait().unwrap().signal(), Some(15), "the first signal that it got");
    }
}
