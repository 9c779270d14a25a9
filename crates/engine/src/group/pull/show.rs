//! BYD-10, PUL-6: what people and clients ask about tasks and users.

use tidemill_model::{
    LastCompleted, LiveAnswer, NextDue, OccurrenceLedger, TaskId, TaskLedger, Timestamp, UserName,
    UserStanding,
};

use super::users::Last;
use crate::group::GroupShard;
use crate::group::pull::Pull;

/// Of one answer.
const MAX_OCCURRENCES: usize = 1_000;

impl From<&LastCompleted> for Last {
    fn from(told: &LastCompleted) -> Self {
        let mut result = [0; 32];
        for (byte, hex) in result.iter_mut().zip(told.result_hash.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(hex).ok();
            *byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0);
        }
        let LastCompleted { grant, task, start, completed_at, .. } = *told;
        Self { grant, task, start, result, completed_at }
    }
}

impl Last {
    pub(super) fn told(self) -> LastCompleted {
        let result_hash = self.result.iter().map(|byte| format!("{byte:02x}")).collect();
        let Last { grant, task, start, completed_at, .. } = self;
        LastCompleted { grant, task, start, result_hash, completed_at }
    }
}

impl Pull {
    pub(in crate::group) fn task_ledger(
        &self,
        id: TaskId,
        before: Option<Timestamp>,
        limit: u32,
    ) -> LiveAnswer {
        let Some(task) = self.tasks.get(&id) else { return LiveAnswer::NotFound };
        let limit = MAX_OCCURRENCES.min(limit as usize);
        let older = before
            .map_or(task.given.len(), |before| task.given.partition_point(|given| given.start < before));
        let shown = task.given[..older].iter().rev().take(limit).map(|given| OccurrenceLedger {
            start: given.start,
            ledger: given.ledger,
            stock: if task.gives(given.start) { task.stock(given.start) } else { 0 },
        });
        LiveAnswer::TaskLedger(Box::new(TaskLedger {
            task: id,
            version: task.version,
            spec: (*task.spec).clone(),
            deleted_at: task.deleted_at,
            totals: task.totals,
            occurrences: shown.collect(),
            more: older > limit,
        }))
    }
}

impl GroupShard {
    pub(in crate::group) fn user_standing(&self, name: &UserName, at: Timestamp) -> LiveAnswer {
        let Some(user) = self.pull.users.get(name) else { return LiveAnswer::NotFound };
        let user = user.as_deref();
        let next = self.due_for(user, at).or_else(|| self.next_for(user, at));
        LiveAnswer::User(Box::new(UserStanding {
            user: name.clone(),
            live: user.and_then(|user| user.live.as_ref()).map(|live| live.told(false)),
            last: user.and_then(|user| user.last).map(Last::told),
            window_from: self.window_from(user, at),
            next: next.map(|(start, task)| NextDue { task, start }),
        }))
    }
}
