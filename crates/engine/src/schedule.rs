//! Between the model's words for time and the calendar's: schedules, mappings, templates.

use std::cell::Cell;
use std::collections::BTreeMap;

use tidemill_calendar as calendar;
use tidemill_calendar::{Schedule, Template, TemplateContext, TimeFormat, Timetable, Zone};
use tidemill_model::{
    BatchId, DataPath, FieldError, GroupLimits, JobDefinition, JobType, MAX_PATH_BYTES, Mapping, PathSpec,
    Program, RunSpec, ScheduleRule, ScheduleSpec, SuccessCheck, Timestamp, Token,
};

use crate::group::{Batch, Ended};

/// Everything that is resolved for one attempt: what a worker is told of it stands in one message, where a byte may
/// take six.
const MAX_RESOLVED_BYTES: usize = 512 * 1024;

pub(crate) type Parameters = BTreeMap<String, String>;

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

/// What a batch's next attempt runs, all templates resolved. The error is for people.
pub(crate) fn run_spec(
    id: BatchId,
    batch: &Batch,
    token: Token,
    zone: &Zone,
    values: &Parameters,
) -> Result<RunSpec, String> {
    let format = time_format(&batch.definition)?;
    let facts = Facts {
        attempt: batch.attempts + 1,
        values: Some(values),
        ..Facts::of_batch(&batch.definition, id, batch.run, batch.logical_time, format.as_ref())
    };
    attempt_spec(batch.parameters.as_deref(), token, &facts, zone)
}

/// `own`: a batch's own parameters.
fn attempt_spec(
    own: Option<&Parameters>,
    token: Token,
    facts: &Facts<'_>,
    zone: &Zone,
) -> Result<RunSpec, String> {
    let spec = &facts.definition.spec;
    let mut run = facts.run_of_nothing(own, token, zone)?;
    if let SuccessCheck::OutputPath(path) = &spec.success_check {
        run.output_path = Some(facts.render(path, &run.parameters, zone)?);
    }
    run.program = facts.render_program(&run.parameters, zone)?;
    run.execution_timeout_ms = spec.execution_timeout_s.map(|seconds| u64::from(seconds) * 1_000);
    run.memory_mb = spec.memory_mb;
    Ok(run)
}

/// What a value has made of the name of a program is a name: the interpreter would take this for an option.
fn no_option(field: &str, resolved: String) -> Result<String, String> {
    match resolved.starts_with('-') {
        true => Err(format!("{field} is {resolved:?} once it is resolved, and must not begin with -")),
        false => Ok(resolved),
    }
}

/// The longest that a final command may run, milliseconds.
pub(crate) const FINAL_COMMAND_MS: u64 = 600_000;

/// What runs when a batch has ended, all templates resolved. The error is for people.
pub(crate) fn final_spec(token: Token, batch: BatchId, of: &Ended, zone: &Zone) -> Result<RunSpec, String> {
    let none = Parameters::new();
    let format = time_format(&of.definition)?;
    let facts = Facts {
        attempt: of.ending.attempts,
        values: Some(of.values.as_deref().unwrap_or(&none)),
        ..Facts::of_batch(&of.definition, batch, of.run, of.logical_time, format.as_ref())
    };
    let text = of.definition.spec.final_command.as_deref().unwrap_or_default();
    let run = facts.run_of_nothing(of.parameters.as_deref(), token, zone)?;
    Ok(RunSpec {
        job_type: JobType::try_from("shell").expect("is a name"),
        program: Program::Command(facts.render(text, &run.parameters, zone)?),
        execution_timeout_ms: Some(FINAL_COMMAND_MS),
        ending: Some(of.ending.clone()),
        ..run
    })
}

/// How the job wants its logical time written; the error is for people.
pub(crate) fn time_format(definition: &JobDefinition) -> Result<Option<TimeFormat>, String> {
    let format = definition.spec.logical_time_format.as_deref();
    format.map(TimeFormat::parse).transpose()
}

pub(crate) struct Facts<'a> {
    pub(crate) definition: &'a JobDefinition,
    pub(crate) batch: BatchId,
    pub(crate) run: u32,
    pub(crate) attempt: u32,
    pub(crate) logical_time: Timestamp,
    /// How the job wants that written.
    pub(crate) format: Option<&'a TimeFormat>,
    /// What parents passed on; absent: not known yet.
    pub(crate) values: Option<&'a Parameters>,
    /// The bytes that texts may still take once they are resolved, all of them together.
    pub(crate) room: Cell<usize>,
}

impl<'a> Facts<'a> {
    /// Of a batch for which parents have passed nothing on yet: that of its first attempt.
    pub(crate) fn of_batch(
        definition: &'a JobDefinition,
        batch: BatchId,
        run: u32,
        logical_time: Timestamp,
        format: Option<&'a TimeFormat>,
    ) -> Self {
        let room = Cell::new(MAX_RESOLVED_BYTES);
        Self { definition, batch, run, attempt: 1, logical_time, format, values: None, room }
    }

