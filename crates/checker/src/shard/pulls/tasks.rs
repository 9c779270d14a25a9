//! Tasks, their versions, limits and stock.

use std::collections::HashMap;
use std::sync::Arc;

use tidemill_model::{Executor, MovedOccurrence, MovedTask, TaskId, TaskSpec, Timestamp, UserName};

use super::grid::Grid;
use super::{Counts, Given, Pulls, Rules};
use crate::{At, Invariant};

#[derive(Debug)]
pub(super) struct Task {
    pub(super) version: u32,
    pub(super) spec: Arc<TaskSpec>,
    pub(super) deleted_at: Option<Timestamp>,
    pub(super) grid: Grid,
    /// Occurrences of which something was ever given.
    pub(super) given: Given,
    /// Over all occurrences, those too that are forgotten.
    pub(super) totals: Counts,
}

/// What was given of one occurrence.
#[derive(Debug, Default)]
pub(super) struct Occurrence {
    pub(super) counts: Counts,
    /// Who has completed it, while the task was plain, and when.
    pub(super) done_by: HashMap<UserName, Timestamp>,
}

impl Task {
    fn new(version: u32, spec: &Arc<TaskSpec>) -> Self {
        Self {
            version,
            grid: Grid::of(&spec.when),
            spec: Arc::clone(spec),
            deleted_at: None,
            given: Given::new(),
            totals: Counts::default(),
        }
    }

    /// Whose queue it stands in.
    pub(super) fn queue(&self) -> Option<UserName> {
        match &self.spec.executor {
            Executor::Group(_) => None,
            Executor::User(user) => Some(user.clone()),
        }
    }

    pub(super) fn stock(&self, start: Timestamp) -> i64 {
        let used = self.given.get(&start).map_or(0, |occurrence| occurrence.counts.used());
        i64::from(self.spec.dispatch_times) - used as i64
    }

    pub(super) fn is_valid(&self) -> bool {
        self.deleted_at.is_none()
    }

    /// Whether nothing of it is kept, and nothing is left to be given.
    pub(super) fn is_over(&self, before: Timestamp) -> bool {
        let once = (!self.spec.when.is_rotating()).then(|| self.spec.when.start());
        self.given.is_empty() && self.deleted_at.or(once).is_some_and(|end| end < before)
    }
}

impl Pulls {
    /// `tasks_within_limits`
    pub(super) fn created(&mut self, at: &At<'_>, id: TaskId, spec: &Arc<TaskSpec>, rules: Rules) {
        let rule = Invariant::TasksWithinLimits;
        if let Executor::User(user) = &spec.executor
            && !self.members.contains_key(user)
        {
            at.breaks(rule, format!("task {id} is for user {user}, who is no member"));
        }
        let first = rules.hours_ago(rules.window_hours);
        if !spec.when.is_rotating() && spec.when.start() < first {
            at.breaks(rule, format!("task {id} starts before {first}, so that nobody may get it"));
        }
        if self.tasks.contains_key(&id) {
            at.breaks(rule, format!("task {id} is there already"));
        }
        self.tasks.insert(id, Task::new(1, spec));
        self.enqueue(id);
        self.rotating_within_limit(at, id, rules);
    }

    /// `tasks_within_limits`, of a change.
    pub(super) fn changed(
        &mut self,
        at: &At<'_>,
        id: TaskId,
        (version, spec): (u32, &Arc<TaskSpec>),
        rules: Rules,
    ) {
        let rule = Invariant::TasksWithinLimits;
        self.dequeue(id);
        let Some(task) = self.tasks.get_mut(&id) else {
            return at.breaks(rule, format!("task {id} is changed, and there is none"));
        };
        let mut wrong = Vec::new();
        if version != task.version + 1 {
            wrong.push(format!("version {version} follows {}", task.version));
        }
        if !task.is_valid() {
            wrong.push("it is deleted".to_owned());
        }
        if spec.executor != task.spec.executor {
            wrong.push(format!("it was for {}, and is for {}", task.spec.executor, spec.executor));
        }
        let most = task.given.values().map(|occurrence| occurrence.counts.used()).max().unwrap_or(0);
        if u64::from(spec.dispatch_times) < most {
            wrong.push(format!("{most} of one occurrence are given, and {} may be", spec.dispatch_times));
        }
        let was_rotating = task.spec.when.is_rotating();
        (task.version, task.spec, task.grid) = (version, Arc::clone(spec), Grid::of(&spec.when));
        for why in wrong {
            at.breaks(rule, format!("task {id} is changed: {why}"));
        }
        self.enqueue(id);
        if !was_rotating {
            self.rotating_within_limit(at, id, rules);
        }
    }

    pub(super) fn deleted(&mut self, at: &At<'_>, id: TaskId) {
        self.dequeue(id);
        match self.tasks.get_mut(&id) {
            Some(task) if task.is_valid() => task.deleted_at = Some(at.now),
            Some(_) => {
                at.breaks(Invariant::TasksWithinLimits, format!("task {id} is deleted twice"));
            }
            None => {
                at.breaks(Invariant::TasksWithinLimits, format!("task {id} is deleted, and there is none"));
            }
        }
    }

    /// `tasks_within_limits`, PUL-10.
    fn rotating_within_limit(&self, at: &At<'_>, id: TaskId, rules: Rules) {
        let Some(task) = self.tasks.get(&id).filter(|task| task.spec.when.is_rotating()) else { return };
        let rotating = self.queues.get(&task.queue()).map_or(0, |queue| queue.rotating.len());
        if rotating > rules.rotating_limit {
            let (executor, limit) = (&task.spec.executor, rules.rotating_limit);
            let why = format!("{executor} has {rotating} rotating tasks, and may have {limit}");
            at.breaks(Invariant::TasksWithinLimits, why);
        }
    }

    /// Puts a task where it is looked for.
    fn enqueue(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get(&id).filter(|task| task.is_valid()) else { return };
        if task.spec.when.is_rotating() {
            self.queues.entry(task.queue()).or_default().rotating.insert(id);
        } else {
            self.restock(id);
        }
    }

    pub(super) fn dequeue(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get(&id) else { return };
        let Some(queue) = self.queues.get_mut(&task.queue()) else { return };
        queue.rotating.remove(&id);
        queue.once.remove(&(task.spec.when.start(), id));
    }

    /// A once task goes from the queue with its last unit, and comes back with it.
    pub(super) fn restock(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get(&id) else { return };
        if task.spec.when.is_rotating() || !task.is_valid() {
            return;
        }
        let start = task.spec.when.start();
        let queue = self.queues.entry(task.queue()).or_default();
        if task.stock(start) > 0 {
            queue.once.insert((start, id));
        } else {
            queue.once.remove(&(start, id));
        }
    }

    /// `grants_accounted_for`: takes over a task that came with its user.
    pub(super) fn take_over(&mut self, at: &At<'_>, user: &UserName, moved: &MovedTask) {
        let mut task = Task::new(moved.version, &moved.spec);
        task.totals = Counts::of(&moved.totals);
        let mut add_up = task.totals.add_up() && task.totals.live == 0;
        for MovedOccurrence { start, ledger, .. } in &moved.occurrences {
            let counts = Counts::of(ledger);
            add_up &= counts.add_up();
            task.given.insert(*start, Occurrence { counts, ..Occurrence::default() });
        }
        if !add_up || moved.spec.executor != Executor::User(user.clone()) {
            let why =
                format!("task {} came with user {user}, and does not add up or is not theirs", moved.task);
            at.breaks(Invariant::GrantsAccountedFor, why);
        }
        self.tasks.insert(moved.task, task);
        self.enqueue(moved.task);
    }
}
