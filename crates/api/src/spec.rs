//! A definition as people write it, and what it will run.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use tidemill_calendar::{Days, Template, TemplateContext, TimeFormat, Timetable, Zone};
use tidemill_model::{
    BackoffInput, Calendar, JobDefinition, JobId, JobSpec, Mapping, MissedRunsInput, ParentSpec, Program,
    ScheduleInput, ScheduleRule, ScheduleSpec,
};

use crate::Problem;
use crate::view::{PreviewFire, PreviewView};

/// The job as it could have been written: applied again, it changes nothing. `name_of` gives a parent's group
/// and name.
pub(crate) fn spec_of(
    definition: JobDefinition,
    enabled: bool,
    name_of: impl Fn(JobId) -> Option<(String, String)>,
) -> JobSpec {
    let own = definition.id;
    let group = definition.group.as_str();
    let parent = |job: JobId, mapping: Mapping| {
        let name = match name_of(job) {
            Some((parent_group, name)) if parent_group == group => name,
            Some((parent_group, name)) => format!("{parent_group}/{name}"),
            // Its row is not there: the id tells people more than nothing does.
            None => job.to_string(),
        };
        match mapping {
            Mapping::Same => ParentSpec::Name(name),
            mapping => ParentSpec::Mapped { job: name, mapping },
        }
    };
    let others = definition.parents.iter().filter(|parent| parent.job != own);
    let parents = others.map(|link| parent(link.job, link.mapping)).collect();
    let depends_on_past = definition.parents.iter().any(|parent| parent.job == own);
    let (command, program, class, arguments) = match definition.program {
        Program::Command(text) => (Some(text), None, None, Vec::new()),
        Program::Path { path, class, arguments } => (None, Some(path), class, arguments),
        Program::None => (None, None, None, Vec::new()),
    };
    let timeouts = definition.timeouts.unwrap_or_default();
    let data = definition.data.map(|data| *data).unwrap_or_default();
    let firing = definition.firing.unwrap_or_default();
    let execution = definition.execution.unwrap_or_default();
    let seconds = |ms: u64| u32::try_from(ms / 1_000).unwrap_or(u32::MAX);
    JobSpec {
        name: definition.name,
        group: definition.group,
        owner: definition.owner,
        app_name: definition.app_name,
        job_type: definition.job_type,
        command,
        program,
        class,
        arguments,
        parameters: definition.parameters,
        business_type: definition.business_type,
        comment: definition.comment,
        priority: definition.priority,
        schedule: definition.schedule.map(schedule_input),
        parents,
        depends_on_past,
        on_parent_failure: definition.on_parent_failure,
        run_if: definition.run_if,
        max_concurrent: definition.max_concurrent,
        retries: definition.retries,
        retry_interval_s: seconds(definition.retry_interval_ms),
        retry_backoff: definition.retry_backoff.as_ref().map(BackoffInput::from),
        exit_codes: definition.exit_codes,
        earliest_start_minutes: definition.earliest_start_ms.map(|ms| seconds(ms) / 60),
        host: definition.host,
        worker_group: execution.worker_group,
        run_as: execution.run_as,
        logical_time_format: execution.logical_time_format,
        success_check: execution.success_check,
        final_command: execution.final_command,
        expected_duration_s: execution.expected_ms.map(seconds),
        missed_runs: MissedRunsInput::new(definition.missed_runs, firing.max_lateness_ms.map(seconds)),
        overlap: firing.overlap,
        valid_from: firing.valid_from,
        valid_until: firing.valid_until,
        calendar: firing.calendar,
        memory_mb: definition.memory_mb,
        pools: definition.pools.into_iter().map(tidemill_model::PoolUseInput::from).collect(),
        dependency_timeout_s: timeouts.dependency_ms.map(seconds),
        output_timeout_s: timeouts.output_ms.map(seconds),
        not_successful_by: timeouts.successful_by,
        execution_timeout_s: timeouts.execution_ms.map(seconds),
        cancel_on_timeout: timeouts.cancel,
        inputs: data.inputs.into_iter().map(Into::into).collect(),
        outputs: data.outputs.into_iter().map(Into::into).collect(),
        third_party: data.third_party.iter().map(ToString::to_string).collect(),
        quality_gate: data.quality_gate,
        enabled,
    }
}

