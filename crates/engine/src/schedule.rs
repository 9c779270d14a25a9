//! Between the model's words for time and the calendar's: schedules, mappings, templates.

use std::cell::Cell;
use std::collections::BTreeMap;

use tidemill_calendar as calendar;
use tidemill_calendar::{Schedule, Template, TemplateContext, TimeFormat, Timetable, Zone};
use tidemill_model::{
    BatchId, Ending, FieldError, JobDefinition, JobType, MAX_PATH_BYTES, Mapping, Program, RunSpec,
    ScheduleRule, ScheduleSpec, SuccessCheck, Timestamp, Token,
};

use crate::group::Batch;

/// Everything that is resolved for one attempt: what a worker is told of it stands in one message, where a byte may
/// take six.
const MAX_RESOLVED_BYTES: usize = 512 * 1024;

/// Parses a schedule.
///
/// # Errors
/// The field that cannot be read: `schedule.cron` or `schedule.zone`.
pub fn grid_from_spec(spec: &ScheduleSpec) -> Result<Schedule, FieldError> {
    Schedule::try_from(spec).map_err(|error| {
        let rule = error.to_string();
        match (&error, &spec.rule) {
            (calendar::Error::UnknownZone { .. }, _) | (_, ScheduleRule::Period(_)) => {
                FieldError::new("schedule.zone", &spec.zone, rule)
            }
            (_, ScheduleRule::Cron(text)) => FieldError::new("schedule.cron", text, rule),
        }
    })
}

pub(crate) fn utc() -> Zone {
    Zone::try_from("UTC").expect("UTC is a zone")
}

/// Whether a mapping can work between two grids; the error is for people.
pub(crate) fn check_mapping(own: &Timetable, parent: &Timetable, declared: Mapping) -> Result<(), String> {
    calendar::check_mapping(own, parent, declared).map_err(|error| error.to_string())
}

pub(crate) fn same_grid(a: &Timetable, b: &Timetable) -> bool {
    calendar::same_grid(a, b)
}

/// The parent's logical times that a batch needs.
pub(crate) fn required_times(
    own: &Timetable,
    parent: &Timetable,
    declared: Mapping,
    time: Timestamp,
) -> Result<Vec<Timestamp>, String> {
    let required = calendar::parent_times(own, parent, declared, time).map_err(|e| e.to_string())?;
    Ok(required.times)
}

/// What an attempt runs, all templates resolved. The error is for people.
pub(crate) fn run_spec(
    id: BatchId,
    batch: &Batch,
    token: Token,
    zone: &Zone,
    values: &BTreeMap<String, String>,
) -> Result<RunSpec, String> {
    let definition = &batch.definition;
    let format = time_format(definition)?;
    let facts = Facts {
        batch: id,
        run: batch.run,
        attempt: batch.attempts + 1,
        logical_time: batch.logical_time,
        format: format.as_ref(),
        values: Some(values),
        room: Room::of_attempt(),
    };
    attempt_spec(definition, batch.parameters.as_deref(), token, &facts, zone)
}

/// The same of a definition and a batch's own parameters.
pub(crate) fn attempt_spec(
    definition: &JobDefinition,
    own: Option<&BTreeMap<String, String>>,
    token: Token,
    facts: &Facts<'_>,
    zone: &Zone,
) -> Result<RunSpec, String> {
    let mut parameters = definition.spec.parameters.clone();
    parameters.extend(own.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
    let parameters = render_parameters(definition, parameters, facts, zone)?;
    let spec = &definition.spec;
    let output_path = match &spec.success_check {
        SuccessCheck::OutputPath(path) => Some(render(path, definition, &parameters, facts, zone)?),
        SuccessCheck::ExitCode | SuccessCheck::UserCode => None,
    };
    Ok(RunSpec {
        token,
        batch: facts.batch,
        attempt: facts.attempt,
        job: definition.id,
        job_name: definition.spec.name.clone(),
        group: definition.spec.group.clone(),
        job_type: definition.spec.job_type.clone(),
        program: render_program(definition, &parameters, facts, zone)?,
        logical_time: facts.logical_time,
        logical_time_text: facts.time_text(zone),
        run: facts.run,
        parameters,
        execution_timeout_ms: spec.execution_timeout_s.map(|seconds| u64::from(seconds) * 1_000),
        run_as: spec.run_as.clone(),
        output_path,
        ending: None,
    })
}

/// The longest that a final command may run, milliseconds.
pub(crate) const FINAL_COMMAND_MS: u64 = 600_000;

/// What a final command is about.
pub(crate) struct FinalCommands<'a> {
    pub(crate) batch: BatchId,
    pub(crate) logical_time: Timestamp,
    pub(crate) run: u32,
    pub(crate) parameters: Option<&'a BTreeMap<String, String>>,
    /// What parents had passed on when the last attempt began.
    pub(crate) values: &'a BTreeMap<String, String>,
    pub(crate) ending: Ending,
}

