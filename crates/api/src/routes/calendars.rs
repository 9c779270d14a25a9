use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use tidemill_model::{CalendarSpec, CatalogueCommand, Concerned};
use tidemill_store::ReadTables;

use super::defined::Defined;
use super::reader::Reader;
use super::writer::Writer;
use crate::Problem;
use crate::body::Body;
use crate::params::{CURSOR, Params, id};
use crate::view::{CalendarDetail, CalendarVersionDetail, CalendarVersionView, CalendarView, List, Written};

/// Calendars, by name (BYD-2). They are the site's, whatever groups a key reaches.
pub(super) async fn list(by: Reader, params: Params) -> Result<Json<List<CalendarView>>, Problem> {
    List::part(&by.app, &params, move |tables, request| tables.calendars(request)).await
}

/// A calendar with its days.
pub(super) async fn get(by: Reader, Path(name): Path<String>) -> Result<Json<CalendarDetail>, Problem> {
    let row = by.app.find("calendar", name, |tables, name| tables.calendar(name)).await?;
    CalendarDetail::of(&row).map(Json)
}

/// The versions of a calendar, the newest first (BYD-2); those of a removed one, too.
pub(super) async fn versions(
    by: Reader,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<List<CalendarVersionView>>, Problem> {
    let request = params.page()?;
    let wanted = name.clone();
    let page = by.app.read(move |tables| tables.calendar_versions(&wanted, &request)).await?;
    if page.items.is_empty() && params.get(CURSOR)?.is_none() {
        return Err(Problem::unknown("calendar", name));
    }
    Ok(Json(List::from(page)))
}

/// One version of a calendar with its days.
pub(super) async fn version(
    by: Reader,
    Path((name, number)): Path<(String, String)>,
) -> Result<Json<CalendarVersionDetail>, Problem> {
    let version: i64 = id("version", &number)?;
    let wanted = name.clone();
    let row = by.app.read(move |tables| tables.calendar_version(&wanted, version)).await?;
    let row = row.ok_or_else(|| Problem::unknown("version", format!("{version} of calendar {name}")))?;
    CalendarVersionDetail::of(row).map(Json)
}

/// Adds or changes a calendar; the next fires of the jobs that keep to it are computed anew.
pub(super) async fn define(by: Writer, Body(body): Body) -> Result<(StatusCode, Json<Defined>), Problem> {
    let calendar = CalendarSpec::from_value(body).map_err(|error| Problem::fields(vec![error]))?;
    let name = calendar.name.clone();
    let command = CatalogueCommand::DefineCalendar { calendar: Box::new(calendar) };
    let right = by.may(None)?;
    by.define(right, name.clone(), command, Concerned::Calendar(name)).await
}

/// Removes a calendar; refused, with their names, while jobs use it.
pub(super) async fn remove(by: Writer, Path(name): Path<String>) -> Result<Json<Written>, Problem> {
    let right = by.may(None)?;
    by.remove(right, &name, |name| CatalogueCommand::DeleteCalendar { name }).await
}
