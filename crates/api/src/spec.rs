//! A definition as people write it, and what it will run.

use std::sync::Arc;

use tidemill_calendar::{Days, Timetable, Zone};
use tidemill_engine::Preview;
use tidemill_model::{Calendar, JobDefinition, JobId, JobSpec, Mapping, ParentSpec, Program, Timestamp};

use crate::Problem;
use crate::view::{PreviewRun, PreviewView};

/// The job as it could have been written: applied again, it changes nothing. `name_of` gives a parent's group
/// and name.
pub(crate) fn spec_of(
    definition: JobDefinition,
    enabled: bool,
    name_of: impl Fn(JobId) -> Option<(String, String)>,
) -> JobSpec {
    let own = definition.id;
    let group = definition.spec.group.as_str();
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
    JobSpec { parents, enabled, ..definition.spec }
}

/// The fires of one preview together, as JSON, bytes: those that come later are left out.
const MAX_PREVIEW_BYTES: usize = 16 << 20;

/// Which logical times a preview shows.
pub(crate) enum Shown {
    /// The next ones that are due after a time.
    Next { after: Timestamp, n: usize },
    /// This one.
    At(Timestamp),
}

/// What a job runs for some logical times, with templates resolved (JOB-7) as they will be for its batches, due as they
/// will fire (BYD-1). `grid` is the definition whose schedule gives its logical times: its own, or that of its nearest
/// ancestor; `calendar` the one that this keeps to.
pub(crate) fn preview(
    definition: &JobDefinition,
    grid: Option<&JobDefinition>,
    calendar: Option<&Calendar>,
    shown: &Shown,
) -> Result<PreviewView, Problem> {
    let bad = |what: &str, error: String| {
        Problem::field(what, format!("{}/{}", definition.spec.group, definition.spec.name), error)
    };
    let days = calendar.map(Days::try_from).transpose();
    let days = days.map_err(|error| bad("calendar", error.to_string()))?.map(Arc::new);
    let timetable = grid.map(|grid| Timetable::of(grid, |_| days)).transpose();
    let timetable = timetable.map_err(|error| bad("schedule", error.to_string()))?.flatten();
    let zone = match &timetable {
        Some(timetable) => timetable.zone().clone(),
        None => Zone::try_from("UTC").map_err(|error| bad("zone", error.to_string()))?,
    };
    let is_own = grid.is_some_and(|grid| grid.id == definition.id);
    let times: Vec<(Option<Timestamp>, Timestamp)> = match (shown, &timetable) {
        (Shown::Next { after, n }, Some(timetable)) => {
            let fires = timetable.preview(*after, *n).into_iter();
            fires.map(|fire| (is_own.then_some(fire.at), fire.logical_time)).collect()
        }
        (Shown::Next { after: time, .. } | Shown::At(time), _) => vec![(None, *time)],
    };
    let mut fires = Vec::new();
    let mut bytes = 0;
    for (at, logical_time) in times {
        let fire = fire(definition, &zone, at, logical_time).map_err(|error| bad("template", error))?;
        bytes += serde_json::to_vec(&fire).map_or(MAX_PREVIEW_BYTES, |json| json.len());
        if bytes > MAX_PREVIEW_BYTES && !fires.is_empty() {
            break;
        }
        fires.push(fire);
    }
    Ok(PreviewView {
        zone: zone.name().to_owned(),
        calendar: calendar.map(ToString::to_string),
        follows: grid.filter(|_| !is_own).map(JobDefinition::full_name),
        fires,
    })
}

fn fire(
    definition: &JobDefinition,
    zone: &Zone,
    at: Option<Timestamp>,
    logical_time: Timestamp,
) -> Result<PreviewRun, String> {
    let local =
        |at: Timestamp| at.to_zoned(zone.time_zone().clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    let Preview { run, final_command, inputs, outputs } =
        tidemill_engine::preview(definition, zone, logical_time)?;
    let command = match &run.program {
        Program::Command(text) | Program::Script { text, .. } => Some(text.clone()),
        Program::Path { .. } | Program::None => None,
    };
    Ok(PreviewRun {
        at: at.map(local),
        logical_time: local(logical_time),
        command,
        environment: run.variables(),
        program: run.program,
        parameters: run.parameters,
        output_path: run.output_path,
        final_command,
        inputs,
        outputs,
    })
}
