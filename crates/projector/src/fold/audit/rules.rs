//! Which events are what somebody asked for: one table says it of each kind.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use tidemill_model::{
    AccessEvent, Actor, ApplyEvent, DeletionEvent, Envelope, Event, JobEvent, PartitionEvent, Recorded,
    Refusal, RequestId, Source,
};

use crate::fold::requester;

/// Whether events of a kind are what somebody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// They are, each of them: a command has one for every object.
    Action,
    /// The first one of a command is, where that has no [`Rule::Action`]: what follows is of the same kinds. So of a batch that is
    /// ended its end is the action where it had not started, and the order to end its attempt where it runs; of a batch that is marked
    /// neither is.
    First,
    /// They are, and name who did it: no command asked for it, but a person at the command line of the host.
    Named,
    /// They are calls that an interface refused.
    Refusal,
    /// They are not: they follow from something else, or are a part of the program's own work.
    Never,
}

/// What holds of each kind.
const RULES: [(Rule, &[&str]); 5] = [
    (
        Rule::Action,
        &[
            // The catalogue's definitions.
            "group.defined",
            "key.defined",
            "key.revoked",
            "calendar.defined",
            "calendar.deleted",
            "pool.defined",
            "pool.deleted",
            "template.defined",
            "template.deleted",
            "freeze.set",
            "freeze.lifted",
            "users.assigned",
            // Nothing that follows says who asked for it.
            "user.move_requested",
            "department.defined",
            "department.deleted",
            "person.defined",
            "person.deleted",
            "credential.issued",
            "password.set",
            // Jobs. Of a large apply each job is told of as it is carried out, of a move its end.
            "job.defined",
            "job.enabled",
            "job.disabled",
            "job.deleted",
            "job.moved",
            "job.submitted",
            // Plans, and operations on many; what is done to each item is a command of its own.
            "rerun.requested",
            "rerun.approved",
            "rerun.paused",
            "rerun.resumed",
            "rerun.cancelled",
            "bulk.requested",
            // Batches and their attempts.
            "attempt.adopted",
            "attempt.end_vouched",
            "batch.result_overridden",
            "dependency.overridden",
            "quality.answered",
            "third_party.reported",
            "probes.requested",
            // Workers and hosts.
            "worker.end_vouched",
            "worker.stray_kill_requested",
            "host.drained",
            "host.resumed",
            // Tasks that clients pull. Pulls, completions and returns are the ledger's.
            "task.created",
            "task.changed",
            "task.deleted",
            // The whole.
            "level.held",
            "level.released",
            "clock.set",
        ],
    ),
    (
        Rule::First,
        &[
            // A run by hand; what its generation makes of its children comes behind it.
            "batch.generated",
            "kill.requested",
            "batch.finished",
            // Where nothing is issued, and nobody leaves.
            "credential.ended",
            "credentials.ended",
            // Of a worker alone, as it was before hosts were drained.
            "worker.drained",
            "worker.resumed",
        ],
    ),
    (Rule::Named, &["command_loss.accepted", "log.restored"]),
    (Rule::Refusal, &["access.refused"]),
    (
        Rule::Never,
        &[
            "credential.used",
            "jobs.staged",
            "staging.discarded",
            "apply.committed",
            "apply.advanced",
            "apply.finished",
            "unfinished.queried",
            "unfinished.reported",
            "unfinished.received",
            "deletion.decided",
            "job.parent_deleted",
            "job.move_requested",
            "job.move_rejected",
            "job.cancelled",
            "user.moved",
            "user.move_rejected",
            "rerun.planned",
            "rerun.finished",
            "runs.queried",
            "runs.reported",
            "runs.received",
            "jobs.skipped",
            "batches.planned",
            "runs.requested",
            "run.skipped",
            "run.finished",
            "runs.blocked",
            "bulk.advanced",
            "schedule.skipped",
            "schedule.rescheduled",
            "generation.failed",
            "start.due",
            "dependency.satisfied",
            "dependency.revoked",
            "quality.requested",
            "quality.sent",
            "batch.blocked",
            "batch.unblocked",
            "timeout.reached",
            "batch.assigned",
            "batch.assigned_with_right",
            "assignment.returned",
            "retry.scheduled",
            "retry.due",
            "start.granted",
            "attempt.started",
            "user_code.reported",
            "attempt.interrupted",
            "attempt.over_limit",
            "attempt.external_work_found",
            "attempt.external_work_unconfirmed",
            "attempt.output_queried",
            "attempt.output_answered",
            "attempt.finished",
            "final_command.assigned",
            "final_command.granted",
            "final_command.finished",
            "final_command.not_run",
            "external_dependency.registered",
            "external_dependency.satisfied",
            "external_dependency.revoked",
            "external_dependencies.evicted",
            "third_party.evicted",
            "probes.late",
            "probes.recovered",
            "worker.registered",
            "worker.measured",
            "worker.lost",
            "worker.recovered",
            "lease.expired",
            "worker.lease_half_over",
            "worker.leaving",
            "worker.left",
            "worker.strays_found",
            "worker.stray_ended",
            "worker.unready",
            "worker.ready",
            "host.emptied",
            "task.granted",
            "task.completed",
            "grant.returned",
            "grant.expired",
            "tasks.purged",
            "rate_limit.reset",
            "permits.reported",
            "permits.report_received",
            "permits.granted",
            "permits.received",
            "parent.subscribed",
            "parent.times_subscribed",
            "parent.times_unsubscribed",
            "alarm.raised",
            "process.registered",
            "process.deregistered",
            "process.expired",
            "level.raised",
            "message.received",
            "outbox.acknowledged",
            "history.evicted",
            "command.dead_lettered",
            "timer.suspended",
            "snapshot.taken",
            // Copies of another shard's facts.
            "group.replicated",
            "job.replicated",
            "job.switch_replicated",
            "job.dropped",
            "parent_deletion.replicated",
            "parent.released",
            "cancellation.replicated",
            "template.replicated",
            "template.dropped",
            "users.replicated",
            "pool.replicated",
            "pool.dropped",
            "calendar.replicated",
            "calendar.dropped",
            "freeze.replicated",
            "level.replicated",
            "parents.replicated",
            "parent_status.updated",
            "parent_generations.received",
            "parent_times.received",
            "job.detached",
            "job.detach_rejected",
            "job.attached",
            "user.detached",
            "user.detach_rejected",
            "user.attached",
        ],
    ),
];

