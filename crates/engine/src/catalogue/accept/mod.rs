//! From a job as written to a job as accepted: the checks that need no other job.

mod fields;
mod program;

use self::fields::check_bounds;
pub(crate) use self::fields::check_parameters;
use self::program::texts;
pub(crate) use self::program::{check_program, check_values};
pub(in crate::catalogue) use self::program::{full_parent_name, value_read};
use tidemill_calendar::{Template, TimeFormat};
use tidemill_model::{
    FieldError, JobDefinition, JobSpec, MissedRuns, OnParentFailure, Overlap, RunIf, Shift, SuccessCheck,
    bounds,
};

use crate::catalogue::check_count;
use crate::catalogue::data::{check_external_dependencies, check_path_of_attempt};
use crate::catalogue::limits::check_each;
use crate::schedule::grid_from_spec;

/// Everything about a job as written that needs no other object.
pub(in crate::catalogue) fn check(spec: &JobSpec) -> Result<(), FieldError> {
    check_bounds(spec)?;
    check_schedule(spec)?;
    check_firing(spec)?;
    check_to_run(spec)?;
    check_backoff(spec)?;
    check_exit_codes(spec)?;
    check_timeouts(spec)?;
    check_external_dependencies(spec)?;
    check_memory(spec)?;
    check_limits_of(spec)?;
    check_execution(spec)
}

fn check_to_run(spec: &JobSpec) -> Result<(), FieldError> {
    match (&spec.command, &spec.program, &spec.class) {
        (Some(_), Some(path), _) => {
            Err(FieldError::new("program", path, "give either command or program, not both"))
        }
        (Some(_), None, Some(class)) => {
            let rule = "is the main class of a program, and a command has none; leave it out, or name \
                        the file with program in place of command";
            Err(FieldError::new("class", class, rule))
        }
        (Some(_), None, None) | (None, Some(_), _) => Ok(()),
        (None, None, _) if runs_nothing(spec) => check_runs_nothing(spec),
        (None, None, _) => {
            let rule = format!("is missing; a job of type {} needs a command or a program", spec.job_type);
            Err(FieldError::new("command", "", rule))
        }
    }
}

/// Whether it is of a type that runs no program.
fn runs_nothing(spec: &JobSpec) -> bool {
    matches!(spec.job_type.as_str(), "noop" | "anchor")
}

/// Types that run nothing have nothing to give a class or arguments to.
fn check_runs_nothing(spec: &JobSpec) -> Result<(), FieldError> {
    let rule =
        || format!("has no effect on a job of type {}, which runs no program; leave it out", spec.job_type);
    if let Some(class) = &spec.class {
        return Err(FieldError::new("class", class, rule()));
    }
    match spec.arguments.as_slice() {
        [] => Ok(()),
        arguments => Err(FieldError::new("arguments", arguments.join(" "), rule())),
    }
}

