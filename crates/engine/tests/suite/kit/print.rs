//! Events and rejections, short enough to be read in a table of expectations.

use std::collections::BTreeMap;

use tidemill_model::{Event, JobId, Outcome, PermitReport, SkippedTimes, Timestamp};

fn time(time: &Timestamp) -> String {
    let text = time.to_string();
    text.replace(".000Z", "Z").trim_end_matches(":00Z").replace('T', " ")
}

/// One event in short; nothing for messages between shards.
pub(crate) fn brief(event: &Event, names: &BTreeMap<JobId, String>) -> Option<String> {
    let name = |job: &JobId| names.get(job).cloned().unwrap_or_else(|| job.to_string());
    let n = |id: i64| id >> 12;
    Some(match event {
        Event::MessageReceived { .. } | Event::OutboxAcknowledged { .. } => return None,
        Event::GroupDefined { name, .. } => format!("group defined {name}"),
        Event::GroupReplicated { name, .. } => format!("group received {name}"),
        Event::KeyDefined { app, .. } => format!("key defined {app}"),
        Event::KeyRevoked { app } => format!("key revoked {app}"),
        Event::JobDefined { definition, enabled, .. } => {
            let off = if *enabled { "" } else { ", disabled" };
            format!("job defined {} v{}{off}", definition.name, definition.version)
        }
        Event::JobEnabled { job } => format!("job enabled {}", name(job)),
        Event::JobDisabled { job } => format!("job disabled {}", name(job)),
        Event::JobDeleted { job } => format!("job deleted {}", name(job)),
        Event::JobParentDeleted { parent, children, .. } => {
            let children = children.iter().map(|of| format!("{} of shard {}", of.jobs, of.shard));
            format!("{} is deleted as parent of {}", name(parent), children.collect::<Vec<_>>().join(", "))
        }
        Event::ParentDeletionReplicated { parent, jobs, .. } => {
            let jobs: Vec<String> = jobs.iter().map(name).collect();
            format!("{} deleted as parent of {}", name(parent), jobs.join(", "))
        }
        Event::JobReplicated { definition, next, .. } => {
            let next = next.map_or("never".to_owned(), |next| time(&next.at));
            format!("job received {} v{}, next {next}", definition.name, definition.version)
        }
        Event::JobSwitchReplicated { job, enabled, next } => {
            let next = next.map_or("never".to_owned(), |next| time(&next.at));
            format!("job switched {} {enabled}, next {next}", name(job))
        }
        Event::JobDropped { job, .. } => format!("job removed {}", name(job)),
        Event::JobMoveRequested { job, from, .. } => format!("shard {from} asked to release {}", name(job)),
        Event::JobMoved { definition, .. } => {
            format!("job moved {} v{}", definition.full_name(), definition.version)
        }
        Event::JobMoveRejected { reason, .. } => format!("not moved: {reason}"),
        Event::JobDetached { job, moved } => {
            let times: u32 = moved.runs.iter().map(|of| of.times).sum();
            format!("job released {} with {times} times", name(job))
        }
        Event::JobDetachRejected { job, reason } => format!("job kept {}: {reason}", name(job)),
        Event::JobAttached { definition, next, .. } => {
            let next = next.map_or("never".to_owned(), |next| time(&next.at));
            format!("job taken {} v{}, next {next}", definition.full_name(), definition.version)
        }
        Event::UnfinishedQueried { question, jobs, .. } => {
            let names: Vec<String> = jobs.iter().map(name).collect();
            format!("asked {question}: unfinished of {}", names.join(", "))
        }
        Event::UnfinishedReported { question, jobs } => {
            let told: Vec<String> = jobs.iter().map(|j| format!("{} {}", name(&j.job), j.batches)).collect();
            format!("told {question}: {}", told.join(", "))
        }
        Event::UnfinishedReceived { .. } => return None,
        Event::DeletionDecided { question, outcome, .. } => {
            let refused = matches!(outcome, Outcome::Refused(_));
            format!("decided {question}: {}", if refused { "refused" } else { "done" })
        }
        Event::JobsStaged { part, jobs, .. } => format!("staged part {part}, {} jobs", jobs.len()),
        Event::StagingDiscarded { .. } => "staging dropped".to_owned(),
        Event::ApplyCommitted { delete, .. } => format!("apply committed, deletes {}", delete.len()),
        Event::ApplyAdvanced { done, .. } => format!("apply advanced to {done}"),
        Event::ApplyFinished { .. } => "apply finished".to_owned(),
        Event::RunsQueried { .. } | Event::RunsReceived { .. } | Event::RunsReported { .. } => return None,
        Event::RerunRequested { jobs, .. } => format!("rerun requested, {} jobs", jobs.len()),
        Event::JobsSkipped { jobs, times, .. } => {
            let from = |skip: &SkippedTimes| {
                format!("{} from {} on: {:?}", name(&skip.job), time(&skip.from), skip.reason)
            };
            let jobs: Vec<String> =
                jobs.iter().map(|skip| name(&skip.job)).chain(times.iter().map(from)).collect();
            format!("skips jobs {}", jobs.join(", "))
        }
        Event::BatchesPlanned { first, batches, .. } => {
            let of = |batch: &tidemill_model::PlannedBatch| {
                let run = batch.run.map_or("first".to_owned(), |run| format!("run {run}"));
                let after =
                    if batch.after.is_empty() { String::new() } else { format!(" after {:?}", batch.after) };
                format!("{} {} {run}{after}", name(&batch.job), time(&batch.logical_time))
            };
            format!("planned from {first}: {}", batches.iter().map(of).collect::<Vec<_>>().join("; "))
        }
        Event::RerunPlanned { batches, .. } => format!("rerun planned, {batches} batches"),
        Event::RerunApproved { .. } => "rerun approved".to_owned(),
        Event::RunsRequested { runs, .. } => {
            let runs: Vec<String> = runs.iter().map(|run| run.number.to_string()).collect();
            format!("ordered {}", runs.join(", "))
        }
        Event::RunFinished { place, end } => {
            let how = match end {
                tidemill_model::RunOutcome::Finished { result, .. } => result.as_str().to_owned(),
                tidemill_model::RunOutcome::Skipped(reason) => format!("skipped, {reason:?}"),
            };
            format!("ended {}: {how}", place.number)
        }
        Event::RunsBlocked { numbers, .. } => format!("blocked {numbers:?}"),
        Event::BulkRequested { action, items, .. } => format!("bulk {action} of {}", items.len()),
        Event::BulkAdvanced { outcomes, ended, .. } => {
            let end = if *ended { ", ended" } else { "" };
            format!("bulk advanced by {}{end}", outcomes.len())
        }
        Event::RerunPaused { .. } => "rerun paused".to_owned(),
        Event::RerunResumed { .. } => "rerun resumed".to_owned(),
        Event::RerunCancelled { kill, .. } => {
            format!("rerun cancelled{}", if *kill { ", kills" } else { "" })
        }
        Event::RerunFinished { result, message, .. } => {
            format!("rerun ended {}{}{message}", result.as_str(), if message.is_empty() { "" } else { ": " })
        }
        Event::RunSkipped { place, .. } => format!("run {} skipped", place.number),
        Event::JobCancelled { job, .. } => format!("job cancelled {}", name(job)),
        Event::CancellationReplicated { job, .. } => format!("cancels {}", name(job)),
        Event::ParentsReplicated { parents } => {
            let names: Vec<&str> = parents.iter().map(|parent| parent.name.as_str()).collect();
            format!("parents received {}", names.join(", "))
        }
        Event::ParentSubscribed { job, by, what } => format!("{} followed by {by}: {what:?}", name(job)),
        Event::ParentTimesSubscribed { job, by, times } => {
            format!(
                "{} watched by {by}: {}",
                name(job),
                times.iter().map(time).collect::<Vec<_>>().join(", ")
            )
        }
        Event::ParentTimesUnsubscribed { job, by, times } => {
            format!(
                "{} unwatched by {by}: {}",
                name(job),
                times.iter().map(time).collect::<Vec<_>>().join(", ")
            )
        }
        Event::ParentStatusUpdated { parent, standings } => {
            let heard = |it: &tidemill_model::Standing| {
                let stands = it.result.map_or(if it.succeeded { "succeeded" } else { "-" }, |r| r.as_str());
                let run = it.run.map_or("none".to_owned(), |run| format!("run {run}"));
                let values = if it.values.is_empty() { String::new() } else { format!(" {:?}", it.values) };
                format!("{} {run} {stands}{values}", time(&it.logical_time))
            };
            format!("heard {}: {}", name(parent), standings.iter().map(heard).collect::<Vec<_>>().join(", "))
        }
        Event::ParentGenerationsReceived { parent, times, left_out } => {
            let times = times.iter().map(time).collect::<Vec<_>>().join(", ");
            format!("heard {} generated: {times}, left out {left_out}", name(parent))
        }
        Event::ParentTimesReceived { parent, times } => {
            format!("heard {} has {} times", name(parent), times.len())
        }
        Event::JobSubmitted { definition } => format!("job submitted {}", definition.name),
        Event::BatchGenerated { batch, job, logical_time, run, dependencies, counted_parents, .. } => {
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
        Event::ScheduleSkipped { job, from, to, count, reason, .. } => {
            format!("skipped {} {} to {}, {count}: {reason:?}", name(job), time(from), time(to))
        }
        Event::DependencySatisfied { batch, parent, logical_time, unmet, left_out } => {
            let how = if *left_out { "leaves out" } else { "satisfied" };
            format!("b{} {how} {} {}, unmet {unmet}", n(batch.0), name(parent), time(logical_time))
        }
        Event::DependencyRevoked { batch, parent, logical_time, unmet } => {
            format!("b{} withdrawn {} {}, unmet {unmet}", n(batch.0), name(parent), time(logical_time))
        }
        Event::BatchAssigned { batch, attempt, token, worker, .. } => {
            format!("b{} assigned t{} attempt {attempt} to {worker}", n(batch.0), n(token.0))
        }
        Event::AssignmentReturned { batch, token, reason, .. } => {
            format!("b{} returned t{}: {reason:?}", n(batch.0), n(token.0))
        }
        Event::StartGranted { batch, token, .. } => format!("b{} granted t{}", n(batch.0), n(token.0)),
        Event::UserCodeReported { batch, code, .. } => format!("b{} reports code {code}", n(batch.0)),
        Event::FinalCommandAssigned { batch, token, worker, .. } => {
            format!("b{} final command t{} to {worker}", n(batch.0), n(token.0))
        }
        Event::FinalCommandGranted { batch, token, .. } => {
            format!("b{} final command granted t{}", n(batch.0), n(token.0))
        }
        Event::FinalCommandFinished { batch, result, message, .. } => {
            format!("b{} final command {}: {message}", n(batch.0), result.as_str())
        }
        Event::FinalCommandNotRun { batch, message, .. } => {
            format!("b{} final command not_run: {message}", n(batch.0))
        }
        Event::AttemptStarted { batch, token } => format!("b{} started t{}", n(batch.0), n(token.0)),
        Event::AttemptFinished { batch, attempt, outcome, .. } => {
            format!("b{} attempt {attempt} {:?}", n(batch.0), outcome.result)
        }
        Event::RetryScheduled { batch, attempt, at } => {
            format!("b{} retry {attempt} at {}", n(batch.0), time(at))
        }
        Event::FreezeSet { group, freeze } => {
            let what = group.as_ref().map_or("everything".to_owned(), ToString::to_string);
            format!("{what} frozen after {}", time(&freeze.latest))
        }
        Event::FreezeLifted { group, .. } => {
            format!("{} lifted", group.as_ref().map_or("everything".to_owned(), ToString::to_string))
        }
        Event::FreezeReplicated { scope, freeze } => {
            format!("{scope:?} is frozen: {}", freeze.is_some())
        }
        Event::StartDue { batch } => format!("b{} start due", n(batch.0)),
        Event::RetryDue { batch } => format!("b{} retry due", n(batch.0)),
        Event::KillRequested { batch, token, .. } => format!("b{} kill t{}", n(batch.0), n(token.0)),
        Event::BatchFinished { batch, result, by, .. } => {
            let by =
                by.as_ref().and_then(|by| by.user.as_ref()).map_or(String::new(), |by| format!(" by {by}"));
            format!("b{} finished {}{by}", n(batch.0), result.as_str())
        }
        Event::BatchResultOverridden { batch, result, by, reason, .. } => {
            format!("b{} marked {result:?} by {}: {reason}", n(batch.0), by.user.as_deref().unwrap_or("?"))
        }
        Event::BatchBlocked { batch, parent, logical_time, since } => {
            let (time, since) = (time(logical_time), time(since));
            format!("b{} blocked by {} {time}, since {since}", n(batch.0), name(parent))
        }
        Event::BatchUnblocked { batch } => format!("b{} unblocked", n(batch.0)),
        Event::TimeoutReached { batch, kind, deadline } => {
            format!("b{} marked {kind:?}, due {}", n(batch.0), time(deadline))
        }
        Event::AlarmRaised { kind, severity, .. } => format!("alarm {kind:?}, {severity:?}"),
        Event::ExternalDependencyRegistered { external_dependency, what } => {
            format!("h{} waited: {what}", n(external_dependency.0))
        }
        Event::ExternalDependencySatisfied { external_dependency, generation } => {
            format!("h{} satisfied, generation {generation}", n(external_dependency.0))
        }
        Event::ExternalDependencyRevoked { external_dependency, generation, worker } => {
            let by = worker.as_ref().map_or(String::new(), |worker| format!(" by {worker}"));
            format!("h{} withdrawn{by}, generation {generation}", n(external_dependency.0))
        }
        Event::ExternalDependenciesEvicted { external_dependencies } => {
            let external_dependencies: Vec<String> = external_dependencies
                .iter()
                .map(|external_dependency| format!("h{}", n(external_dependency.0)))
                .collect();
            format!("forgotten {}", external_dependencies.join(", "))
        }
        Event::DependencyOverridden {
            batch,
            external_dependencies,
            parents,
            counted_parents,
            quality,
            unmet,
            reason,
            ..
        } => {
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
        Event::ProbesRequested { batch: Some(batch), .. } => format!("b{} checks requested", n(batch.0)),
        Event::ProbesRequested { batch: None, .. } => "checks requested".to_owned(),
        Event::QualityRequested { batch, number, again_at } => {
            format!("b{} quality question {number}, again at {}", n(batch.0), time(again_at))
        }
        Event::QualitySent { batch, number, by } => {
            format!("b{} quality question {number} taken by {by}", n(batch.0))
        }
        Event::QualityAnswered { batch, allowed, reason, .. } => {
            format!("b{} quality {}: {reason}", n(batch.0), if *allowed { "allowed" } else { "refused" })
        }
        Event::ThirdPartyReported { report, .. } => {
            let ready = if report.ready { "ready" } else { "not ready" };
            format!("reported {} {} {ready}", report.code, time(&report.logical_time))
        }
        Event::ThirdPartyEvicted { count, .. } => format!("reports forgotten {count}"),
        Event::ProbesLate { report } => format!("checks of {} late {} ms", report.authority, report.late_ms),
        Event::ProbesRecovered { authority, .. } => format!("checks of {authority} recovered"),
        Event::CalendarDefined { calendar } => format!("calendar defined {calendar}"),
        Event::TemplateDefined { template } => format!("template defined {template}"),
        Event::TemplateDeleted { name } => format!("template removed {name}"),
        Event::TemplateReplicated { template } => format!("template received {template}"),
        Event::TemplateDropped { name } => format!("template forgotten {name}"),
        Event::UsersAssigned { group, users, .. } => format!("{} users assigned to {group}", users.len()),
        Event::UsersReplicated { users } => format!("{} users received", users.len()),
        Event::UserMoveRequested { user, from, .. } => format!("shard {from} asked to release user {user}"),
        Event::UserMoved { user, to, .. } => {
            format!("user {user} moved to {}", to.as_ref().map_or("no group", |to| to.as_str()))
        }
        Event::UserMoveRejected { user, reason, .. } => format!("user {user} not moved: {reason}"),
        Event::UserDetached { user, tasks, .. } => format!("user {user} released, {} tasks", tasks.len()),
        Event::UserDetachRejected { user, reason } => format!("user {user} kept: {reason}"),
        Event::UserAttached { user, tasks, .. } => format!("user {user} received, {} tasks", tasks.len()),
        Event::TaskCreated { task, spec } => format!("p{} for {} created", n(task.0), spec.executor),
        Event::TaskChanged { task, version, .. } => format!("p{} changed to version {version}", n(task.0)),
        Event::TaskDeleted { task } => format!("p{} deleted", n(task.0)),
        Event::TaskGranted { grant, task, start, user, .. } => {
            format!("g{} of p{} for {} to {user}", n(grant.0), n(task.0), time(start))
        }
        Event::TaskCompleted { grant, user, result, .. } => {
            format!("g{} of {user} completed: {result}", n(grant.0))
        }
        Event::GrantReturned { grant, user, .. } => format!("g{} of {user} returned", n(grant.0)),
        Event::GrantExpired { grant, user, .. } => format!("g{} of {user} expired", n(grant.0)),
        Event::TasksPurged { before, tasks } => format!("{} tasks purged before {before}", tasks.len()),
        Event::PoolDefined { pool } => format!("pool defined {pool}"),
        Event::PoolDeleted { name } => format!("pool removed {name}"),
        Event::PoolReplicated { pool } => format!("pool received {pool}"),
        Event::PoolDropped { name } => format!("pool forgotten {name}"),
        Event::RateLimitReset { name } => format!("rate of {name} opened"),
        Event::PermitsReported { report } | Event::PermitReportReceived { report, .. } => {
            let PermitReport { started, ended, unused, wanted, .. } = report;
            format!("permits: {started} started, {ended} ended, {unused} unused, {wanted} wanted")
        }
        Event::PermitsGranted { to, permits, .. } => format!("{permits} permits granted to shard {to}"),
        Event::PermitsReceived { permits, .. } => format!("{permits} permits received"),
        Event::CalendarDeleted { name } => format!("calendar removed {name}"),
        Event::CalendarReplicated { calendar } => format!("calendar received {calendar}"),
        Event::CalendarDropped { name } => format!("calendar forgotten {name}"),
        Event::ScheduleRescheduled { job, next } => {
            let next = next.map_or("never".to_owned(), |next| time(&next.at));
            format!("fire moved {}, next {next}", name(job))
        }
        Event::GenerationFailed { job, failures, retry_at, .. } => {
            let retry = retry_at.map_or("no retry".to_owned(), |at| format!("retry {}", time(&at)));
            format!("failed {} {failures}: {retry}", name(job))
        }
        Event::HistoryEvicted { job, upto } => format!("evicted {} {}", name(job), time(upto)),
        Event::WorkerRegistered { worker, incarnation, .. } => format!("{worker} registered {incarnation}"),
        Event::WorkerMeasured { worker, measure, overloaded } => {
            let sick = if *overloaded { ", overloaded" } else { "" };
            format!("{worker} load {} %, {} MiB free{sick}", measure.load_percent, measure.memory_free_mb)
        }
        Event::WorkerLost { worker, .. } => format!("{worker} lost"),
        Event::WorkerRecovered { worker, .. } => format!("{worker} found"),
        Event::LeaseExpired { worker, .. } => format!("{worker} lease expired"),
        Event::WorkerDrained { worker } => format!("{worker} drained"),
        Event::WorkerResumed { worker } => format!("{worker} resumed"),
        Event::WorkerUnready { worker, reason, .. } => format!("{worker} unready: {reason}"),
        Event::WorkerReady { worker, .. } => format!("{worker} fit"),
        Event::CommandDeadLettered { reason, .. } => format!("dead_lettered: {reason}"),
        Event::TimerSuspended { entity, reason } => format!("suspended {entity}: {reason}"),
        Event::CommandLossAccepted { reason, .. } => format!("loss accepted: {reason}"),
        Event::ClockSet { now } => format!("time set {}", time(now)),
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
