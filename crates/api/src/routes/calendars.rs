use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Answer, CalendarName, CalendarSpec, Command, Role, ShardId};
use tidemill_store::ReadTables;

use super::run::written;
use crate::Problem;
use crate::app::App;
use crate::auth::Caller;
use crate::body::Body;
use crate::params::Params;
use crate::view::{CalendarDetail, CalendarView, List, Written};
use crate::write::Write;

/// Calendars, by name (BYD-2). They are the site's, whatever groups a key reaches.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Json<List<CalendarView>>, Problem> {
    params.only(&["limit", "cursor"])?;
    let request = params.page()?;
    let page = app.read(move |tables| tables.calendars(&request)).await?;
    Ok(Json(List::of(page, CalendarView::from)))
}

/// A calendar with its days.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<CalendarDetail>, Problem> {
    params.only(&[])?;
    let wanted = name.clone();
    let row = app.read(move |tables| tables.calendar(&wanted)).await?;
    let row = row.ok_or_else(|| Problem::unknown("calendar", name))?;
    CalendarDetail::of(&row).map(Json)
}

/// A calendar is there.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CalendarDefined {
    /// Its name.
    name: CalendarName,
    /// Its version: the one it had, if nothing differs.
    version: u32,
    /// Give this as `at_least` to reads that must show it.
    position: String,
}

/// Adds or changes a calendar; the next fires of the jobs that keep to it are computed anew.
pub(super) async fn define(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Json<CalendarDefined>, Problem> {
    params.only(&[])?;
    caller.has_role(Role::Administrator)?;
    let calendar = CalendarSpec::from_value(body).map_err(|error| Problem::fields(vec![error]))?;
    let name = calendar.name.clone();
    let command = Command::DefineCalendar { calendar: Box::new(calendar) };
    let done = Write::new(&app, &caller, &headers)?.send(ShardId::CATALOGUE, command).await?;
    match done.answer {
        Answer::Calendar { version } => {
            Ok(Json(CalendarDefined { name, version, position: done.position.to_string() }))
        }
        _ => Err(done.unexpected()),
    }
}

/// Removes a calendar; refused, with their names, while jobs use it.
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    params: Params,
    headers: HeaderMap,
) -> Result<Json<Written>, Problem> {
    params.only(&[])?;
    caller.has_role(Role::Administrator)?;
    let name = CalendarName::try_from(name.as_str())
        .map_err(|error| Problem::field("name", &name, error.to_string()))?;
    let command = Command::RemoveCalendar { name };
    written(Write::new(&app, &caller, &headers)?.send(ShardId::CATALOGUE, command).await?)
}