/// What runs when a batch has ended, all templates resolved. The error is for people.
pub(crate) fn final_spec(
    definition: &JobDefinition,
    token: Token,
    of: &FinalCommands<'_>,
    zone: &Zone,
) -> Result<RunSpec, String> {
    let mut parameters = definition.spec.parameters.clone();
    parameters.extend(of.parameters.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
    let attempt = of.ending.attempts;
    let format = time_format(definition)?;
    let facts = Facts {
        batch: of.batch,
        run: of.run,
        attempt,
        logical_time: of.logical_time,
        format: format.as_ref(),
        values: Some(of.values),
        room: Room::of_attempt(),
    };
    let parameters = render_parameters(definition, parameters, &facts, zone)?;
    let spec = &definition.spec;
    let text = spec.final_command.as_deref().unwrap_or_default();
    Ok(RunSpec {
        token,
        batch: of.batch,
        attempt,
        job: definition.id,
        job_name: definition.spec.name.clone(),
        group: definition.spec.group.clone(),
        job_type: JobType::try_from("shell").expect("is a name"),
        program: Program::Command(render(text, definition, &parameters, &facts, zone)?),
        logical_time: of.logical_time,
        logical_time_text: facts.time_text(zone),
        run: of.run,
        parameters,
        execution_timeout_ms: Some(FINAL_COMMAND_MS),
        run_as: spec.run_as.clone(),
        output_path: None,
        ending: Some(of.ending.clone()),
    })
}

/// How the job wants its logical time written; the error is for people.
pub(crate) fn time_format(definition: &JobDefinition) -> Result<Option<TimeFormat>, String> {
    let format = definition.spec.logical_time_format.as_deref();
    format.map(TimeFormat::parse).transpose()
}

/// What templates can say about one attempt.
pub(crate) struct Facts<'a> {
    pub(crate) batch: BatchId,
    pub(crate) run: u32,
    pub(crate) attempt: u32,
    pub(crate) logical_time: Timestamp,
    /// How the job wants that written.
    pub(crate) format: Option<&'a TimeFormat>,
    /// What parents passed on; absent: not known yet.
    pub(crate) values: Option<&'a BTreeMap<String, String>>,
    pub(crate) room: Room,
}

/// The bytes that texts may still take once they are resolved, all of them together.
pub(crate) struct Room(Cell<usize>);

impl Room {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Cell::new(bytes))
    }

    pub(crate) fn of_attempt() -> Self {
        Self::new(MAX_RESOLVED_BYTES)
    }

    fn left(&self) -> usize {
        self.0.get()
    }

    fn take(&self, text: &str) -> Result<(), String> {
        let left = self.left().checked_sub(text.len());
        let too_long = || {
            format!("command and parameters, resolved, take more than {MAX_RESOLVED_BYTES} bytes together")
        };
        left.map(|left| self.0.set(left)).ok_or_else(too_long)
    }
}

impl<'a> Facts<'a> {
    /// Of a batch for which parents have passed nothing on yet: that of its first attempt.
    pub(crate) fn of_batch(
        batch: BatchId,
        run: u32,
        logical_time: Timestamp,
        format: Option<&'a TimeFormat>,
    ) -> Self {
        Self { batch, run, attempt: 1, logical_time, format, values: None, room: Room::of_attempt() }
    }

