//! What has to come up: a kind of event, rejection or fault that is in less than 1 % of the histories is not
//! tested, whatever their number.

use std::collections::BTreeMap;

use crate::plan::Fault;
use crate::stats::{Counted, Stats};

/// What truly cannot come up, and why.
const NEVER: &[(Counted, &str)] = &[(
    ("event", "command_loss.accepted"),
    "a person's act on a live log, with that log's clock; the dispatcher's tests do it on every back end",
)];

const EVENTS: &[&str] = &[
    "group.defined",
    "key.defined",
    "key.revoked",
    "job.defined",
    "job.enabled",
    "job.disabled",
    "job.deleted",
    "job.move_requested",
    "job.moved",
    "job.move_rejected",
    "jobs.staged",
    "staging.discarded",
    "apply.committed",
    "apply.advanced",
    "apply.finished",
    "calendar.defined",
    "calendar.deleted",
    "calendar.replicated",
    "calendar.dropped",
    "template.defined",
    "template.deleted",
    "users.assigned",
    "user.move_requested",
    "user.moved",
    "user.move_rejected",
    "template.replicated",
    "template.dropped",
    "users.replicated",
    "user.detached",
    "user.detach_rejected",
    "user.attached",
    "task.created",
    "task.changed",
    "task.deleted",
    "task.granted",
    "task.completed",
    "grant.returned",
    "grant.expired",
    "tasks.purged",
    "pool.defined",
    "pool.deleted",
    "pool.replicated",
    "pool.dropped",
    "rate_limit.reset",
    "permits.reported",
    "permits.report_received",
    "permits.granted",
    "permits.received",
    "schedule.rescheduled",
    "generation.failed",
    "rerun.requested",
    "runs.queried",
    "runs.received",
    "jobs.skipped",
    "batches.planned",
    "rerun.planned",
    "rerun.approved",
    "runs.requested",
    "run.finished",
    "runs.blocked",
    "rerun.paused",
    "rerun.resumed",
    "rerun.cancelled",
    "rerun.finished",
    "runs.reported",
    "run.skipped",
    "message.received",
    "outbox.acknowledged",
    "group.replicated",
    "job.replicated",
    "job.switch_replicated",
    "job.dropped",
    "job.detached",
    "job.detach_rejected",
    "job.attached",
    "job.submitted",
    "parents.replicated",
    "parent_status.updated",
    "parent_generations.received",
    "parent_times.received",
    "parent.subscribed",
    "parent.times_subscribed",
    "parent.times_unsubscribed",
    "batch.generated",
    "schedule.skipped",
    "dependency.satisfied",
    "dependency.revoked",
    "batch.assigned",
    "assignment.returned",
    "start.granted",
    "attempt.started",
    "user_code.reported",
    "attempt.finished",
    "retry.scheduled",
    "retry.due",
    "kill.requested",
    "batch.finished",
    "freeze.set",
    "freeze.lifted",
    "freeze.replicated",
    "start.due",
    "batch.result_overridden",
    "final_command.assigned",
    "final_command.granted",
    "final_command.finished",
    "final_command.not_run",
    "batch.blocked",
    "batch.unblocked",
    "timeout.reached",
    "alarm.raised",
    "history.evicted",
    "external_dependency.registered",
    "external_dependency.satisfied",
    "external_dependency.revoked",
    "external_dependencies.evicted",
    "dependency.overridden",
    "probes.requested",
    "quality.requested",
    "quality.sent",
    "quality.answered",
    "third_party.reported",
    "third_party.evicted",
    "probes.late",
    "probes.recovered",
    "worker.registered",
    "worker.measured",
    "worker.lost",
    "worker.recovered",
    "lease.expired",
    "worker.drained",
    "worker.resumed",
    "worker.unready",
    "worker.ready",
    "command.dead_lettered",
    "timer.suspended",
    "clock.set",
    "unfinished.queried",
    "unfinished.received",
    "unfinished.reported",
    "deletion.decided",
    "cancellation.replicated",
    "job.cancelled",
    "command_loss.accepted",
];

const REJECTIONS: &[&str] = &[
    "invalid",
    "cycle",
    "unknown",
    "batch_already_finished",
    "batch_unfinished",
    "not_waited_for",
    "job_unfinished",
    "job_in_use",
    "job_not_moved",
    "job_moving",
    "calendar_in_use",
    "pool_in_use",
    "user_unknown",
    "user_elsewhere",
    "user_moving",
    "grant_live",
    "grant_over",
    "already_completed",
    "not_returned",
    "task_deleted",
    "job_disabled",
    "stale_token",
    "bad_registration",
    "out_of_order",
    "wrong_shard",
    "limit_reached",
    "already_there",
    "apply_running",
    "idempotency_key_reused",
    "revision_changed",
    "plan_outdated",
    "rerun_not_ready",
    "dead_lettered",
];

/// What several faults add up to, or how the cluster is.
const CONDITIONS: &[&str] = &[
    "late_worker",
    "shim_outlives_worker",
    "two_owners",
    "left_out_while_waiting",
    "failed_for_parent",
    "skipped_for_parent",
    "skipped_for_success",
    "values_passed",
    "values_heard",
    "value_missing",
    "failed_at_start",
    "pulled_again",
    "completed_again",
    "nothing_due",
    "moved_with_tasks",
    "moved_with_history",
];

/// What the chain is for.
const VOIDS: &[&str] = &["wrong_epoch"];

/// In how many histories something happened, and how often in all.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    histories: u64,
    seen: BTreeMap<Counted, (u64, u64)>,
}

impl Coverage {
    /// One more history.
    pub fn add(&mut self, stats: &Stats) {
        self.histories += 1;
        for (what, times) in stats.iter() {
            let seen = self.seen.entry(what).or_default();
            *seen = (seen.0 + 1, seen.1 + times);
        }
    }

    /// Those of another.
    pub fn merge(&mut self, other: &Coverage) {
        self.histories += other.histories;
        for (what, (histories, times)) in &other.seen {
            let seen = self.seen.entry(*what).or_default();
            *seen = (seen.0 + histories, seen.1 + times);
        }
    }

    /// What must come up and is in less than 1 % of the histories.
    #[must_use]
    pub fn rare(&self) -> Vec<Counted> {
        let of = |class, names: &'static [&'static str]| names.iter().map(move |name| (class, *name));
        let faults = Fault::ALL.iter().map(|(_, name)| ("fault", *name));
        let wanted = of("event", EVENTS)
            .chain(of("rejection", REJECTIONS))
            .chain(of("condition", CONDITIONS))
            .chain(of("void", VOIDS))
            .chain(faults);
        let never = |what: &Counted| NEVER.iter().any(|(never, _)| never == what);
        wanted.filter(|what| !never(what) && self.histories_with(*what) * 100 < self.histories).collect()
    }

    /// What happened that is said never to.
    #[must_use]
    pub fn surprising(&self) -> Vec<Counted> {
        NEVER.iter().map(|(what, _)| *what).filter(|what| self.seen.contains_key(what)).collect()
    }

    fn histories_with(&self, what: Counted) -> u64 {
        self.seen.get(&what).map_or(0, |(histories, _)| *histories)
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for ((class, name), (histories, times)) in &self.seen {
            let percent = *histories as f64 * 100.0 / self.histories.max(1) as f64;
            writeln!(f, "  {class:<10} {name:<32} {percent:>6.1} %  {times:>9}")?;
        }
        for ((class, name), why) in NEVER {
            writeln!(f, "  {class:<10} {name:<32}  never: {why}")?;
        }
        Ok(())
    }
}
