//! What this process and those it has started have used.

use std::collections::HashMap;
use std::fs;

/// Clock ticks per second in what `/proc` tells: the same on every Linux.
const TICKS: f64 = 100.0;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Processor seconds of this process, of its children, and of those that a child has waited for: the
    /// server of shims, its shims and their jobs.
    pub(crate) cpu_s: f64,
    /// The most memory that was resident at once, of this process.
    pub(crate) peak_rss_mb: f64,
}

impl Usage {
    /// So far.
    pub(crate) fn now() -> Self {
        let own = std::process::id();
        let children: f64 = living_children(own).map(|stat| stat.cpu_s).sum();
        let cpu_s = stat("self").map_or(0.0, |stat| stat.cpu_s) + children;
        Self { cpu_s, peak_rss_mb: status_kib("self", "VmHWM:") / 1024.0 }
    }
}

/// Resident bytes of this process now.
pub(crate) fn resident() -> f64 {
    status_kib("self", "VmRSS:") * 1024.0
}

/// The most memory that was resident at once, of this process.
pub(crate) fn peak_mb_of(process: u32) -> f64 {
    status_kib(&process.to_string(), "VmHWM:") / 1024.0
}

/// Processor seconds of a process alone.
pub(crate) fn own_cpu_s(process: u32) -> f64 {
    stat(&process.to_string()).map_or(0.0, |stat| stat.own_cpu_s)
}

/// What this process and all below it have used.
pub(crate) struct Tree {
    /// Processor seconds, those of the dead that somebody has waited for among them.
    pub(crate) cpu_s: f64,
    /// Memory of those below that run this program, where each has its share of what several have, KiB.
    pub(crate) shims_kib: f64,
}

impl Tree {
    /// So far.
    pub(crate) fn now() -> Self {
        let own = std::process::id();
        let parents: HashMap<u32, u32> = processes().map(|(id, stat)| (id, stat.parent)).collect();
        let is_below = |id: u32| {
            std::iter::successors(Some(id), |id| parents.get(id).copied())
                .take_while(|id| *id > 1)
                .any(|id| id == own)
        };
        let program = fs::read_link("/proc/self/exe").ok();
        let mut tree = Self { cpu_s: 0.0, shims_kib: 0.0 };
        for (id, stat) in processes().filter(|(id, _)| is_below(*id)) {
            tree.cpu_s += stat.cpu_s;
            if id != own && fs::read_link(format!("/proc/{id}/exe")).ok() == program {
                tree.shims_kib += line_kib(&format!("/proc/{id}/smaps_rollup"), "Pss:");
            }
        }
        tree
    }
}

struct Stat {
    parent: u32,
    /// Its own, and that of all it has waited for.
    cpu_s: f64,
    own_cpu_s: f64,
}

fn living_children(parent: u32) -> impl Iterator<Item = Stat> {
    processes().map(|(_, stat)| stat).filter(move |stat| stat.parent == parent)
}

fn processes() -> impl Iterator<Item = (u32, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| Some((name.parse().ok()?, stat(&name)?)))
}

fn stat(process: &str) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Behind the name in parentheses: the parent is field 4; utime, stime, cutime, cstime are 14 to 17.
fn parse(stat: &str) -> Option<Stat> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |fields: &[&str]| fields.iter().filter_map(|field| field.parse::<f64>().ok()).sum::<f64>();
    let (all, own) = (ticks(fields.get(11..15)?), ticks(fields.get(11..13)?));
    Some(Stat { parent: fields.get(1)?.parse().ok()?, cpu_s: all / TICKS, own_cpu_s: own / TICKS })
}

fn status_kib(process: &str, name: &str) -> f64 {
    line_kib(&format!("/proc/{process}/status"), name)
}

fn line_kib(file: &str, name: &str) -> f64 {
    let status = fs::read_to_string(file).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_counts_what_was_waited_for() {
        let stat = parse("7 (a) b) S 3 7 7 0 -1 4 9 9 9 9 100 20 30 50 20 0 1 0 5 6 7").unwrap();
        assert_eq!((stat.parent, stat.cpu_s), (3, 2.0));
    }

    #[test]
    fn living_child_is_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(living_children(std::process::id()).count() >= 1);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
