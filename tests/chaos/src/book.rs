//! The ledger of the tasks that pull workers do, as the journal has it.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::{Event, Executor, TaskEvent};

use crate::adder;
use crate::journal::{Entry, What};

/// How a grant ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It has not.
    Live,
    /// By its worker's word, with this result.
    Completed(String),
    /// Given back.
    Returned,
    /// Its lease ran out.
    Expired,
}

impl End {
    /// Its state, as calls show it.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Completed(_) => "completed",
            Self::Returned => "returned",
            Self::Expired => "expired",
        }
    }
}

/// A task that somebody was given.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) task: i64,
    pub(crate) user: String,
    /// By the owner's clock, milliseconds since 1970.
    pub(crate) at_ms: i64,
    pub(crate) end: End,
}

/// What is on record, in the order of the one shard that decides it.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) tasks: BTreeSet<i64>,
    pub(crate) grants: BTreeMap<i64, Grant>,
    /// Grants by task, in their order.
    pub(crate) by_task: BTreeMap<i64, Vec<i64>>,
    /// Grants that were given while another one of their task was not over, or after it was completed.
    pub(crate) too_early: Vec<String>,
    /// Ends of what was over.
    pub(crate) too_late: Vec<String>,
}

impl Book {
    /// Of the tasks of the workers' group, and of the workers themselves.
    pub(crate) fn of(entries: &[Entry], workers: u64) -> Self {
        let users: BTreeSet<_> = adder::users(workers).collect();
        let mut book = Self::default();
        for entry in entries {
            let What::Envelope(envelope) = &entry.what else { continue };
            let at_ms = envelope.now.jiff().as_millisecond();
            for recorded in &envelope.events {
                if let Event::Task(event) = &recorded.event {
                    book.follow(event, at_ms, &users);
                }
            }
        }
        book
    }

    fn follow(&mut self, event: &TaskEvent, at_ms: i64, users: &BTreeSet<String>) {
        match event {
            TaskEvent::Created { task, spec } => {
                let is_mine = match &spec.executor {
                    Executor::Group(group) => group.to_string() == adder::GROUP,
                    Executor::User(user) => users.contains(&user.to_string()),
                };
                if is_mine {
                    self.tasks.insert(task.0);
                }
            }
            TaskEvent::Granted { grant, task, user, .. } if self.tasks.contains(&task.0) => {
                let grants = self.by_task.entry(task.0).or_default();
                for earlier in grants.iter() {
                    let end = &self.grants[earlier].end;
                    if !matches!(end, End::Returned | End::Expired) {
                        let (task, user) = (task.0, user.as_str());
                        self.too_early.push(format!(
                            "task {task} was given to {user} by grant {grant}, and grant {earlier} of it is {}",
                            end.name()
                        ));
                    }
                }
                grants.push(grant.0);
                let (task, user) = (task.0, user.to_string());
                self.grants.insert(grant.0, Grant { task, user, at_ms, end: End::Live });
            }
            TaskEvent::Completed { grant, result, .. } => self.end(grant.0, End::Completed(result.clone())),
            TaskEvent::GrantReturned { grant, .. } => self.end(grant.0, End::Returned),
            TaskEvent::GrantExpired { grant, .. } => self.end(grant.0, End::Expired),
            TaskEvent::Granted { .. }
            | TaskEvent::Changed { .. }
            | TaskEvent::Deleted { .. }
            | TaskEvent::Purged { .. } => {}
        }
    }

    fn end(&mut self, number: i64, end: End) {
        let Some(grant) = self.grants.get_mut(&number) else { return };
        if grant.end == End::Live {
            grant.end = end;
        } else {
            let (before, now) = (grant.end.name(), end.name());
            self.too_late.push(format!("grant {number} was {before}, and then it is {now}"));
        }
    }

    /// How often a task was completed.
    pub(crate) fn completions(&self, task: i64) -> usize {
        let grants = self.by_task.get(&task).into_iter().flatten();
        grants.filter(|grant| matches!(self.grants[*grant].end, End::Completed(_))).count()
    }

    /// Tasks that are not completed, or that somebody has.
    pub(crate) fn open(&self) -> BTreeSet<i64> {
        let live = self.grants.values().filter(|grant| grant.end == End::Live).map(|grant| grant.task);
        let left = self.tasks.iter().copied().filter(|task| self.completions(*task) == 0);
        left.chain(live).collect()
    }

    /// Grants that ended so.
    pub(crate) fn ended(&self, is_so: impl Fn(&End) -> bool) -> u64 {
        self.grants.values().filter(|grant| is_so(&grant.end)).count() as u64
    }
}
