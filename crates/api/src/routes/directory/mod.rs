//! The directory: people, departments, and who is on call. It is answered from what the interface holds in memory, so it needs
//! no tables.

mod apply;
mod departments;
mod on_call;
mod people;
mod places;

use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tidemill_directory::Directory;
use tidemill_model::{Department, DirectoryFile, Permission, Person, ShardId};

use crate::Problem;
use crate::app::App;
use crate::call::{Call, Calls};
use crate::params::{AT_LEAST, Params};
use crate::position::JournalPosition;
use crate::routes::requests::Reader;
use crate::view::{Answered, List, Written};

/// The calls of the directory.
pub(super) fn calls(calls: Calls) -> Calls {
    let calls = calls
        .add(
            Call::get("/api/directory", "All people and departments, as an apply takes them")
                .of_site(Permission::View)
                .fresh()
                .gives::<DirectoryFile>(),
            export,
        )
        .add(
            Call::act("/api/directory/apply", "Adds, changes and deletes people and departments")
                .of_site(Permission::Administer)
                .settles()
                .with(super::apply::DRY_RUN)
                .takes::<apply::DirectoryRequest>()
                .gives::<apply::DirectoryApplied>(),
            apply::apply,
        )
        .add(
            Call::get("/api/on-call", "Who is on call at a time, by department")
                .named("listOnCall")
                .of_site(Permission::View)
                .with(on_call::DEPARTMENT)
                .with(on_call::AT)
                .fresh()
                .gives::<List<on_call::OnCallView>>(),
            on_call::now_or_then,
        );
    people_calls(department_calls(calls))
}

fn people_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::list::<people::PersonView>("/api/people", "People, by name")
                .of_site(Permission::View)
                .with(people::DEPARTMENT)
                .with(people::ROLE)
                .with(people::ENABLED),
            people::list,
        )
        .add(
            Call::one::<people::PersonDetail>("/api/people/{name}", "A person, and what hangs on them")
                .of_site(Permission::View),
            people::get,
        )
        .add(
            Call::put("/api/people/{name}", "Adds a person, or gives a known one this form")
                .of_site(Permission::Administer)
                .settles()
                .takes::<Person>()
                .gives::<Written>(),
            people::put,
        )
        .add(
            Call::remove("/api/people/{name}", "Deletes a person on whom nothing hangs")
                .of_site(Permission::Administer)
                .settles(),
            people::delete,
        )
        .add(
            Call::act("/api/people/{name}/disable", "Keeps a person from everything; a successor takes over")
                .of_site(Permission::Administer)
                .settles()
                .takes::<people::DisableRequest>(),
            people::disable,
        )
        .add(
            Call::act("/api/people/{name}/enable", "Lets a disabled person in again")
                .of_site(Permission::Administer)
                .settles(),
            people::enable,
        )
}

fn department_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::list::<departments::DepartmentView>("/api/departments", "Departments, by name")
                .of_site(Permission::View),
            departments::list,
        )
        .add(
            Call::one::<departments::DepartmentDetail>(
                "/api/departments/{name}",
                "A department, with its members and who is on call",
            )
            .of_site(Permission::View),
            departments::get,
        )
        .add(
            Call::put("/api/departments/{name}", "Adds a department, or gives a known one this form")
                .of_site(Permission::Administer)
                .settles()
                .takes::<Department>()
                .gives::<Written>(),
            departments::put,
        )
        .add(
            Call::remove("/api/departments/{name}", "Deletes a department that nobody is of")
                .of_site(Permission::Administer)
                .settles(),
            departments::delete,
        )
        .add(
            Call::one::<List<on_call::OnCallView>>(
                "/api/departments/{name}/on-call",
                "Who is on call in the next days, one duty after the other",
            )
            .named("listDepartmentOnCall")
            .of_site(Permission::View)
            .with(on_call::AT)
            .with(on_call::DAYS),
            on_call::duties,
        )
}

/// A request to see something of the directory.
pub(super) struct Shown {
    directory: Arc<Directory>,
    params: Params,
}

impl FromRequestParts<Arc<App>> for Shown {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        // It needs a key, as all do.
        Reader::from_request_parts(parts, app).await?;
        let params = Params::from_request_parts(parts, app).await?;
        if let Some(text) = params.get(AT_LEAST)? {
            let position: JournalPosition = text.parse().map_err(|error| Problem::fields(vec![error]))?;
            if position.partition == ShardId::CATALOGUE.partition(app.deps.partitions) {
                reach(app, position).await?;
            }
        }
        Ok(Self { directory: directory(app).await?, params })
    }
}

/// People and departments, as they are now.
async fn directory(app: &Arc<App>) -> Result<Arc<Directory>, Problem> {
    let asker = Arc::clone(app);
    let timeout = app.config.at_least_timeout();
    let asked_at = std::time::Instant::now();
    let wait = move || asker.deps.known.wait_as_of(asked_at, timeout);
    match tokio::task::spawn_blocking(wait).await {
        Ok(true) => Ok(app.deps.known.directory()),
        Ok(false) => {
            let detail = "the catalogue's journal has not been read to its end yet; try again in a moment";
            Err(Problem::unavailable("directory_behind", detail).retry_after(1))
        }
        Err(_) => Err(Problem::internal("a wait for the directory ended unexpectedly")),
    }
}

/// Waits until the directory shows what was written there.
async fn reach(app: &Arc<App>, position: JournalPosition) -> Result<(), Problem> {
    let asker = Arc::clone(app);
    let timeout = app.config.at_least_timeout();
    let wait = move || asker.deps.known.wait(position.offset, timeout);
    if tokio::task::spawn_blocking(wait).await.unwrap_or(false) {
        return Ok(());
    }
    let detail = format!("the directory did not reach position {position}; try again, or read without it");
    Err(Problem::new(axum::http::StatusCode::GATEWAY_TIMEOUT, "not_yet_visible", detail).retry_after(1))
}

async fn export(shown: Shown) -> Answered<DirectoryFile> {
    let departments = shown.directory.departments().values().map(|it| Department::clone(it)).collect();
    let people = shown.directory.people().values().map(|it| Person::clone(it)).collect();
    Ok(Json(DirectoryFile { departments, people }))
}

/// The part of a list in the order of names that the parameters ask for. The cursor is the last name of the part before, so
/// it stays good whatever is added or deleted meanwhile.
fn part<T, N: Ord + ToString>(
    params: &Params,
    entries: impl Iterator<Item = (N, T)>,
) -> Result<List<T>, Problem> {
    let (limit, after) = (params.limit()?, params.get(crate::params::CURSOR)?);
    let mut items = Vec::new();
    let mut last = None;
    for (name, entry) in entries {
        let name = name.to_string();
        if after.as_ref().is_some_and(|after| name <= *after) {
            continue;
        }
        if items.len() == limit {
            return Ok(List { items, next: last });
        }
        items.push(entry);
        last = Some(name);
    }
    Ok(List { items, next: None })
}