    /// The same, for a text with a bound of its own.
    fn within(&self, bytes: usize) -> Facts<'_> {
        Facts { room: Cell::new(bytes), ..*self }
    }

    fn take(&self, text: &str) -> Result<(), String> {
        let left = self.room.get().checked_sub(text.len());
        let too_long = || {
            format!("command and parameters, resolved, take more than {MAX_RESOLVED_BYTES} bytes together")
        };
        left.map(|left| self.room.set(left)).ok_or_else(too_long)
    }

    fn time_text(&self, zone: &Zone) -> String {
        let time = self.logical_time.to_zoned(zone.time_zone().clone());
        match self.format {
            Some(format) => format.write(&time),
            None => time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        }
    }

    /// A run with its parameters resolved, for which nothing is said yet of what it runs.
    fn run_of_nothing(&self, own: Option<&Parameters>, token: Token, zone: &Zone) -> Result<RunSpec, String> {
        let JobDefinition { id, spec, .. } = self.definition;
        let mut parameters = spec.parameters.clone();
        parameters.extend(own.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
        Ok(RunSpec {
            token,
            batch: self.batch,
            attempt: self.attempt,
            job: *id,
            job_name: spec.name.clone(),
            group: spec.group.clone(),
            job_type: spec.job_type.clone(),
            program: Program::None,
            logical_time: self.logical_time,
            logical_time_text: self.time_text(zone),
            run: self.run,
            parameters: self.render_parameters(parameters, zone)?,
            execution_timeout_ms: None,
            memory_mb: None,
            run_as: spec.run_as.clone(),
            output_path: None,
            limits: spec.limits,
            group_limits: GroupLimits::default(),
            ending: None,
            unconfirmed: Vec::new(),
        })
    }

    /// Parameters may hold templates of their own, though not of each other.
    fn render_parameters(&self, parameters: Parameters, zone: &Zone) -> Result<Parameters, String> {
        let none = Parameters::new();
        let render = |(name, value): (String, String)| match self.render(&value, &none, zone) {
            Ok(text) => Ok((name, text)),
            Err(error) => Err(format!("parameter {name}: {error}")),
        };
        parameters.into_iter().map(render).collect()
    }

    fn render_program(&self, parameters: &Parameters, zone: &Zone) -> Result<Program, String> {
        let render = |text: String| self.render(&text, parameters, zone);
        Ok(match self.definition.spec.to_run() {
            Program::None => Program::None,
            Program::Command(text) => Program::Command(render(text)?),
            Program::Script { text, arguments } => Program::Script {
                text: render(text)?,
                arguments: arguments.into_iter().map(render).collect::<Result<_, _>>()?,
            },
            Program::Path { path, class, arguments } => Program::Path {
                path: no_option("program", render(path)?)?,
                class: class.map(|class| no_option("class", render(class)?)).transpose()?,
                arguments: arguments.into_iter().map(render).collect::<Result<_, _>>()?,
            },
        })
    }

    /// A path of a batch, templates resolved. One that cannot be, or gets too long, stays as it was written: it does not
    /// exist, so that the batch waits and says for what.
    pub(crate) fn resolve_path(&self, text: &str, own: &Parameters, zone: &Zone) -> String {
        if !is_template(text) {
            return text.to_owned();
        }
        let resolved = || {
            let template = Template::parse(text).ok()?;
            let none = Parameters::new();
            let mut parameters = Parameters::new();
            for name in template.param_names() {
                let value = own.get(name).or_else(|| self.definition.spec.parameters.get(name))?;
                if !parameters.contains_key(name) {
                    let value = self.within(MAX_PATH_BYTES).render(value, &none, zone).ok()?;
                    parameters.insert(name.to_owned(), value);
                }
            }
            self.within(MAX_PATH_BYTES).render(text, &parameters, zone).ok()
        };
        resolved().unwrap_or_else(|| text.to_owned())
    }

    fn render(&self, text: &str, parameters: &Parameters, zone: &Zone) -> Result<String, String> {
        if !is_template(text) {
            return self.take(text).map(|()| text.to_owned());
        }
        let template = Template::parse(text).map_err(|error| error.to_string())?;
        let context = TemplateContext {
            logical_time: self.logical_time,
            zone,
            time_format: self.format,
            batch_id: self.batch.0,
            run: self.run,
            attempt: self.attempt,
            definition: self.definition,
            params: parameters,
            values: self.values,
            most_bytes: self.room.get(),
        };
        let text = template.render(&context).map_err(|error| error.to_string())?;
        self.take(&text).map(|()| text)
    }
}

fn is_template(text: &str) -> bool {
    text.contains("${")
}

/// What a job would run for a logical time, all its templates resolved by the code that resolves them for its batches
/// (JOB-7). What only a batch has is that of batch 0, run 0 and attempt 1; values that parents pass on stay as they are
/// written.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// What its worker would be told.
    pub run: RunSpec,
    /// The final command.
    pub final_command: Option<String>,
    /// The paths that it would wait for.
    pub inputs: Vec<DataPath>,
    /// The paths that it says it makes.
    pub outputs: Vec<DataPath>,
}

/// What a job would run for a logical time, which is written in `zone`.
///
/// # Errors
/// A template that cannot be resolved for that time, in words for people.
pub fn preview(definition: &JobDefinition, zone: &Zone, logical_time: Timestamp) -> Result<Preview, String> {
    let format = time_format(definition)?;
    let facts = Facts::of_batch(definition, BatchId(0), 0, logical_time, format.as_ref());
    let run = attempt_spec(None, Token(0), &facts, zone)?;
    let spec = &definition.spec;
    let final_command = spec.final_command.as_ref().map(|text| facts.render(text, &run.parameters, zone));
    let none = Parameters::new();
    let path = |path: &PathSpec| DataPath {
        path: facts.resolve_path(path.path(), &none, zone),
        ..DataPath::from(path)
    };
    Ok(Preview {
        final_command: final_command.transpose()?,
        inputs: spec.inputs.iter().map(path).collect(),
        outputs: spec.outputs.iter().map(path).collect(),
        run,
    })
}
