//! Grants, from what is in stock to how they end.

use jiff::SignedDuration;
use tidemill_log::Hash;
use tidemill_model::{GrantId, TaskEvent, TaskId, Timestamp, UserName};

use super::due::is_done;
use super::members::Last;
use super::{Grant, Pulls, Rules};
use crate::{At, Invariant};

/// Which grant: itself, its task, the occurrence, the user.
type Of<'a> = (GrantId, TaskId, Timestamp, &'a UserName);

impl Pulls {
    /// `one_live_grant_per_user`, `tasks_granted_only_when_due`, `plain_tasks_once_per_user`, `earliest_task_first`,
    /// `stock_never_below_zero`, `grant_leases_kept`.
    pub(super) fn granted(&mut self, at: &At<'_>, event: &TaskEvent, rules: Rules) {
        let TaskEvent::Granted { grant, task: id, version, start, user, expires_at, next } = event else {
            return;
        };
        if let Some(held) = self.members.get(user).and_then(|member| member.live) {
            let earlier: Vec<u64> = self.grants.get(&held).map(|held| held.said).into_iter().collect();
            let why = format!("user {user} gets grant {grant} and has grant {held}");
            at.contradicts(Invariant::OneLiveGrantPerUser, why, &earlier);
        }
        let count = at.found.count();
        for why in self.not_due(*id, *version, *start, (user, *next), rules) {
            at.breaks(Invariant::TasksGrantedOnlyWhenDue, format!("grant {grant} of task {id}: {why}"));
        }
        self.not_twice(at, (*grant, *id, *start, user));
        self.stock_left(at, (*grant, *id, *start, user));
        let is_sound = count == at.found.count();
        if is_sound && !self.is_unsure(user) {
            self.earliest_first(at, (*grant, *id, *start, user), rules);
        }
        self.lease_as_told(at, (*grant, *id), *expires_at);
        let (granted_at, said) = (at.now, at.offset);
        let held = Grant {
            task: *id,
            start: *start,
            user: user.clone(),
            version: *version,
            granted_at,
            expires_at: *expires_at,
            said,
        };
        self.grants.insert(*grant, held);
        if let Some(member) = self.members.get_mut(user) {
            member.live = Some(*grant);
        }
        self.count(*id, *start, |counts| {
            counts.taken += 1;
            counts.live += 1;
        });
    }

    fn count(&mut self, id: TaskId, start: Timestamp, change: impl Fn(&mut super::Counts)) {
        if let Some(task) = self.tasks.get_mut(&id) {
            change(&mut task.totals);
            change(&mut task.given.entry(start).or_default().counts);
        }
        self.restock(id);
    }

    fn not_due(
        &self,
        id: TaskId,
        version: u32,
        start: Timestamp,
        (user, next): (&UserName, Option<Timestamp>),
        rules: Rules,
    ) -> Vec<String> {
        let Some(task) = self.tasks.get(&id) else { return vec!["there is no such task".to_owned()] };
        let Some(member) = self.members.get(user) else { return vec![format!("user {user} is no member")] };
        let mut wrong = Vec::new();
        if !task.is_valid() {
            wrong.push("it is deleted".to_owned());
        }
        if version != task.version {
            wrong.push(format!("of version {version}, and it has version {}", task.version));
        }
        if task.queue().is_some_and(|executor| executor != *user) {
            wrong.push(format!("it is for {}", task.spec.executor));
        }
        if start > rules.now {
            wrong.push(format!("it starts at {start}, and it is {}", rules.now));
        }
        let window = self.window(member, rules);
        if start < window {
            wrong.push(format!("it starts at {start}, and the window of {user} begins at {window}"));
        }
        if task.grid.is_known() && task.grid.at_or_after(start) != Some(start) {
            wrong.push(format!("{start} is not on its grid"));
        } else if task.grid.is_known() && task.grid.after(start) != next {
            wrong.push(format!("the start after {start} is {:?}, not {next:?}", task.grid.after(start)));
        }
        wrong
    }

    fn not_twice(&self, at: &At<'_>, (grant, id, start, user): Of<'_>) {
        let (Some(task), Some(member)) = (self.tasks.get(&id), self.members.get(user)) else { return };
        if !task.spec.repeat && is_done(task, id, start, (user, member)) {
            let why = format!("grant {grant}: user {user} has completed task {id} of {start} already");
            at.breaks(Invariant::PlainTasksOncePerUser, why);
        }
    }

