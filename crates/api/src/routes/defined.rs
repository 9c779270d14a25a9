//! What administrators define in the catalogue by name, in versions: calendars, templates, and pools, which have a file of their
//! own.

use std::fmt::Display;

use axum::Json;
use axum::extract::Path;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Answer, CalendarSpec, CatalogueCommand, Concerned, Permission, ShardId, TemplateSpec};
use tidemill_store::{ReadPullTables, ReadTables};

use super::requests::{Reader, Writer};
use crate::Problem;
use crate::body::Body;
use crate::params::{CURSOR, Params, id};
use crate::propagation::{self, Late};
use crate::rights::Right;
use crate::view::{
    Answered, CalendarDetail, CalendarVersionDetail, CalendarVersionView, CalendarView, List, Settled,
    TaskTemplateView, Written,
};

/// It is there.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Defined {
    /// Its name.
    name: String,
    /// Its version: the one it had, if nothing differs.
    version: u32,
    /// Give this as `at_least` to reads that must show it.
    position: String,
    /// How far it is.
    #[serde(flatten)]
    late: Late,
}

impl Writer {
    /// Lets the catalogue define it, and waits until it is in effect for those whom it concerns.
    pub(super) async fn define(
        self,
        right: Right,
        name: impl Display,
        command: CatalogueCommand,
        concerned: Concerned,
    ) -> Settled<Defined> {
        let done = self.send(right, ShardId::CATALOGUE, command).await?;
        let (Answer::Calendar { version } | Answer::Pool { version } | Answer::Template { version }) =
            done.answer
        else {
            return Err(done.unexpected());
        };
        let late = propagation::wait(&self.app, concerned, done.position).await;
        let position = done.position.to_string();
        Ok((late.status(), Json(Defined { name: name.to_string(), version, position, late })))
    }

    /// Lets the catalogue remove what has this name.
    pub(super) async fn remove<'n, N>(
        self,
        right: Right,
        name: &'n str,
        command: impl FnOnce(N) -> CatalogueCommand,
    ) -> Answered<Written>
    where
        N: TryFrom<&'n str, Error: Display>,
    {
        let name = N::try_from(name).map_err(|error| Problem::field("name", name, error.to_string()))?;
        self.written(right, ShardId::CATALOGUE, command(name)).await
    }
}

/// Calendars, by name (BYD-2). They are the site's, whatever groups a key reaches.
pub(super) async fn calendars(by: Reader, params: Params) -> Answered<List<CalendarView>> {
    List::part(&by.app, &params, move |tables, request| tables.calendars(request)).await
}

pub(super) async fn calendar(by: Reader, Path(name): Path<String>) -> Answered<CalendarDetail> {
    let row = by.app.find("calendar", name, |tables, name| tables.calendar(name)).await?;
    CalendarDetail::of(&row).map(Json)
}

/// The versions of a calendar, the newest first (BYD-2); those of a removed one, too.
pub(super) async fn calendar_versions(
    by: Reader,
    Path(name): Path<String>,
    params: Params,
) -> Answered<List<CalendarVersionView>> {
    let request = params.page()?;
    let wanted = name.clone();
    let page = by.app.read(move |tables| tables.calendar_versions(&wanted, &request)).await?;
    if page.items.is_empty() && params.get(CURSOR)?.is_none() {
        return Err(Problem::unknown("calendar", name));
    }
    Ok(Json(List::from(page)))
}

/// One version of a calendar with its days.
pub(super) async fn calendar_version(
    by: Reader,
    Path((name, number)): Path<(String, String)>,
) -> Answered<CalendarVersionDetail> {
    let version: i64 = id("version", &number)?;
    let wanted = name.clone();
    let row = by.app.read(move |tables| tables.calendar_version(&wanted, version)).await?;
    let row = row.ok_or_else(|| Problem::unknown("version", format!("{version} of calendar {name}")))?;
    CalendarVersionDetail::of(row).map(Json)
}

/// Adds or changes a calendar; the next fires of the jobs that keep to it are computed anew.
pub(super) async fn define_calendar(by: Writer, Body(body): Body) -> Settled<Defined> {
    let calendar = CalendarSpec::from_value(body).map_err(|error| Problem::fields(vec![error]))?;
    let name = calendar.name.clone();
    let command = CatalogueCommand::DefineCalendar { calendar: Box::new(calendar) };
    let right = by.caller.for_site(Permission::Administer)?;
    by.define(right, name.clone(), command, Concerned::Calendar(name)).await
}

/// Removes a calendar; refused, with their names, while jobs use it.
pub(super) async fn remove_calendar(by: Writer, Path(name): Path<String>) -> Answered<Written> {
    let right = by.caller.for_site(Permission::Administer)?;
    by.remove(right, &name, |name| CatalogueCommand::DeleteCalendar { name }).await
}

/// Templates, by name (PUL-1). They are the site's, whatever groups a key reaches.
pub(super) async fn templates(by: Reader, params: Params) -> Answered<List<TaskTemplateView>> {
    List::part(&by.app, &params, move |tables, request| tables.task_templates(request)).await
}

pub(super) async fn template(by: Reader, Path(name): Path<String>) -> Answered<TaskTemplateView> {
    let row = by.app.find("template", name, |tables, name| tables.task_template(name)).await?;
    Ok(Json(row.into()))
}

pub(super) async fn define_template(by: Writer, Body(body): Body) -> Settled<Defined> {
    let template = TemplateSpec::from_value(body).map_err(|error| Problem::fields(vec![error]))?;
    let right = by.caller.for_site(Permission::Administer)?;
    by.define(
        right,
        template.name.clone(),
        CatalogueCommand::DefineTemplate { template },
        Concerned::Everyone,
    )
    .await
}

pub(super) async fn remove_template(by: Writer, Path(name): Path<String>) -> Answered<Written> {
    let right = by.caller.for_site(Permission::Administer)?;
    by.remove(right, &name, |name| CatalogueCommand::DeleteTemplate { name }).await
}
