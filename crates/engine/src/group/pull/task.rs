//! One task: its occurrences that were given, and its stock.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_calendar::{Rotation, Zone};
use tidemill_derive::Stored;
use tidemill_model::{Ledger, MovedOccurrence, TaskSpec, Timestamp, When};

#[derive(Debug, Clone, PartialEq, Stored)]
pub(super) struct PullTask {
    pub(super) version: u32,
    pub(super) spec: Arc<TaskSpec>,
    /// Of a rotating one.
    pub(super) rotation: Option<Box<Rotation>>,
    pub(super) deleted_at: Option<Timestamp>,
    /// Over all its occurrences, forgotten ones included.
    pub(super) totals: Ledger,
    /// What was given and is kept, oldest start first.
    pub(super) given: Vec<MovedOccurrence>,
    /// Of a rotating one: used-up occurrences of its grid, neighbours as one run, from the first to behind the last.
    spent: BTreeMap<Timestamp, Timestamp>,
    pub(super) age: Option<Timestamp>,
}

/// The occurrences that a rotating task has; the error is for people, without the field's name.
pub(super) fn rotation_of(when: &When) -> Result<Option<Rotation>, (&'static str, String)> {
    match when {
        When::Once { .. } => Ok(None),
        When::EveryMinutes { n, start } => Rotation::every_minutes(*n, *start)
            .map(Some)
            .map_err(|error| ("when.every_minutes.n", error.to_string())),
        When::EveryDays { n, at, zone, start } => {
            let zone =
                Zone::try_from(zone.as_str()).map_err(|error| ("when.every_days.zone", error.to_string()))?;
            Rotation::every_days(*n, &at.to_string(), zone, *start)
                .map(Some)
                .map_err(|error| ("when.every_days.n", error.to_string()))
        }
    }
}