    fn stock_left(&self, at: &At<'_>, (grant, id, start, _): Of<'_>) {
        let Some(task) = self.tasks.get(&id).filter(|task| task.stock(start) <= 0) else { return };
        let (times, left) = (task.spec.dispatch_times, task.stock(start));
        let why =
            format!("grant {grant}: task {id} of {start} may be given {times} times, and {left} are left");
        at.breaks(Invariant::StockNeverBelowZero, why);
    }

    fn earliest_first(&self, at: &At<'_>, (grant, id, start, user): Of<'_>, rules: Rules) {
        if let Some((first, of)) = self.due(user, rules).filter(|due| *due != (start, id)) {
            let why = format!(
                "grant {grant} is of task {id} of {start}, and task {of} of {first} comes first for user {user}"
            );
            at.breaks(Invariant::EarliestTaskFirst, why);
        }
    }

    fn lease_as_told(&self, at: &At<'_>, (grant, id): (GrantId, TaskId), expires_at: Option<Timestamp>) {
        let Some(task) = self.tasks.get(&id) else { return };
        let lease = task.spec.lease_s.map(|seconds| SignedDuration::from_secs(i64::from(seconds)));
        let wanted = lease.and_then(|lease| at.now.checked_add(lease).ok());
        if expires_at != wanted {
            let why = format!("grant {grant} expires at {expires_at:?}, and its task says {wanted:?}");
            at.breaks(Invariant::GrantLeasesKept, why);
        }
    }

    /// `late_completions_change_nothing`
    pub(super) fn completed(&mut self, at: &At<'_>, of: Of<'_>, result: &str) {
        let (grant, id, start, user) = of;
        if let Err(why) = self.end(of) {
            let why = format!("grant {grant} is completed by user {user}: {why}");
            return at.breaks(Invariant::LateCompletionsChangeNothing, why);
        }
        self.count(id, start, |counts| {
            counts.live = counts.live.saturating_sub(1);
            counts.completed += 1;
        });
        let is_plain = self.tasks.get(&id).is_some_and(|task| !task.spec.repeat);
        if is_plain
            && let Some(occurrence) = self.tasks.get_mut(&id).and_then(|task| task.given.get_mut(&start))
        {
            occurrence.done_by.insert(user.clone(), at.now);
        }
        let Some(member) = self.members.get_mut(user) else { return };
        if member.last.as_ref().is_none_or(|last| last.start != start) {
            member.done.clear();
        }
        member.done.insert(id);
        member.last = Some(Last { grant, task: id, start, result: Hash::of(result.as_bytes()).to_string() });
    }

    /// `grants_accounted_for`, and `grant_leases_kept` of one whose lease ran out.
    pub(super) fn given_back(&mut self, at: &At<'_>, of: Of<'_>, expired: bool) {
        let (grant, id, start, _) = of;
        let expires_at = self.grants.get(&grant).and_then(|held| held.expires_at);
        if let Err(why) = self.end(of) {
            let why = format!("grant {grant} goes back to stock: {why}");
            return at.breaks(Invariant::GrantsAccountedFor, why);
        }
        if expired && expires_at.is_none_or(|expires_at| at.now < expires_at) {
            let why = format!("grant {grant} expires at {}, and its lease is over at {expires_at:?}", at.now);
            at.breaks(Invariant::GrantLeasesKept, why);
        }
        self.count(id, start, |counts| {
            counts.live = counts.live.saturating_sub(1);
            if expired { counts.expired += 1 } else { counts.returned += 1 }
        });
    }

    /// A grant ends, if it is live and just that.
    fn end(&mut self, (grant, id, start, user): Of<'_>) -> Result<(), String> {
        let Some(held) = self.grants.get(&grant) else { return Err("it is not live".to_owned()) };
        if !held.is_of(id, start, user) {
            return Err(format!("it is user {}'s, of task {} of {}", held.user, held.task, held.start));
        }
        self.grants.remove(&grant);
        if let Some(member) = self.members.get_mut(user).filter(|member| member.live == Some(grant)) {
            member.live = None;
        }
        Ok(())
    }
}
