use axum::Json;
use axum::extract::Path;
use tidemill_journal::now;
use tidemill_model::{JobDefinition, JobId, Permission, Timestamp};
use tidemill_store::rows::JobRow;
use tidemill_store::{JobFilter, ReadTables, Tables};

use super::requests::Reader;
use crate::Problem;
use crate::app::App;
use crate::object::Object;
use crate::parameter::Asked;
use crate::params::{Params, id};
use crate::rights::Caller;
use crate::spec::{self, Shown};
use crate::view::{
    Answered, BatchView, JobDetail, JobView, List, ParentView, PreviewView, SkippedRunsView, calendar_of,
    definition_of, name_of,
};

/// Fires of a preview where the caller names no number.
const PREVIEW: usize = 10;

/// Ancestors that are gone through for the schedule that a job without one follows.
const MAX_ANCESTORS: usize = 10_000;

pub(super) const GROUP: Asked<String> = Asked::text("group", "Of this group.");
pub(super) const NAME: Asked<String> = Asked::text("name", "Of exactly this name.");
pub(super) const TYPE: Asked<String> = Asked::text("type", "Of this type.");
pub(super) const ENABLED: Asked<bool> = Asked::flag("enabled", "`true` or `false`.");
pub(super) const SUBMITTED: Asked<bool> =
    Asked::flag("submitted", "`true`: submitted to run once; `false`: defined in the catalogue.");
pub(super) const N: Asked<u64> = Asked::number(
    "n",
    "How many, 1 to 1000; default 10. Fewer are answered where the job's texts are long.",
    1,
    1_000,
);
pub(super) const AFTER: Asked<Timestamp> = Asked::time("after", "After this time; default now.");
pub(super) const AT: Asked<Timestamp> =
    Asked::time("at", "This logical time alone, whatever the schedule; without n and after.");

pub(super) async fn list(by: Reader, params: Params) -> Answered<List<JobView>> {
    let filter = JobFilter {
        group: params.get(GROUP)?,
        reach: by.caller.seen(),
        name: params.get(NAME)?,
        job_type: params.get(TYPE)?,
        enabled: params.get(ENABLED)?,
        submitted: params.get(SUBMITTED)?,
    };
    let request = params.page()?;
    let page = by.app.read(move |tables| tables.jobs(&filter, &request)).await?;
    let next = page.next.map(|next| next.to_string());
    let view = |row: JobRow| definition_of(&row).map(|definition| JobView::new(row, definition.spec));
    Ok(Json(List { items: page.items.into_iter().map(view).collect::<Result<_, _>>()?, next }))
}

/// A job by its id, deleted ones too.
pub(super) async fn get(by: Reader, Path(text): Path<String>) -> Answered<JobDetail> {
    let job: JobId = id("job", &text)?;
    detail(&by.app, &by.caller, job_row(&by.app, job).await?).await.map(Json)
}

pub(super) async fn get_named(
    by: Reader,
    Path((group, name)): Path<(String, String)>,
) -> Answered<JobDetail> {
    let full_name = format!("{group}/{name}");
    let row = by.app.read(move |tables| tables.job_named(&group, &name)).await?;
    let row = row.ok_or_else(|| Problem::unknown("job", &full_name))?;
    if !by.caller.sees(&Object::of_row(&row)) {
        // By the name that was asked for, and not by the id that is there.
        return Err(Problem::unknown("job", full_name).foreign());
    }
    detail(&by.app, &by.caller, row).await.map(Json)
}

/// The next fires, or one logical time, with templates resolved (JOB-7).
pub(super) async fn preview(by: Reader, Path(text): Path<String>, params: Params) -> Answered<PreviewView> {
    let shown = shown(&params)?;
    let row = readable(&by.app, &by.caller, &text).await?;
    let definition = definition_of(&row)?;
    let grid = grid_of(&by.app, &definition).await?;
    let used = grid.as_ref().and_then(|grid| grid.spec.calendar.as_ref());
    let calendar = match used.map(|used| used.name.to_string()) {
        Some(name) => by.app.read(move |tables| tables.calendar(&name)).await?,
        None => None,
    };
    let calendar = calendar.as_ref().map(calendar_of).transpose()?;
    let preview = tokio::task::spawn_blocking(move || {
        spec::preview(&definition, grid.as_ref(), calendar.as_ref(), &shown)
    });
    let preview =
        preview.await.unwrap_or_else(|_| Err(Problem::internal("the preview ended unexpectedly")))?;
    Ok(Json(preview))
}