static BY_KIND: LazyLock<FxHashMap<&str, Rule>> = LazyLock::new(|| {
    RULES.iter().flat_map(|(rule, kinds)| kinds.iter().map(|kind| (*kind, *rule))).collect()
});

/// Parts of the program that ask for things as their work goes on. No key may be called so.
const PARTS: [&str; 4] = ["attempt", "owner", "process", "worker"];
/// What other parts of the program report, as applications do: the kind, and which part.
const REPORTED: [(&str, &str); 2] =
    [("quality.answered", "quality"), ("third_party.reported", "third-party")];
/// Who works at the command line of the host.
const OPERATOR: &str = "operator";

/// Who asked for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asker<'a> {
    pub(super) app: &'a str,
    pub(super) person: Option<&'a str>,
    pub(super) request: Option<&'a str>,
}

/// Whether this is a part of the program, and nobody who asks. The program of an attempt is named with the attempt.
pub(crate) fn is_part(actor: &Actor) -> bool {
    PARTS.contains(&actor.app.split_once(':').map_or(&*actor.app, |(part, _)| part))
}

/// The events of an envelope that are what somebody asked for, by their place in it, and who that was.
pub(crate) fn actions(envelope: &Envelope) -> Vec<(usize, Asker<'_>)> {
    let (mut found, mut first) = (Vec::new(), 0);
    for cause in &envelope.causes {
        let left = &envelope.events[first.min(envelope.events.len())..];
        let made = &left[..left.len().min(cause.events as usize)];
        let by = requester(&cause.source, made).filter(|actor| !is_part(actor));
        let request = by.and_then(|_| request_of(&cause.source, made));
        add_actions(made, by.map(|by| (by, request)), first, &mut found);
        first += made.len();
    }
    found
}

