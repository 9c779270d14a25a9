use axum::Json;
use axum::extract::Path;
use tidemill_model::Mapping;
use tidemill_store::rows::{JobParentRow, JobRow, JobVersionRow};
use tidemill_store::{Page, ReadTables, Tables};

use super::jobs::readable;
use super::requests::Reader;
use crate::Problem;
use crate::app::App;
use crate::params::{Params, id};
use crate::view::{
    Answered, ChildView, JobVersionDetail, JobVersionView, List, VersionDiff, version_of_submission,
};

/// The versions of a definition, the newest first (JOB-5).
pub(super) async fn list(
    by: Reader,
    Path(text): Path<String>,
    params: Params,
) -> Answered<List<JobVersionView>> {
    let request = params.page()?;
    let row = readable(&by.app, &by.caller, &text).await?;
    if row.submitted {
        return Ok(Json(List::all([version_of_submission(&row)])));
    }
    let page = by.app.read(move |tables| tables.job_versions_page(row.id, &request)).await?;
    Ok(Json(List::from(page)))
}

/// One version of a definition, with all its fields.
pub(super) async fn get(
    by: Reader,
    Path((text, number)): Path<(String, String)>,
) -> Answered<JobVersionDetail> {
    let row = readable(&by.app, &by.caller, &text).await?;
    let version = version(&by.app, &row, &number).await?;
    Ok(Json(JobVersionDetail::of(version)))
}

pub(super) async fn diff(
    by: Reader,
    Path((text, from, to)): Path<(String, String, String)>,
) -> Answered<VersionDiff> {
    let row = readable(&by.app, &by.caller, &text).await?;
    let (from, to) = (version(&by.app, &row, &from).await?, version(&by.app, &row, &to).await?);
    Ok(Json(VersionDiff::of(&from, &to)))
}

/// The jobs that name this one as a parent and are not deleted, by id; those that the caller may see. A part may have fewer than
/// asked for, where some are deleted.
pub(super) async fn children(
    by: Reader,
    Path(text): Path<String>,
    params: Params,
) -> Answered<List<ChildView>> {
    let (request, seen) = (params.page()?, by.caller.seen());
    let row = readable(&by.app, &by.caller, &text).await?;
    let read = move |tables: &dyn Tables| {
        children_of(tables, tables.children_page(row.id, seen.as_ref(), &request)?)
    };
    by.app.read(read).await.map(Json)
}

fn children_of(
    tables: &dyn Tables,
    page: Page<JobParentRow>,
) -> Result<List<ChildView>, tidemill_store::Error> {
    let mut items = Vec::with_capacity(page.items.len());
    for named in page.items {
        let child = tables.job(named.job_id)?.filter(|row| row.deleted_at.is_none());
        items.extend(child.map(|row| ChildView::new(&row, mapping(&named))));
    }
    Ok(List { items, next: page.next.map(|next| next.to_string()) })
}

fn mapping(row: &JobParentRow) -> Mapping {
    match &*row.mapping {
        "all" => Mapping::All,
        "latest" => Mapping::Latest,
        "any" => Mapping::Any,
        "offset" => {
            let back = row.mapping_offset.and_then(|back| back.try_into().ok());
            back.map_or(Mapping::Same, Mapping::Offset)
        }
        _ => Mapping::Same,
    }
}

async fn version(app: &App, row: &JobRow, number: &str) -> Result<JobVersionRow, Problem> {
    let wanted: i64 = id("version", number)?;
    let known = if row.submitted {
        Some(version_of_submission(row))
    } else {
        let job = row.id;
        app.read(move |tables| tables.job_version(job, wanted)).await?
    };
    let known = known.filter(|known| known.version == wanted);
    known.ok_or_else(|| Problem::unknown("version", format!("{wanted} of job {}", row.id)))
}