fn check_schedule(spec: &JobSpec) -> Result<(), FieldError> {
    let Some(written) = &spec.schedule else { return Ok(()) };
    match (&written.period, &written.cron) {
        (Some(_), Some(cron)) => {
            return Err(FieldError::new("schedule.cron", cron, "give either period or cron, not both"));
        }
        (None, None) => return Err(FieldError::new("schedule", "", "needs period or cron")),
        (None, Some(cron)) if cron.len() > bounds::CRON_BYTES => {
            let rule = format!("must be at most {} bytes", bounds::CRON_BYTES);
            return Err(FieldError::new("schedule.cron", cron, rule));
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
    spec.schedule_spec().map_or(Ok(()), |schedule| grid_from_spec(&schedule).map(drop))
}

/// TMO-1, TMO-2: by when its batches should have got somewhere.
fn check_timeouts(spec: &JobSpec) -> Result<(), FieldError> {
    let has_time = spec.dependency_timeout_s.is_some()
        || spec.output_timeout_s.is_some()
        || spec.not_successful_by.is_some();
    if spec.cancel_on_timeout && !has_time {
        let rule = "needs dependency_timeout_s, output_timeout_s or not_successful_by";
        return Err(FieldError::new("cancel_on_timeout", true, rule));
    }
    Ok(())
}

/// BYD-19: exit codes that mean more than *failed*.
fn check_exit_codes(spec: &JobSpec) -> Result<(), FieldError> {
    let Some(codes) = &spec.exit_codes else { return Ok(()) };
    for (field, given) in [("exit_codes.no_retry", &codes.no_retry), ("exit_codes.skip", &codes.skip)] {
        check_count(field, given.len(), bounds::EXIT_CODES, " codes")?;
        if given.contains(&0) {
            return Err(FieldError::new(field, 0, "must be 1 to 255; 0 is success"));
        }
    }
    if let Some(both) = codes.skip.iter().find(|code| codes.no_retry.contains(code)) {
        let rule = "stands in no_retry as well; it can only mean one";
        return Err(FieldError::new("exit_codes.skip", both, rule));
    }
    Ok(())
}

/// BYD-19: how the pause between attempts grows.
fn check_backoff(spec: &JobSpec) -> Result<(), FieldError> {
    let Some(given) = &spec.retry_backoff else { return Ok(()) };
    let least = spec.retry_interval_s.max(1);
    if !(least..=bounds::RETRY_INTERVAL_S).contains(&given.max_interval_s) {
        let rule = format!("must be retry_interval_s ({least}) to {}", bounds::RETRY_INTERVAL_S);
        return Err(FieldError::new("retry_backoff.max_interval_s", given.max_interval_s, rule));
    }
    Ok(())
}

/// BYD-1, BYD-2: how the schedule is followed. Whether its calendar is there is for the caller to say.
fn check_firing(spec: &JobSpec) -> Result<(), FieldError> {
    let max_lateness_s = spec.missed_runs.max_lateness_s();
    let Some(schedule) = spec.schedule_spec() else {
        let fields = [
            ("overlap", spec.overlap == Overlap::default()),
            ("valid_from", spec.valid_from.is_none()),
            ("valid_until", spec.valid_until.is_none()),
            ("missed_runs.max_lateness_s", max_lateness_s.is_none()),
            ("calendar", spec.calendar.is_none()),
        ];
        let Some((field, _)) = fields.into_iter().find(|(_, is_absent)| !is_absent) else { return Ok(()) };
        let rule =
            "says how the job's own schedule is followed, and it has none; leave it out, or give it one";
        return Err(FieldError::new(field, "", rule));
    };
    check_lateness(spec.missed_runs.policy(), max_lateness_s)?;
    check_overlap(spec)?;
    if let (Some(from), Some(until)) = (spec.valid_from, spec.valid_until)
        && until <= from
    {
        return Err(FieldError::new("valid_until", until, "must be after valid_from"));
    }
    let shifts = spec.calendar.as_ref().is_some_and(|used| used.shift != Shift::None);
    if shifts && grid_from_spec(&schedule)?.is_sub_daily() {
        let rule = "a schedule with several times a day cannot be shifted to another day; leave shift out";
        return Err(FieldError::new("calendar.shift", "", rule));
    }
    Ok(())
}

fn check_lateness(policy: MissedRuns, max_lateness_s: Option<u32>) -> Result<(), FieldError> {
    let Some(seconds) = max_lateness_s else { return Ok(()) };
    let field = "missed_runs.max_lateness_s";
    if policy == MissedRuns::None {
        let rule = "has no meaning with policy none, which makes up for nothing; leave it out";
        return Err(FieldError::new(field, seconds, rule));
    }
    if !(1..=bounds::LATENESS_S).contains(&seconds) {
        return Err(FieldError::new(field, seconds, format!("must be 1 to {}", bounds::LATENESS_S)));
    }
    Ok(())
}

fn check_overlap(spec: &JobSpec) -> Result<(), FieldError> {
    let rule = match spec.overlap {
        Overlap::Allow if spec.max_concurrent == 1 => {
            "needs max_concurrent above 1, which says how many may run at once; with 1 they would wait"
        }
        Overlap::CancelOld if spec.max_concurrent != 1 => {
            "needs max_concurrent 1: with more, the new batch would not wait for the old one's end"
        }
        Overlap::CancelOld if spec.depends_on_past => {
            "does not go with depends_on_past: the new batch would wait for the one that it ended"
        }
        Overlap::Queue | Overlap::Skip | Overlap::Allow | Overlap::CancelOld => return Ok(()),
    };
    Err(FieldError::new("overlap", text_of(serde_json::to_value(spec.overlap)), rule))
}

/// A value that is written as a text.
fn text_of(written: serde_json::Result<serde_json::Value>) -> String {
    written.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// DSP-4: the memory that each batch has for itself.
fn check_memory(spec: &JobSpec) -> Result<(), FieldError> {
    match spec.memory_mb.filter(|_| spec.job_type.is_anchor()) {
        Some(mb) => Err(FieldError::new("memory_mb", mb, "an anchor runs on no worker; leave it out")),
        None => Ok(()),
    }
}

/// EXE-2: what its attempts may use. Whether its group allows it is for the caller to say.
fn check_limits_of(spec: &JobSpec) -> Result<(), FieldError> {
    if let Some((kind, value)) = spec.limits.set().next()
        && runs_nothing(spec)
    {
        let rule =
            format!("has no effect on a job of type {}, which runs no process; leave it out", spec.job_type);
        return Err(FieldError::new(format!("limits.{}", kind.field()), value, rule));
    }
    if let Some(seconds) = spec.limits.run_time_s {
        let rule = "is named execution_timeout_s in a job; name it there";
        return Err(FieldError::new("limits.run_time_s", seconds, rule));
    }
    check_each("limits", &spec.limits)
}

/// JOB-1, JOB-8, DSP-2, EXE-4: how attempts are executed.
fn check_execution(spec: &JobSpec) -> Result<(), FieldError> {
    if let Some(format) = &spec.logical_time_format {
        TimeFormat::parse(format).map_err(|rule| FieldError::new("logical_time_format", format, rule))?;
    }
    let mut texts = spec.templates().filter(|(field, _)| matches!(*field, "success_check" | "final_command"));
    if let Some((field, _)) = texts.find(|(_, text)| text.trim().is_empty()) {
        return Err(FieldError::new(field, "", "must not be empty; leave it out for none"));
    }
    if let SuccessCheck::OutputPath(path) = &spec.success_check {
        let refused = |rule| FieldError::new("success_check.output_path", path, rule);
        check_path_of_attempt(path).map_err(refused)?;
    }
    check_on_a_worker(spec)
}

/// An anchor is completed without a worker, and a noop without a process.
fn check_on_a_worker(spec: &JobSpec) -> Result<(), FieldError> {
    let refused = |field: &str, value: &str, what: &str| {
        let rule =
            format!("has no effect on a job of type {}, which {what}, so it is refused", spec.job_type);
        Err(FieldError::new(field, value, rule))
    };
    if spec.job_type.is_anchor() {
        if let Some(label) = &spec.worker_label {
            return refused("worker_label", label.as_str(), "runs on no worker");
        }
        if let Some(text) = &spec.final_command {
            return refused("final_command", text, "runs on no worker");
        }
    }
    if !runs_nothing(spec) {
        return Ok(());
    }
    if let Some(account) = &spec.run_as {
        return refused("run_as", account.as_str(), "runs no process");
    }
    match &spec.success_check {
        SuccessCheck::ExitCode => Ok(()),
        SuccessCheck::OutputPath(path) => refused("success_check", path, "runs no process"),
        SuccessCheck::UserCode => refused("success_check", "user_code", "runs no process"),
    }
}

/// BYD-18: what it does when a parent failed needs one, and is said once.
pub(in crate::catalogue) fn check_failure_rule(definition: &JobDefinition) -> Result<(), FieldError> {
    let (rule, run_if) = (definition.spec.on_parent_failure, definition.spec.run_if);
    let has_parents = definition.parents.iter().any(|parent| parent.job != definition.id);
    let said = [
        ("on_parent_failure", rule != OnParentFailure::default(), serde_json::to_value(rule)),
        ("run_if", run_if != RunIf::default(), serde_json::to_value(run_if)),
    ];
    if let Some((field, _, value)) = said.into_iter().find(|(_, is_said, _)| *is_said && !has_parents) {
        let rule = "is for jobs with parents; name some, or leave it out";
        return Err(FieldError::new(field, text_of(value), rule));
    }
    if rule != OnParentFailure::default() && run_if != RunIf::default() {
        let rule = "says what a failed parent does already; leave on_parent_failure out";
        return Err(FieldError::new("run_if", "failure", rule));
    }
    Ok(())
}

/// JOB-3: whether some text of a sub-daily job cannot tell the two hours of an overlap apart.
pub(in crate::catalogue) fn is_ambiguous_in_overlap(definition: &JobDefinition) -> bool {
    let spec = &definition.spec;
    let format = spec.logical_time_format.as_deref();
    if format.and_then(|format| TimeFormat::parse(format).ok()).is_some_and(|it| it.is_ambiguous_in_overlap())
    {
        return true;
    }
    texts(definition)
        .map(|(_, text)| text)
        .chain(spec.paths().map(|(_, text)| text))
        .filter(|text| text.contains("${"))
        .filter_map(|text| Template::parse(text).ok())
        .any(|template| template.mentions_local_hour_without_offset())
}
