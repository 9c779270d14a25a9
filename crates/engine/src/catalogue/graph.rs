//! The graph of definitions as it would be after a change.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_calendar::Timetable;
use tidemill_model::{JobDefinition, JobId};

use super::Catalogue;

/// Today's definitions with changed ones laid over them.
pub(super) struct Overlay<'a> {
    catalogue: &'a Catalogue,
    changed: BTreeMap<JobId, Arc<JobDefinition>>,
    /// Looked up once each: a graph may be deep.
    grids: RefCell<BTreeMap<JobId, Grid>>,
}

/// What gives a job its logical times.
#[derive(Debug, Clone)]
enum Grid {
    /// This timetable: its own, or that of its nearest ancestor.
    Of(Arc<Timetable>),
    /// Nothing: it runs by hand only.
    None,
    /// A job that is not known here.
    Open,
}

impl<'a> Overlay<'a> {
    pub(super) fn new(catalogue: &'a Catalogue, changed: &[Arc<JobDefinition>]) -> Self {
        let changed = changed.iter().map(|definition| (definition.id, Arc::clone(definition))).collect();
        Self { catalogue, changed, grids: RefCell::default() }
    }

    pub(super) fn is_changed(&self, id: JobId) -> bool {
        self.changed.contains_key(&id)
    }

    pub(super) fn get(&self, id: JobId) -> Option<&JobDefinition> {
        let today = || self.catalogue.jobs.get(&id).map(|job| job.definition.as_ref());
        self.changed.get(&id).map(Arc::as_ref).or_else(today)
    }

    pub(super) fn parents(&self, id: JobId) -> impl Iterator<Item = JobId> + '_ {
        self.get(id).into_iter().flat_map(JobDefinition::other_parents)
    }

    pub(super) fn name(&self, id: JobId) -> String {
        self.get(id).map_or_else(|| id.to_string(), JobDefinition::full_name)
    }

    /// The schedule that gives the job its logical times: its own, or that of its nearest ancestor.
    pub(super) fn grid(&self, id: JobId) -> Option<Arc<Timetable>> {
        match self.found(id) {
            Grid::Of(schedule) => Some(schedule),
            Grid::None | Grid::Open => None,
        }
    }

    /// Whether a job that is not known here gives the job its logical times.
    pub(super) fn is_open(&self, id: JobId) -> bool {
        matches!(self.found(id), Grid::Open)
    }

    fn found(&self, id: JobId) -> Grid {
        let mut line = Vec::new();
        let mut next = Some(id);
        // In a graph without a cycle no line of ancestors is longer.
        let longest = self.changed.len() + self.catalogue.jobs.len();
        let grid = loop {
            let Some(id) = next.filter(|_| line.len() <= longest) else { break Grid::None };
            if let Some(known) = self.grids.borrow().get(&id) {
                break known.clone();
            }
            line.push(id);
            let Some(definition) = self.get(id) else { break Grid::Open };
            if definition.spec.schedule.is_some() {
                let timetable = Timetable::of(definition, |name| self.catalogue.calendars.days(name));
                break timetable.ok().flatten().map_or(Grid::None, |grid| Grid::Of(Arc::new(grid)));
            }
            next = self.parents(id).next();
        };
        self.grids.borrow_mut().extend(line.into_iter().map(|id| (id, grid.clone())));
        grid
    }
}

/// These jobs, each behind those of its ancestors that are among them, whatever stands between them, else as given; or
/// a cycle, the first again at the end. Depth first, without recursion: a graph may be deeper than a stack.
pub(super) fn ancestors_first(
    jobs: &[JobId],
    parents: impl Fn(JobId) -> Vec<JobId>,
) -> Result<Vec<JobId>, Vec<JobId>> {
    let wanted: BTreeSet<JobId> = jobs.iter().copied().collect();
    let mut order = Vec::with_capacity(jobs.len());
    let (mut done, mut on_path) = (BTreeSet::new(), BTreeSet::new());
    for start in jobs {
        let mut next = Some(*start).filter(|start| !done.contains(start));
        let mut path: Vec<(JobId, std::vec::IntoIter<JobId>)> = Vec::new();
        loop {
            if let Some(id) = next.take() {
                on_path.insert(id);
                path.push((id, parents(id).into_iter()));
            }
            let Some((id, open)) = path.last_mut() else { break };
            match open.next() {
                None => {
                    order.extend(wanted.contains(id).then_some(*id));
                    on_path.remove(id);
                    done.insert(*id);
                    path.pop();
                }
                Some(parent) if on_path.contains(&parent) => {
                    let from = path.iter().position(|(id, _)| *id == parent).unwrap_or(0);
                    return Err(path[from..].iter().map(|(id, _)| *id).chain([parent]).collect());
                }
                Some(parent) => next = Some(parent).filter(|parent| !done.contains(parent)),
            }
        }
    }
    Ok(order)
}
