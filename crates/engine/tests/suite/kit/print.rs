//! Events and rejections, short enough to be read in a table of expectations.

use std::collections::BTreeMap;

use tidemill_model::{
    AlarmEvent, ApplyEvent, AttemptEvent, BatchEvent, BulkEvent, CatalogueEvent, DeletionEvent, Event,
    FinalCommandEvent, JobEvent, JobId, LevelEvent, ObservationEvent, Outcome, PartitionEvent, PermitEvent,
    PermitReport, ReplicationEvent, RerunEvent, ScheduleEvent, SkippedTimes, SubscriptionEvent, TaskEvent,
    Timestamp, TransferEvent, WorkerEvent,
};

fn time(time: &Timestamp) -> String {
    let text = time.to_string();
    text.replace(".000Z", "Z").trim_end_matches(":00Z").replace('T', " ")
}

/// One event in short; nothing for messages between shards.
pub(crate) fn brief(event: &Event, names: &BTreeMap<JobId, String>) -> Option<String> {
    let name = |job: &JobId| names.get(job).cloned().unwrap_or_else(|| job.to_string());
    let n = |id: i64| id >> 12;
    Some(match event {
        Event::Partition(
            PartitionEvent::MessageReceived { .. } | PartitionEvent::OutboxAcknowledged { .. },
        ) => return None,
        Event::Catalogue(CatalogueEvent::GroupDefined { name, .. }) => format!("group defined {name}"),
        Event::Replication(ReplicationEvent::GroupReplicated { name, .. }) => {
            format!("group received {name}")
        }
        Event::Catalogue(CatalogueEvent::KeyDefined { app, .. }) => format!("key defined {app}"),
        Event::Catalogue(CatalogueEvent::KeyRevoked { app }) => format!("key revoked {app}"),
        Event::Job(JobEvent::Defined { definition, enabled, .. }) => {
            let off = if *enabled { "" } else { ", disabled" };
            format!("job defined {} v{}{off}", definition.spec.name, definition.version)
        }
        Event::Job(JobEvent::Enabled { job }) => format!("job enabled {}", name(job)),
        Event::Job(JobEvent::Disabled { job }) => format!("job disabled {}", name(job)),
        Event::Job(JobEvent::Deleted { job }) => format!("job deleted {}", name(job)),
        Event::Job(JobEvent::ParentDeleted { parent, children, .. }) => {
            let children = children.iter().map(|of| format!("{} of shard {}", of.jobs, of.shard));
            format!("{} is deleted as parent of {}", name(parent), children.collect::<Vec<_>>().join(", "))
        }
        Event::Replication(ReplicationEvent::ParentDeletionReplicated { parent, jobs, .. }) => {
            let jobs: Vec<String> = jobs.iter().map(name).collect();
            format!("{} deleted as parent of {}", name(parent), jobs.join(", "))
        }
        Event::Replication(ReplicationEvent::JobReplicated { definition, next, .. }) => {
            let next = next.map_or("never".to_owned(), |next| time(&next.at));
            format!("job received {} v{}, next {next}", definition.spec.name, definition.version)
        }
        Event::Replication(ReplicationEvent::JobSwitchReplicated { job, enabled, next }) => {
            let next = next.map_or("never".to_owned(), |next| time(&next.at));
            format!("job switched {} {enabled}, next {next}", name(job))
        }
        Event::Replication(ReplicationEvent::ParentReleased { parent }) => {
            format!("{} released", name(parent))
        }
        Event::Replication(ReplicationEvent::JobDropped { job, .. }) => format!("job removed {}", name(job)),
        Event::Job(JobEvent::MoveRequested { job, from, .. }) => {
            format!("shard {from} asked to release {}", name(job))
        }
        Event::Job(JobEvent::Moved { definition, .. }) => {
            format!("job moved {} v{}", definition.full_name(), definition.version)
        }
        Event::Job(JobEvent::MoveRejected { reason, .. }) => format!("not moved: {reason}"),
        Event::Transfer(TransferEvent::JobDetached { job, moved }) => {
            let times: u32 = moved.runs.iter().map(|of| of.times).sum();
            format!("job released {} with {times} times", name(job))
        }
        Event::Transfer(TransferEvent::JobDetachRejected { job, reason }) => {
            format!("job kept {}: {reason}", name(job))
        }
        Event::Transfer(TransferEvent::JobAttached { definition, next, .. }) => {
            let next = next.map_or("never".to_owned(), |next| time(&next.at));
            format!("job taken {} v{}, next {next}", definition.full_name(), definition.version)
        }
        Event::Deletion(DeletionEvent::UnfinishedQueried { question, jobs, .. }) => {
            let names: Vec<String> = jobs.iter().map(name).collect();
            format!("asked {question}: unfinished of {}", names.join(", "))
        }
        Event::Deletion(DeletionEvent::UnfinishedReported { question, jobs }) => {
            let told: Vec<String> = jobs.iter().map(|j| format!("{} {}", name(&j.job), j.batches)).collect();
            format!("told {question}: {}", told.join(", "))
        }
        Event::Deletion(DeletionEvent::UnfinishedReceived { .. }) => return None,
        Event::Deletion(DeletionEvent::Decided { question, outcome, .. }) => {
            let refused = matches!(outcome, Outcome::Refused(_));
            format!("decided {question}: {}", if refused { "refused" } else { "done" })
        }
        Event::Apply(ApplyEvent::Staged { part, jobs, .. }) => {
            format!("staged part {part}, {} jobs", jobs.len())
        }
        Event::Apply(ApplyEvent::StagingDiscarded { .. }) => "staging dropped".to_owned(),
        Event::Apply(ApplyEvent::Committed { delete, .. }) => {
            format!("apply committed, deletes {}", delete.len())
        }
        Event::Apply(ApplyEvent::Advanced { done, .. }) => format!("apply advanced to {done}"),
        Event::Apply(ApplyEvent::Finished { .. }) => "apply finished".to_owned(),
        Event::Rerun(
            RerunEvent::RunsQueried { .. }
            | RerunEvent::RunsReceived { .. }
            | RerunEvent::RunsReported { .. },
        ) => return None,
        Event::Rerun(RerunEvent::Requested { jobs, .. }) => format!("rerun requested, {} jobs", jobs.len()),
        Event::Rerun(RerunEvent::JobsSkipped { jobs, times, .. }) => {
            let from = |skip: &SkippedTimes| {
                format!("{} from {} on: {:?}", name(&skip.job), time(&skip.from), skip.reason)
            };
            let jobs: Vec<String> =
                jobs.iter().map(|skip| name(&skip.job)).chain(times.iter().map(from)).collect();
            format!("skips jobs {}", jobs.join(", "))
        }
        Event::Rerun(RerunEvent::BatchesPlanned { first, batches, .. }) => {
            let of = |batch: &tidemill_model::PlannedBatch| {
                let run = batch.run.map_or("first".to_owned(), |run| format!("run {run}"));
                let after =
                    if batch.after.is_empty() { String::new() } else { format!(" after {:?}", batch.after) };
                format!("{} {} {run}{after}", name(&batch.job), time(&batch.logical_time))
            };
            format!("planned from {first}: {}", batches.iter().map(of).collect::<Vec<_>>().join("; "))
        }
        Event::Rerun(RerunEvent::Planned { batches, .. }) => format!("rerun planned, {batches} batches"),
        Event::Rerun(RerunEvent::Approved { .. }) => "rerun approved".to_owned(),
        Event::Rerun(RerunEvent::RunsRequested { runs, .. }) => {
            let runs: Vec<String> = runs.iter().map(|run| run.number.to_string()).collect();
            format!("ordered {}", runs.join(", "))
        }
        Event::Rerun(RerunEvent::RunFinished { place, end }) => {
            let how = match end {
                tidemill_model::RunOutcome::Finished { result, .. } => result.as_str().to_owned(),
                tidemill_model::RunOutcome::Skipped(reason) => format!("skipped, {reason:?}"),
            };
            format!("ended {}: {how}", place.number)
        }
        Event::Rerun(RerunEvent::RunsBlocked { numbers, .. }) => format!("blocked {numbers:?}"),
        Event::Level(LevelEvent::ProcessRegistered { process }) => {
            format!("{} registered, reads {}", process.id, process.reads)
        }
        Event::Level(LevelEvent::ProcessDeregistered { process }) => format!("{process} deregistered"),
        Event::Level(LevelEvent::ProcessExpired { process }) => format!("{process} expired"),
        Event::Level(LevelEvent::Raised { level }) => format!("level {level}"),
        Event::Level(LevelEvent::Held { .. }) => "level held".to_owned(),
        Event::Level(LevelEvent::Released { .. }) => "level released".to_owned(),
        Event::Replication(ReplicationEvent::LevelReplicated { level }) => {
            format!("level {level} replicated")
        }
        Event::Bulk(BulkEvent::Requested { action, items, .. }) => {
            format!("bulk {action} of {}", items.len())
        }
        Event::Bulk(BulkEvent::Advanced { outcomes, ended, .. }) => {
            let end = if *ended { ", ended" } else { "" };
            format!("bulk advanced by {}{end}", outcomes.len())
        }
        Event::Rerun(RerunEvent::Paused { .. }) => "rerun paused".to_owned(),
        Event::Rerun(RerunEvent::Resumed { .. }) => "rerun resumed".to_owned(),
        Event::Rerun(RerunEvent::Cancelled { kill, .. }) => {
            format!("rerun cancelled{}", if *kill { ", kills" } else { "" })
        }
        Event::Rerun(RerunEvent::Finished { result, message, .. }) => {
            format!("rerun ended {}{}{message}", result.as_str(), if message.is_empty() { "" } else { ": " })
        }
        Event::Rerun(RerunEvent::RunSkipped { place, .. }) => format!("run {} skipped", place.number),
        Event::Job(JobEvent::Cancelled { job, .. }) => format!("job cancelled {}", name(job)),
        Event::Replication(ReplicationEvent::CancellationReplicated { job, .. }) => {
            format!("cancels {}", name(job))
        }
        Event::Replication(ReplicationEvent::ParentsReplicated { parents }) => {
            let names: Vec<&str> = parents.iter().map(|parent| parent.name.as_str()).collect();
            format!("parents received {}", names.join(", "))
        }
        Event::Subscription(SubscriptionEvent::ParentSubscribed { job, by, what }) => {
            format!("{} followed by {by}: {what:?}", name(job))
        }
        Event::Subscription(SubscriptionEvent::ParentTimesSubscribed { job, by, times }) => {
            format!(
                "{} watched by {by}: {}",
                name(job),
                times.iter().map(time).collect::<Vec<_>>().join(", ")
            )
        }
        Event::Subscription(SubscriptionEvent::ParentTimesUnsubscribed { job, by, times }) => {
            format!(
                "{} unwatched by {by}: {}",
                name(job),
                times.iter().map(time).collect::<Vec<_>>().join(", ")
            )
        }
        Event::Replication(ReplicationEvent::ParentStatusUpdated { parent, standings }) => {
            let heard = |it: &tidemill_model::Standing| {
                let stands = it.result.map_or(if it.succeeded { "succeeded" } else { "-" }, |r| r.as_str());
                let run = it.run.map_or("none".to_owned(), |run| format!("run {run}"));
                let values = if it.values.is_empty() { String::new() } else { format!(" {:?}", it.values) };
                format!("{} {run} {stands}{values}", time(&it.logical_time))
            };
            format!("heard {}: {}", name(parent), standings.iter().map(heard).collect::<Vec<_>>().join(", "))
        }
        Event::Replication(ReplicationEvent::ParentGenerationsReceived { parent, times, left_out }) => {
            let times = times.iter().map(time).collect::<Vec<_>>().join(", ");
            format!("heard {} generated: {times}, left out {left_out}", name(parent))
        }
        Event::Replication(ReplicationEvent::ParentTimesReceived { parent, times }) => {
            format!("heard {} has {} times", name(parent), times.len())
        }
        Event::Job(JobEvent::Submitted { definition }) => format!("job submitted {}", definition.spec.name),
        Event::Batch(BatchEvent::Generated {
            batch,
            job,
            logical_time,
            run,
            dependencies,
            counted_parents,
            ..
        }) => {
            let counted = counted_parents.iter();
            let counted = counted.map(|it| format!("counted {}/{}", it.parents - it.unmet, it.parents));
            let waits: Vec<String> = dependencies
                .iter()
                .map(|d| format!("{} {}/{}", name(&d.parent), d.met.len(), d.times.len()))
                .chain(counted)
                .collect();
            let waits = if waits.is_empty() { String::new() } else { format!(", of {}", waits.join(", ")) };
            format!("b{} generated {} {} run {run}{waits}", n(batch.0), name(job), time(logical_time))
        }
        Event::Schedule(ScheduleEvent::Skipped { job, from, to, count, reason, .. }) => {
            format!("skipped {} {} to {}, {count}: {reason:?}", name(job), time(from), time(to))
        }
        Event::Batch(BatchEvent::DependencySatisfied { batch, parent, logical_time, unmet, left_out }) => {
            let how = if *left_out { "leaves out" } else { "satisfied" };
            format!("b{} {how} {} {}, unmet {unmet}", n(batch.0), name(parent), time(logical_time))
        }
        Event::Batch(BatchEvent::DependencyRevoked { batch, parent, logical_time, unmet }) => {
            format!("b{} withdrawn {} {}, unmet {unmet}", n(batch.0), name(parent), time(logical_time))
        }
        Event::Batch(BatchEvent::Assigned { batch, attempt, token, worker, .. }) => {
            format!("b{} assigned t{} attempt {attempt} to {worker}", n(batch.0), n(token.0))
        }
        Event::Batch(BatchEvent::AssignedWithRight { batch, attempt, token, worker, .. }) => {
            format!("b{} assigned t{} attempt {attempt} to {worker}, with a right", n(batch.0), n(token.0))
        }
        Event::Batch(BatchEvent::AssignmentReturned { batch, token, reason, .. }) => {
            format!("b{} returned t{}: {reason:?}", n(batch.0), n(token.0))
        }
        Event::Attempt(AttemptEvent::StartGranted { batch, token, .. }) => {
            format!("b{} granted t{}", n(batch.0), n(token.0))
        }
        Event::Attempt(AttemptEvent::UserCodeReported { batch, code, .. }) => {
            format!("b{} reports code {code}", n(batch.0))
        }
        Event::FinalCommand(FinalCommandEvent::Assigned { batch, token, worker, .. }) => {
            format!("b{} final command t{} to {worker}", n(batch.0), n(token.0))
        }
        Event::FinalCommand(FinalCommandEvent::Granted { batch, token, .. }) => {
            format!("b{} final command granted t{}", n(batch.0), n(token.0))
        }
        Event::FinalCommand(FinalCommandEvent::Finished { batch, result, message, .. }) => {
            format!("b{} final command {}: {message}", n(batch.0), result.as_str())
        }
        Event::FinalCommand(FinalCommandEvent::NotRun { batch, message, .. }) => {
            format!("b{} final command not_run: {message}", n(batch.0))
        }
        Event::Attempt(AttemptEvent::Started { batch, token }) => {
            format!("b{} started t{}", n(batch.0), n(token.0))
        }
        Event::Attempt(AttemptEvent::OverLimit { batch, excess, spares_retry, .. }) => {
            let spares = if *spares_retry { ", spares a retry" } else { "" };
            format!("b{} over its limit: {}{spares}", n(batch.0), excess.kind.as_str())
        }
        Event::Attempt(AttemptEvent::ExternalWorkFound { batch, token, ids, .. }) => {
            let ids: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
            format!("b{} external work of t{}: {}", n(batch.0), n(token.0), ids.join(" "))
        }
        Event::Attempt(AttemptEvent::ExternalWorkUnconfirmed { batch, token, .. }) => {
            format!("b{} external work of t{} unconfirmed", n(batch.0), n(token.0))
        }
        Event::Attempt(AttemptEvent::OutputQueried { batch, token, path, since, until }) => {
            let (since, until) = (time(since), time(until));
            format!("b{} output of t{} queried: {path} since {since} until {until}", n(batch.0), n(token.0))
        }
        Event::Attempt(AttemptEvent::OutputAnswered { batch, token, found }) => {
            format!("b{} output of t{}: {found:?}", n(batch.0), n(token.0))
        }
        Event::Attempt(AttemptEvent::Interrupted { batch, token, .. }) => {
            format!("b{} interrupted t{}", n(batch.0), n(token.0))
        }
        Event::Attempt(AttemptEvent::Finished { batch, attempt, outcome, .. }) => {
            format!("b{} attempt {attempt} {:?}", n(batch.0), outcome.result)
        }
        Event::Batch(BatchEvent::RetryScheduled { batch, attempt, at }) => {
            format!("b{} retry {attempt} at {}", n(batch.0), time(at))
        }
        Event::Catalogue(CatalogueEvent::FreezeSet { group, freeze }) => {
            let what = group.as_ref().map_or("everything".to_owned(), ToString::to_string);
            format!("{what} frozen after {}", time(&freeze.latest))
        }
        Event::Catalogue(CatalogueEvent::FreezeLifted { group, .. }) => {
            format!("{} lifted", group.as_ref().map_or("everything".to_owned(), ToString::to_string))
        }
        Event::Replication(ReplicationEvent::FreezeReplicated { scope, freeze }) => {
            format!("{scope:?} is frozen: {}", freeze.is_some())
        }
        Event::Batch(BatchEvent::StartDue { batch }) => format!("b{} start due", n(batch.0)),
        Event::Batch(BatchEvent::RetryDue { batch }) => format!("b{} retry due", n(batch.0)),
        Event::Attempt(AttemptEvent::KillRequested { batch, token, .. }) => {
            format!("b{} kill t{}", n(batch.0), n(token.0))
        }
        Event::Batch(BatchEvent::Finished { batch, result, by, .. }) => {
            let by =
                by.as_ref().and_then(|by| by.user.as_ref()).map_or(String::new(), |by| format!(" by {by}"));
            format!("b{} finished {}{by}", n(batch.0), result.as_str())
        }
        Event::Batch(BatchEvent::ResultOverridden { batch, result, by, reason, .. }) => {
            format!("b{} marked {result:?} by {}: {reason}", n(batch.0), by.user.as_deref().unwrap_or("?"))
        }
        Event::Batch(BatchEvent::Blocked { batch, parent, logical_time, since }) => {
            let (time, since) = (time(logical_time), time(since));
            format!("b{} blocked by {} {time}, since {since}", n(batch.0), name(parent))
        }
        Event::Batch(BatchEvent::Unblocked { batch }) => format!("b{} unblocked", n(batch.0)),
        Event::Batch(BatchEvent::TimeoutReached { batch, kind, deadline }) => {
            format!("b{} marked {kind:?}, due {}", n(batch.0), time(deadline))
        }
        Event::Alarm(AlarmEvent::Raised { kind, severity, .. }) => format!("alarm {kind:?}, {severity:?}"),
        Event::Observation(ObservationEvent::ExternalDependencyRegistered { external_dependency, what }) => {
            format!("h{} waited: {what}", n(external_dependency.0))
        }
        Event::Observation(ObservationEvent::ExternalDependencySatisfied {
            external_dependency,
            generation,
        }) => {
            format!("h{} satisfied, generation {generation}", n(external_dependency.0))
        }
        Event::Observation(ObservationEvent::ExternalDependencyRevoked {
            external_dependency,
            generation,
            worker,
        }) => {
            let by = worker.as_ref().map_or(String::new(), |worker| format!(" by {worker}"));
            format!("h{} withdrawn{by}, generation {generation}", n(external_dependency.0))
        }
        Event::Observation(ObservationEvent::ExternalDependenciesEvicted { external_dependencies }) => {
            let external_dependencies: Vec<String> = external_dependencies
                .iter()
                .map(|external_dependency| format!("h{}", n(external_dependency.0)))
                .collect();
            format!("forgotten {}", external_dependencies.join(", "))
        }
        Event::Batch(BatchEvent::DependencyOverridden {
            batch,
            external_dependencies,
            parents,
            counted_parents,
            quality,
            unmet,
            reason,
            ..
        }) => {
            let external_dependencies: Vec<String> = external_dependencies
                .iter()
                .map(|external_dependency| format!("h{}", n(external_dependency.0)))
                .collect();
            let parents: Vec<String> = parents.iter().map(|parent| name(&parent.job)).collect();
            let quality = if *quality { ["quality".to_owned()].to_vec() } else { Vec::new() };
            let counted = if *counted_parents { ["counted parents".to_owned()].to_vec() } else { Vec::new() };
            let all = [external_dependencies, parents, counted, quality].concat().join(", ");
            format!("b{} runs without {all}, unmet {unmet}: {reason}", n(batch.0))
        }
        Event::Observation(ObservationEvent::ProbesRequested { batch: Some(batch), .. }) => {
            format!("b{} checks requested", n(batch.0))
        }
        Event::Observation(ObservationEvent::ProbesRequested { batch: None, .. }) => {
            "checks requested".to_owned()
        }
        Event::Batch(BatchEvent::QualityRequested { batch, number, again_at }) => {
            format!("b{} quality question {number}, again at {}", n(batch.0), time(again_at))
        }
        Event::Batch(BatchEvent::QualitySent { batch, number, by }) => {
            format!("b{} quality question {number} taken by {by}", n(batch.0))
        }
        Event::Batch(BatchEvent::QualityAnswered { batch, allowed, reason, .. }) => {
            format!("b{} quality {}: {reason}", n(batch.0), if *allowed { "allowed" } else { "refused" })
        }
        Event::Observation(ObservationEvent::ThirdPartyReported { report, .. }) => {
            let ready = if report.ready { "ready" } else { "not ready" };
            format!("reported {} {} {ready}", report.code, time(&report.logical_time))
        }
        Event::Observation(ObservationEvent::ThirdPartyEvicted { count, .. }) => {
            format!("reports forgotten {count}")
        }
        Event::Observation(ObservationEvent::ProbesLate { report }) => {
            format!("checks of {} late {} ms", report.authority, report.late_ms)
        }
        Event::Observation(ObservationEvent::ProbesRecovered { authority, .. }) => {
            format!("checks of {authority} recovered")
        }
        Event::Catalogue(CatalogueEvent::CalendarDefined { calendar }) => {
            format!("calendar defined {calendar}")
        }
        Event::Catalogue(CatalogueEvent::TemplateDefined { template }) => {
            format!("template defined {template}")
        }
        Event::Catalogue(CatalogueEvent::TemplateDeleted { name }) => format!("template removed {name}"),
        Event::Replication(ReplicationEvent::TemplateReplicated { template }) => {
            format!("template received {template}")
        }
        Event::Replication(ReplicationEvent::TemplateDropped { name }) => {
            format!("template forgotten {name}")
        }
        Event::Catalogue(CatalogueEvent::UsersAssigned { group, users, .. }) => {
            format!("{} users assigned to {group}", users.len())
        }
        Event::Replication(ReplicationEvent::UsersReplicated { users }) => {
            format!("{} users received", users.len())
        }
        Event::Catalogue(CatalogueEvent::UserMoveRequested { user, from, .. }) => {
            format!("shard {from} asked to release user {user}")
        }
        Event::Catalogue(CatalogueEvent::UserMoved { user, to, .. }) => {
            format!("user {user} moved to {}", to.as_ref().map_or("no group", |to| to.as_str()))
        }
        Event::Catalogue(CatalogueEvent::UserMoveRejected { user, reason, .. }) => {
            format!("user {user} not moved: {reason}")
        }
        Event::Transfer(TransferEvent::UserDetached { user, tasks, .. }) => {
            format!("user {user} released, {} tasks", tasks.len())
        }
        Event::Transfer(TransferEvent::UserDetachRejected { user, reason }) => {
            format!("user {user} kept: {reason}")
        }
        Event::Transfer(TransferEvent::UserAttached { user, tasks, .. }) => {
            format!("user {user} received, {} tasks", tasks.len())
        }
        Event::Task(TaskEvent::Created { task, spec }) => {
            format!("p{} for {} created", n(task.0), spec.executor)
        }
        Event::Task(TaskEvent::Changed { task, version, .. }) => {
            format!("p{} changed to version {version}", n(task.0))
        }
        Event::Task(TaskEvent::Deleted { task }) => format!("p{} deleted", n(task.0)),
        Event::Task(TaskEvent::Granted { grant, task, start, user, .. }) => {
            format!("g{} of p{} for {} to {user}", n(grant.0), n(task.0), time(start))
        }
        Event::Task(TaskEvent::Completed { grant, user, result, .. }) => {
            format!("g{} of {user} completed: {result}", n(grant.0))
        }
        Event::Task(TaskEvent::GrantReturned { grant, user, .. }) => {
            format!("g{} of {user} returned", n(grant.0))
        }
        Event::Task(TaskEvent::GrantExpired { grant, user, .. }) => {
            format!("g{} of {user} expired", n(grant.0))
        }
        Event::Task(TaskEvent::Purged { before, tasks }) => {
            format!("{} tasks purged before {before}", tasks.len())
        }
        Event::Catalogue(CatalogueEvent::PoolDefined { pool }) => format!("pool defined {pool}"),
        Event::Catalogue(CatalogueEvent::PoolDeleted { name }) => format!("pool removed {name}"),
        Event::Replication(ReplicationEvent::PoolReplicated { pool }) => format!("pool received {pool}"),
        Event::Replication(ReplicationEvent::PoolDropped { name }) => format!("pool forgotten {name}"),
        Event::Permit(PermitEvent::RateLimitReset { name }) => format!("rate of {name} opened"),
        Event::Permit(PermitEvent::Reported { report } | PermitEvent::ReportReceived { report, .. }) => {
            let PermitReport { started, ended, unused, wanted, .. } = report;
            format!("permits: {started} started, {ended} ended, {unused} unused, {wanted} wanted")
        }
        Event::Permit(PermitEvent::Granted { to, permits, .. }) => {
            format!("{permits} permits granted to shard {to}")
        }
        Event::Permit(PermitEvent::Received { permits, .. }) => format!("{permits} permits received"),
        Event::Catalogue(CatalogueEvent::CalendarDeleted { name }) => format!("calendar removed {name}"),
        Event::Replication(ReplicationEvent::CalendarReplicated { calendar }) => {
            format!("calendar received {calendar}")
        }
        Event::Replication(ReplicationEvent::CalendarDropped { name }) => {
            format!("calendar forgotten {name}")
        }
        Event::Schedule(ScheduleEvent::Rescheduled { job, next }) => {
            let next = next.map_or("never".to_owned(), |next| time(&next.at));
            format!("fire moved {}, next {next}", name(job))
        }
        Event::Schedule(ScheduleEvent::GenerationFailed { job, failures, retry_at, .. }) => {
            let retry = retry_at.map_or("no retry".to_owned(), |at| format!("retry {}", time(&at)));
            format!("failed {} {failures}: {retry}", name(job))
        }
        Event::Partition(PartitionEvent::HistoryEvicted { job, upto }) => {
            format!("evicted {} {}", name(job), time(upto))
        }
        Event::Worker(WorkerEvent::Registered { worker, incarnation, .. }) => {
            format!("{worker} registered {incarnation}")
        }
        Event::Worker(WorkerEvent::Measured { worker, measure, overloaded }) => {
            let sick = if *overloaded { ", overloaded" } else { "" };
            format!("{worker} load {} %, {} MiB free{sick}", measure.load_percent, measure.memory_free_mb)
        }
        Event::Worker(WorkerEvent::Lost { worker, .. }) => format!("{worker} lost"),
        Event::Worker(WorkerEvent::Recovered { worker, .. }) => format!("{worker} found"),
        Event::Worker(WorkerEvent::LeaseExpired { worker, .. }) => format!("{worker} lease expired"),
        Event::Worker(WorkerEvent::LeaseHalfOver { worker, .. }) => format!("{worker} lease half over"),
        Event::Attempt(AttemptEvent::EndVouched { batch, token, by, .. }) => {
            format!("b{} t{} vouched for by {}", n(batch.0), n(token.0), by.app)
        }
        Event::Worker(WorkerEvent::EndVouched { worker, by, .. }) => {
            format!("{worker} vouched for by {}", by.app)
        }
        Event::Partition(PartitionEvent::Restored { ids_above, .. }) => {
            format!("restored, ids above {ids_above}")
        }
        Event::Worker(WorkerEvent::HostDrained { host, by, reason }) => {
            format!("{host} drained by {}: {reason}", by.app)
        }
        Event::Worker(WorkerEvent::HostEmptied { host }) => format!("{host} is empty"),
        Event::Worker(WorkerEvent::HostResumed { host, .. }) => format!("{host} resumed"),
        Event::Worker(WorkerEvent::Leaving { worker, keeps_jobs, .. }) => {
            format!("{worker} leaving{}", if *keeps_jobs { ", its jobs stay" } else { "" })
        }
        Event::Worker(WorkerEvent::Left { worker, .. }) => format!("{worker} left"),
        Event::Worker(WorkerEvent::Drained { worker }) => format!("{worker} drained"),
        Event::Worker(WorkerEvent::Resumed { worker }) => format!("{worker} resumed"),
        Event::Worker(WorkerEvent::Unready { worker, reason, .. }) => format!("{worker} unready: {reason}"),
        Event::Worker(WorkerEvent::Ready { worker, .. }) => format!("{worker} fit"),
        Event::Partition(PartitionEvent::CommandDeadLettered { reason, .. }) => {
            format!("dead_lettered: {reason}")
        }
        Event::Partition(PartitionEvent::TimerSuspended { entity, reason }) => {
            format!("suspended {entity}: {reason}")
        }
        Event::Partition(PartitionEvent::CommandLossAccepted { reason, .. }) => {
            format!("loss accepted: {reason}")
        }
        // What has no words of its own.
        other => format!("{} {}", other.kind(), other.subject()),
    })
}

/// What a refused sender reads.
pub(crate) fn rejection(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Refused(rejection) => format!("{}: {rejection}", rejection.code()),
        Outcome::Done | Outcome::Answered(_) | Outcome::Repeated | Outcome::Deferred => {
            format!("accepted: {outcome:?}")
        }
    }
}