fn schedule_input(schedule: ScheduleSpec) -> ScheduleInput {
    let zone = Some(schedule.zone);
    match schedule.rule {
        ScheduleRule::Period(period) => ScheduleInput { period: Some(period), cron: None, zone },
        ScheduleRule::Cron(cron) => ScheduleInput { period: None, cron: Some(cron), zone },
    }
}

/// The next `n` fires after `after`, with templates resolved (JOB-7), as they will fire (BYD-1). Placeholders that
/// only a batch has are shown for batch 0, run 0, attempt 1. `calendar` is the one that the job keeps to.
pub(crate) fn preview(
    definition: &JobDefinition,
    calendar: Option<&Calendar>,
    after: Timestamp,
    n: usize,
) -> Result<PreviewView, Problem> {
    let bad = |what: &str, error: String| {
        Problem::field(what, format!("{}/{}", definition.group, definition.name), error)
    };
    let days = calendar.map(Days::try_from).transpose();
    let days = days.map_err(|error| bad("calendar", error.to_string()))?.map(Arc::new);
    let timetable =
        Timetable::of(definition, |_| days).map_err(|error| bad("schedule", error.to_string()))?;
    let Some(timetable) = timetable else {
        return Ok(PreviewView { zone: "UTC".to_owned(), calendar: None, fires: Vec::new() });
    };
    let format = definition.execution.as_ref().and_then(|execution| execution.logical_time_format.as_deref());
    let format = format.map(TimeFormat::parse).transpose();
    let format = format.map_err(|error| bad("logical_time_format", error))?;
    let zone = timetable.zone();
    let local =
        |at: Timestamp| at.to_zoned(zone.time_zone().clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    let fires = timetable.preview(after, n).into_iter().map(|fire| {
        let render = Render { definition, zone, logical_time: fire.logical_time, format: format.as_ref() };
        let parameters = render.parameters()?;
        let program = render.program(&parameters)?;
        let command = match &program {
            Program::Command(text) => Some(text.clone()),
            Program::Path { .. } | Program::None => None,
        };
        Ok(PreviewFire {
            at: local(fire.at),
            logical_time: local(fire.logical_time),
            command,
            program,
            parameters,
        })
    });
    let fires = fires.collect::<Result<_, String>>().map_err(|error| bad("template", error))?;
    let calendar = calendar.map(ToString::to_string);
    Ok(PreviewView { zone: zone.name().to_owned(), calendar, fires })
}

struct Render<'a> {
    definition: &'a JobDefinition,
    zone: &'a Zone,
    logical_time: Timestamp,
    format: Option<&'a TimeFormat>,
}

impl Render<'_> {
    /// Parameters may hold templates of their own, though not of each other.
    fn parameters(&self) -> Result<BTreeMap<String, String>, String> {
        let none = BTreeMap::new();
        let parameters = self.definition.parameters.iter();
        parameters.map(|(name, value)| Ok((name.clone(), self.text(value, &none)?))).collect()
    }

    fn program(&self, parameters: &BTreeMap<String, String>) -> Result<Program, String> {
        let render = |text: &String| self.text(text, parameters);
        Ok(match &self.definition.program {
            Program::None => Program::None,
            Program::Command(text) => Program::Command(render(text)?),
            Program::Path { path, class, arguments } => Program::Path {
                path: render(path)?,
                class: class.as_ref().map(render).transpose()?,
                arguments: arguments.iter().map(render).collect::<Result<_, _>>()?,
            },
        })
    }

    fn text(&self, text: &str, params: &BTreeMap<String, String>) -> Result<String, String> {
        let template = Template::parse(text).map_err(|error| error.to_string())?;
        let context = TemplateContext {
            logical_time: self.logical_time,
            zone: self.zone,
            time_format: self.format,
            batch_id: 0,
            run: 0,
            attempt: 1,
            job: self.definition.name.as_str(),
            job_id: self.definition.id.0,
            group: self.definition.group.as_str(),
            params,
            values: None,
        };
        template.render(&context).map_err(|error| error.to_string())
    }
}
