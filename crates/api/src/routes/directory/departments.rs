//! Departments: lists, and changes of one.

use axum::Json;
use axum::extract::Path;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_directory::Directory;
use tidemill_journal::now;
use tidemill_model::{Department, DepartmentName, DirectoryChange, PersonName};

use super::apply::Changing;
use super::on_call::{OnCallView, of_department};
use super::{Shown, part};
use crate::Problem;
use crate::body::Body;
use crate::routes::requests::Writer;
use crate::view::{Answered, List, Settled, Written};

/// A department in a list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DepartmentView {
    /// Its name.
    name: DepartmentName,
    /// The name for people.
    title: String,
    /// Whether those on call here are on call for the scheduler itself.
    for_system: bool,
    /// How many people are of it.
    members: usize,
    /// Who is on call now, the primary first.
    on_call: Vec<PersonName>,
}

/// A department, with its members.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DepartmentDetail {
    /// As written.
    department: Department,
    /// Who is of it, by name.
    members: Vec<PersonName>,
    /// Who is on call now; absent: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_call_now: Option<OnCallView>,
}

pub(super) async fn list(shown: Shown) -> Answered<List<DepartmentView>> {
    let directory = &shown.directory;
    let view = |department: &Department| DepartmentView {
        name: department.name.clone(),
        title: department.title.clone(),
        for_system: department.for_system,
        members: directory.members(&department.name).count(),
        on_call: of_department(directory, department, now()).map(OnCallView::into_names).unwrap_or_default(),
    };
    let listed = part(&shown.params, directory.departments().iter())?;
    let items = listed.items.iter().map(|department| view(department)).collect();
    Ok(Json(List { items, next: listed.next }))
}

pub(super) async fn get(shown: Shown, Path(name): Path<String>) -> Answered<DepartmentDetail> {
    let directory = &shown.directory;
    let department = known(directory, &name)?;
    Ok(Json(DepartmentDetail {
        members: directory.members(&department.name).map(|person| person.name.clone()).collect(),
        on_call_now: of_department(directory, department, now()),
        department: department.clone(),
    }))
}

pub(super) fn known<'d>(directory: &'d Directory, name: &str) -> Result<&'d Department, Problem> {
    let department = DepartmentName::try_from(name).ok().and_then(|name| directory.departments().get(&name));
    department.map(|department| &**department).ok_or_else(|| Problem::unknown("department", name))
}

/// Adds a department, or gives a known one this form.
pub(super) async fn put(by: Writer, Path(name): Path<String>, Body(body): Body) -> Settled<Written> {
    let department = Department::from_value(body).map_err(|error| Problem::fields(vec![error]))?;
    if department.name.as_str() != name {
        return Err(Problem::field("name", &department.name, format!("must be {name}, as in the path")));
    }
    let change = |_: &Directory| Ok(DirectoryChange::Department(Box::new(department.clone())));
    Changing::new(&by).await?.one(change).await
}

pub(super) async fn delete(by: Writer, Path(name): Path<String>) -> Settled<Written> {
    let change = |directory: &Directory| {
        let name = known(directory, &name)?.name.clone();
        Ok(DirectoryChange::DeleteDepartment { name })
    };
    Changing::new(&by).await?.one(change).await
}
