//! What a run did and found, for people and for programs.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::conduct::Ends;
use crate::doings::Counts;
use crate::logs::Logs;
use crate::nemesis::Struck;
use crate::pulled::Pulled;
use crate::takeover::Takeover;

/// Operations of clients, by how they ended.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Operations {
    /// Done.
    pub ok: u64,
    /// Known not to be done.
    pub failed: u64,
    /// Nobody knows.
    pub unknown: u64,
}

/// A run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// All choices come from it.
    pub seed: u64,
    /// How long faults were made.
    pub minutes: f64,
    /// Kinds of faults that this machine does not permit, and why.
    pub not_possible_here: BTreeMap<&'static str, String>,
    /// Faults made, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Each fault.
    pub struck: Vec<Struck>,
    /// Writes by kind of request.
    pub writes: BTreeMap<&'static str, Operations>,
    /// Reads.
    pub reads: Operations,
    /// Sockets of clients that mean harm, by what they did, and calls of guests beside them.
    pub hostile: BTreeMap<&'static str, Ends>,
    /// Batches that ended, by result.
    pub batches: BTreeMap<&'static str, u64>,
    /// Attempts that began, as seen on disk.
    pub attempts_on_disk: usize,
    /// Logs that stores keep of them.
    pub logs: Logs,
    /// Tasks of pull workers in Python.
    pub pulled: Pulled,
    /// Processes that ended by themselves and were started again.
    pub own_ends: BTreeMap<String, Vec<String>>,
    /// Takeovers after kills of dispatchers.
    pub takeovers: Vec<Takeover>,
    /// From the last heal until everything worked, seconds.
    pub recovered_s: Option<f64>,
    /// From the workload's end until nothing was left to do, seconds.
    pub drained_s: Option<f64>,
    /// Rules that were checked, by name.
    pub invariants: Vec<String>,
    /// What the checker read.
    pub checked: String,
    /// What is wrong.
    pub violations: Vec<String>,
}

impl Report {
    /// Writes of all kinds.
    #[must_use]
    pub fn all_writes(&self) -> Operations {
        self.writes.values().fold(Operations::default(), |sum, it| Operations {
            ok: sum.ok + it.ok,
            failed: sum.failed + it.failed,
            unknown: sum.unknown + it.unknown,
        })
    }

    /// Whether the run shows that all is well.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Longest takeover in milliseconds, those of this kind only, and how many they were.
    fn longest(&self, disturbed: bool) -> (usize, i64, i64) {
        let mut took: Vec<_> =
            self.takeovers.iter().filter(|it| it.disturbed == disturbed).map(|it| it.took_ms).collect();
        took.sort_unstable();
        (took.len(), took.get(took.len() / 2).copied().unwrap_or(0), took.last().copied().unwrap_or(0))
    }
}

impl fmt::Display for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ok, {} failed, {} unknown", self.ok, self.failed, self.unknown)
    }
}

impl fmt::Display for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { compared, lines, gaps, left_out, in_parts, shown, whole_after_s } = self;
        write!(
            f,
            "{compared} whole after {whole_after_s:.1} s, with {lines} lines; {in_parts} read in parts; "
        )?;
        write!(f, "{shown} parts shown before; {gaps} gaps and {left_out} short on the full disk")
    }
}

impl fmt::Display for Pulled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workers, tasks, counts, again, expired, drained_s } = self;
        let Counts { completed, failed, late, returned } = counts;
        write!(
            f,
            "{workers}: {completed} of {tasks} tasks completed, {again} doings again; {expired} leases ran out; "
        )?;
        write!(f, "{late} late, {failed} failed, {returned} given back at the end; done ")?;
        f.write_str(&seconds(*drained_s))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed             {}", self.seed)?;
        writeln!(f, "minutes          {:.1}", self.minutes)?;
        let list = |counts: &BTreeMap<&'static str, u64>| {
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "faults           {}: {}", self.struck.len(), list(&self.faults))?;
        for (kind, why) in &self.not_possible_here {
            writeln!(f, "not possible here: {kind}: {why}")?;
        }
        writeln!(f, "writes           {}", self.all_writes())?;
        for (action, operations) in &self.writes {
            writeln!(f, "  {action:<14} {operations}")?;
        }
        writeln!(f, "reads            {}", self.reads)?;
        for (act, ends) in &self.hostile {
            let Ends { answered, closed, absent, left, suspect } = ends;
            writeln!(
                f,
                "  {act:<14} {answered} answered, {closed} closed, {absent} not taken, {left} left, {suspect} not so"
            )?;
        }
        writeln!(f, "batches          {}", list(&self.batches))?;
        writeln!(f, "attempts on disk {}", self.attempts_on_disk)?;
        writeln!(f, "logs             {}", self.logs)?;
        writeln!(f, "pull workers     {}", self.pulled)?;
        for (name, ends) in &self.own_ends {
            writeln!(f, "ended by itself  {name}: {}", ends.join("; "))?;
        }
        for (what, disturbed) in [("undisturbed", false), ("disturbed", true)] {
            let (count, median, longest) = self.longest(disturbed);
            writeln!(f, "takeovers        {count} {what}: median {median} ms, longest {longest} ms")?;
        }
        writeln!(f, "recovered        {}", seconds(self.recovered_s))?;
        writeln!(f, "drained          {}", seconds(self.drained_s))?;
        writeln!(f, "checked          {}", self.checked)?;
        writeln!(f, "invariants       {}", self.invariants.len())?;
        writeln!(f, "violations       {}", self.violations.len())?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}

fn seconds(it: Option<f64>) -> String {
    it.map_or("no".to_owned(), |seconds| format!("after {seconds:.1} s"))
}