impl PullTask {
    pub(super) fn new(version: u32, spec: &Arc<TaskSpec>) -> Self {
        Self {
            version,
            spec: Arc::clone(spec),
            rotation: rotation_of(&spec.when).ok().flatten().map(Box::new),
            deleted_at: None,
            totals: Ledger::default(),
            given: Vec::new(),
            spent: BTreeMap::new(),
            age: None,
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.deleted_at.is_none()
    }

    fn occurrence(&self, start: Timestamp) -> Option<&MovedOccurrence> {
        let place = self.given.binary_search_by_key(&start, |given| given.start).ok()?;
        self.given.get(place)
    }

    /// How often an occurrence can still be given.
    pub(super) fn stock(&self, start: Timestamp) -> u64 {
        let ledger = self.occurrence(start).map(|occurrence| occurrence.ledger).unwrap_or_default();
        let used = if planted!(LiveGrantsNotCounted) { ledger.completed } else { ledger.used() };
        u64::from(self.spec.dispatch_times).saturating_sub(used)
    }

    /// Whether an occurrence of it, as it is now, begins then and can be given.
    pub(super) fn gives(&self, start: Timestamp) -> bool {
        let is_its = match &self.rotation {
            None => self.spec.when.start() == start,
            Some(rotation) => rotation.is_on_grid(start),
        };
        self.is_valid() && is_its && self.stock(start) > 0
    }

    /// Of one for once: its start, while it can be given.
    pub(super) fn open_start(&self) -> Option<Timestamp> {
        let start = self.spec.when.start();
        (self.is_valid() && self.rotation.is_none() && self.stock(start) > 0).then_some(start)
    }

    /// Of a rotating one: the first occurrence in a span that can be given and is not excluded.
    pub(super) fn first_within(
        &self,
        (from, upto): (Timestamp, Timestamp),
        is_excluded: impl Fn(Timestamp) -> bool,
    ) -> Option<Timestamp> {
        let rotation = self.rotation.as_deref()?;
        let mut time = from;
        loop {
            let start = rotation.next_at_or_after(time).filter(|start| *start <= upto)?;
            let run = self.spent.range(..=start).next_back().map(|(_, behind)| *behind);
            match run.filter(|behind| *behind > start) {
                Some(behind) => time = behind,
                // Runs spare steps; what is in stock is said by the ledger alone.
                None if self.stock(start) == 0 || is_excluded(start) => time = start.next(),
                None => return Some(start),
            }
        }
    }

    /// The start of the occurrence behind this one.
    pub(super) fn next_after(&self, start: Timestamp) -> Option<Timestamp> {
        self.rotation.as_deref()?.next_after(start)
    }

    /// Changes the ledgers of an occurrence and of the task alike.
    pub(super) fn count(&mut self, start: Timestamp, change: impl Fn(&mut Ledger)) -> &mut MovedOccurrence {
        let place = self.given.binary_search_by_key(&start, |given| given.start).unwrap_or_else(|place| {
            self.given.insert(place, MovedOccurrence { start, ledger: Ledger::default(), next: None });
            place
        });
        change(&mut self.totals);
        let occurrence = &mut self.given[place];
        change(&mut occurrence.ledger);
        occurrence
    }

    /// After its stock has changed: whether the occurrence is passed over. One of an earlier grid is not looked for,
    /// and as a run between two of this one it would hide the run that both are in.
    pub(super) fn settle(&mut self, start: Timestamp) {
        let is_looked_for = self.rotation.as_ref().is_some_and(|rotation| rotation.is_on_grid(start));
        let Some(occurrence) = self.occurrence(start).filter(|_| is_looked_for) else { return };
        let behind = occurrence.next.filter(|next| *next > start).unwrap_or_else(|| start.next());
        if self.stock(start) == 0 {
            self.spend(start, behind);
        } else {
            self.restock(start, behind);
        }
    }

    fn spend(&mut self, start: Timestamp, behind: Timestamp) {
        let before = self.spent.range(..=start).next_back().map(|(from, behind)| (*from, *behind));
        let from = match before {
            Some((_, end)) if end > start => return,
            Some((from, end)) if end == start => from,
            Some(_) | None => start,
        };
        let end = self.spent.remove(&behind).unwrap_or(behind);
        self.spent.insert(from, end);
    }

    fn restock(&mut self, start: Timestamp, behind: Timestamp) {
        let run = self.spent.range(..=start).next_back().map(|(from, end)| (*from, *end));
        let Some((from, end)) = run.filter(|(_, end)| *end > start) else { return };
        self.spent.remove(&from);
        if from < start {
            self.spent.insert(from, start);
        }
        if behind < end {
            self.spent.insert(behind, end);
        }
    }

    pub(super) fn change(&mut self, version: u32, spec: &Arc<TaskSpec>) {
        let same_grid = self.spec.when == spec.when;
        self.version = version;
        self.spec = Arc::clone(spec);
        self.rotation = rotation_of(&spec.when).ok().flatten().map(Box::new);
        self.spent.clear();
        for place in 0..self.given.len() {
            if !same_grid {
                // On another grid something else comes next.
                self.given[place].next = None;
            }
            self.settle(self.given[place].start);
        }
    }

    /// What would be forgotten first of it, by its start: an occurrence of which nobody has a grant, or the whole
    /// task, once nothing of it is kept and nothing of it will be given any more.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        let given = self.given.iter().find(|given| given.ledger.live == 0).map(|given| given.start);
        let own = self.ends_at().filter(|_| self.given.iter().all(|given| given.ledger.live == 0));
        given.into_iter().chain(own).min()
    }

    /// From when on nothing of it is given any more.
    fn ends_at(&self) -> Option<Timestamp> {
        let once = (!self.spec.when.is_rotating()).then(|| self.spec.when.start());
        self.deleted_at.or(once)
    }

    /// Forgets what started before; whether nothing of it is left.
    pub(super) fn purge(&mut self, before: Timestamp) -> bool {
        self.given.retain(|given| given.start >= before || given.ledger.live > 0);
        while let Some(run) = self.spent.first_entry().filter(|run| *run.get() <= before) {
            run.remove();
        }
        self.given.is_empty() && self.ends_at().is_some_and(|end| end < before)
    }
}