/// Which logical times are asked for.
fn shown(params: &Params) -> Result<Shown, Problem> {
    let (n, after) = (params.get(N)?, params.get(AFTER)?);
    if let Some(at) = params.get(AT)? {
        if n.is_some() || after.is_some() {
            return Err(Problem::field("at", at, "names the one time to show; leave n and after out"));
        }
        return Ok(Shown::At(at));
    }
    let n = n.map_or(PREVIEW, |n| usize::try_from(n).unwrap_or(PREVIEW));
    Ok(Shown::Next { after: after.unwrap_or_else(now), n })
}

/// The definition whose schedule gives a job its logical times, as its shard finds it: its own, or that of the nearest
/// ancestor that has one, going by first parents.
async fn grid_of(app: &App, definition: &JobDefinition) -> Result<Option<JobDefinition>, Problem> {
    let mut definition = definition.clone();
    for _ in 0..MAX_ANCESTORS {
        if definition.spec.schedule.is_some() {
            return Ok(Some(definition));
        }
        let parents: Vec<JobId> = definition.other_parents().collect();
        let known = app.read(move |tables| {
            for parent in parents {
                if let Some(row) = tables.job(parent.0)?.filter(|row| row.deleted_at.is_none()) {
                    return Ok(Some(row));
                }
            }
            Ok(None)
        });
        match known.await? {
            Some(row) => definition = definition_of(&row)?,
            None => return Ok(None),
        }
    }
    Ok(None)
}

/// Fires that made no batch, and why, in the order in which they were recorded.
pub(super) async fn skipped(by: Reader, Path(text): Path<String>) -> Answered<List<SkippedRunsView>> {
    let row = readable(&by.app, &by.caller, &text).await?;
    let skipped = by.app.read(move |tables| tables.skipped_runs(row.id)).await?;
    Ok(Json(List::all(skipped)))
}

/// The row of a job that the caller may read.
pub(super) async fn readable(app: &App, caller: &Caller, text: &str) -> Result<JobRow, Problem> {
    let row = job_row(app, id("job", text)?).await?;
    caller.may(Permission::View, &Object::of_row(&row))?;
    Ok(row)
}

pub(super) async fn job_row(app: &App, job: JobId) -> Result<JobRow, Problem> {
    app.find("job", job, |tables, job| tables.job(job.0)).await
}

async fn detail(app: &App, caller: &Caller, row: JobRow) -> Result<JobDetail, Problem> {
    caller.may(Permission::View, &Object::of_row(&row))?;
    let definition = definition_of(&row)?;
    let mut detail = app.read(move |tables| read_detail(tables, row, definition)).await?;
    app.hide_blockers(caller, detail.newest_batch.iter_mut().map(|batch| &mut batch.0)).await?;
    Ok(detail)
}

fn read_detail(
    tables: &dyn Tables,
    row: JobRow,
    definition: JobDefinition,
) -> Result<JobDetail, tidemill_store::Error> {
    let mut parents = Vec::with_capacity(definition.parents.len());
    for parent in definition.parents {
        let name = name_of(tables, parent.job.0)?;
        parents.push(ParentView { job: parent.job.0, name, mapping: parent.mapping });
    }
    let fires = tables.shard_job(row.id)?.filter(|_| row.deleted_at.is_none());
    let time = |ms: Option<i64>| ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let newest_batch = tables.newest_batch(row.id)?.map(BatchView::from);
    Ok(JobDetail {
        job: JobView::new(row, definition.spec),
        parents,
        next_fire_at: time(fires.as_ref().and_then(|fires| fires.next_fire_at)),
        next_logical_time: time(fires.as_ref().and_then(|fires| fires.next_logical_time)),
        newest_batch,
    })
}