    /// The same, for a text with a bound of its own.
    fn within(&self, bytes: usize) -> Facts<'_> {
        Facts { room: Room::new(bytes), ..*self }
    }

    fn time_text(&self, zone: &Zone) -> String {
        let time = self.logical_time.to_zoned(zone.time_zone().clone());
        match self.format {
            Some(format) => format.write(&time),
            None => time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        }
    }
}

/// Parameters may hold templates of their own, though not of each other.
fn render_parameters(
    definition: &JobDefinition,
    parameters: BTreeMap<String, String>,
    facts: &Facts<'_>,
    zone: &Zone,
) -> Result<BTreeMap<String, String>, String> {
    let none = BTreeMap::new();
    let render = |(name, value): (String, String)| {
        let wrong = |error| format!("parameter {name}: {error}");
        if !is_template(&value) {
            return facts.room.take(&value).map_err(wrong).map(|()| (name, value));
        }
        let text = render(&value, definition, &none, facts, zone).map_err(wrong)?;
        Ok((name, text))
    };
    parameters.into_iter().map(render).collect()
}

pub(crate) fn render_program(
    definition: &JobDefinition,
    parameters: &BTreeMap<String, String>,
    facts: &Facts<'_>,
    zone: &Zone,
) -> Result<Program, String> {
    let render = |text: String| render(&text, definition, parameters, facts, zone);
    Ok(match definition.spec.to_run() {
        Program::None => Program::None,
        Program::Command(text) => Program::Command(render(text)?),
        Program::Script { text, arguments } => Program::Script {
            text: render(text)?,
            arguments: arguments.into_iter().map(render).collect::<Result<_, _>>()?,
        },
        Program::Path { path, class, arguments } => Program::Path {
            path: render(path)?,
            class: class.map(render).transpose()?,
            arguments: arguments.into_iter().map(render).collect::<Result<_, _>>()?,
        },
    })
}

/// A path of a batch, templates resolved. One that cannot be, or gets too long, stays as it was written: it does not
/// exist, so that the batch waits and says for what.
pub(crate) fn resolve_path(
    text: &str,
    definition: &JobDefinition,
    own: &BTreeMap<String, String>,
    facts: &Facts<'_>,
    zone: &Zone,
) -> String {
    if !is_template(text) {
        return text.to_owned();
    }
    let resolved = || {
        let template = Template::parse(text).ok()?;
        let none = BTreeMap::new();
        let mut parameters = BTreeMap::new();
        for name in template.param_names() {
            let value = own.get(name).or_else(|| definition.spec.parameters.get(name))?;
            if !parameters.contains_key(name) {
                let value = render(value, definition, &none, &facts.within(MAX_PATH_BYTES), zone).ok()?;
                parameters.insert(name.to_owned(), value);
            }
        }
        render(text, definition, &parameters, &facts.within(MAX_PATH_BYTES), zone).ok()
    };
    resolved().unwrap_or_else(|| text.to_owned())
}

fn is_template(text: &str) -> bool {
    text.contains("${")
}

pub(crate) fn render(
    text: &str,
    definition: &JobDefinition,
    parameters: &BTreeMap<String, String>,
    facts: &Facts<'_>,
    zone: &Zone,
) -> Result<String, String> {
    if !is_template(text) {
        return facts.room.take(text).map(|()| text.to_owned());
    }
    let template = Template::parse(text).map_err(|error| error.to_string())?;
    let context = TemplateContext {
        logical_time: facts.logical_time,
        zone,
        time_format: facts.format,
        batch_id: facts.batch.0,
        run: facts.run,
        attempt: facts.attempt,
        definition,
        params: parameters,
        values: facts.values,
        most_bytes: facts.room.left(),
    };
    let text = template.render(&context).map_err(|error| error.to_string())?;
    facts.room.take(&text).map(|()| text)
}