fn add_actions<'a>(
    made: &'a [Recorded],
    by: Option<(&'a Actor, Option<&'a RequestId>)>,
    first: usize,
    found: &mut Vec<(usize, Asker<'a>)>,
) {
    let rule = |recorded: &Recorded| BY_KIND.get(recorded.event.kind()).copied().unwrap_or(Rule::Never);
    let mut may_be_first = by.is_some() && !made.iter().any(|recorded| rule(recorded) == Rule::Action);
    for (index, recorded) in (first..).zip(made) {
        if let Some(asker) = named(&recorded.event) {
            found.push((index, asker));
            continue;
        }
        let Some((by, request)) = by else { continue };
        let is_action = match rule(recorded) {
            Rule::Action => !REPORTED.contains(&(recorded.event.kind(), &by.app)),
            Rule::First => std::mem::replace(&mut may_be_first, false),
            Rule::Named | Rule::Refusal | Rule::Never => false,
        };
        if is_action {
            let (app, person) = (&*by.app, by.user.as_deref());
            found.push((index, Asker { app, person, request: request.map(RequestId::as_str) }));
        }
    }
}

/// Who did it, where the event says so itself.
fn named(event: &Event) -> Option<Asker<'_>> {
    match event {
        Event::Access(AccessEvent::Refused { refusal: Refusal { app, person, .. } }) => {
            Some(Asker { app, person: person.as_deref(), request: None })
        }
        Event::Partition(
            PartitionEvent::CommandLossAccepted { by, .. } | PartitionEvent::Restored { by, .. },
        ) => Some(Asker { app: OPERATOR, person: Some(by), request: None }),
        _ => None,
    }
}

/// The request of a command; of what was decided later, that of the command that asked for it.
fn request_of<'a>(source: &'a Source, made: &'a [Recorded]) -> Option<&'a RequestId> {
    let later = made.iter().find_map(|recorded| match &recorded.event {
        Event::Job(JobEvent::Moved { request, .. })
        | Event::Deletion(DeletionEvent::Decided { request, .. }) => Some(request.as_ref()),
        Event::Apply(ApplyEvent::Advanced { apply, .. } | ApplyEvent::Finished { apply, .. }) => {
            Some(Some(apply))
        }
        _ => None,
    });
    match (later, source) {
        (Some(request), _) => request,
        (None, Source::Command { request, .. }) => request.as_ref(),
        (None, Source::Timer | Source::Observed) => None,
    }
}

#[cfg(test)]
mod tests {
    use tidemill_model::EventKind;

    use super::*;

    /// API-9: of every kind of event it is decided whether it is an action, once.
    #[test]
    fn every_kind_is_decided_on() {
        let mut decided: Vec<&str> = RULES.iter().flat_map(|(_, kinds)| kinds.iter().copied()).collect();
        let mut kinds: Vec<&str> = EventKind::all().map(|kind| kind.name).collect();
        decided.sort_unstable();
        kinds.sort_unstable();
        assert_eq!(decided, kinds, "say in RULES of each kind whether it is what somebody asked for");
    }

    #[test]
    fn parts_of_the_program_ask_for_nothing() {
        let is = |app: &str| is_part(&Actor { app: app.into(), user: None });
        assert!(["attempt:8193", "worker", "owner", "process"].into_iter().all(is));
        assert!(!["etl", "operator", "first-start", "workers", "quality"].into_iter().any(is));
    }
}
