//! People: lists, and changes of one.

use axum::Json;
use axum::extract::Path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_directory::Directory;
use tidemill_model::{DepartmentName, DirectoryChange, Grant, Language, Person, PersonName, Role};

use super::apply::Changing;
use super::{Shown, part};
use crate::Problem;
use crate::body::{Body, parse};
use crate::parameter::Asked;
use crate::routes::requests::Writer;
use crate::view::{Answered, List, Settled, Written};

pub(super) const DEPARTMENT: Asked<String> = Asked::text("department", "Only people of this department.");
pub(super) const ROLE: Asked<String> = Asked::word(
    "role",
    "Only people of this role.",
    &["viewer", "user", "administrator", "super_administrator"],
);
pub(super) const ENABLED: Asked<bool> =
    Asked::flag("enabled", "`true`: only who is enabled; `false`: only who is not.");

/// A person, every field said.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PersonView {
    /// What the person signs in as.
    name: PersonName,
    /// The name for people.
    full_name: String,
    /// Where alarms are mailed to.
    mail: Option<String>,
    /// The number that is called and gets SMS.
    phone: Option<String>,
    /// In which language the person is written to.
    language: Language,
    /// Whether the person may sign in, owns jobs and is on call.
    enabled: bool,
    /// What the person may.
    role: Role,
    /// The departments that the person is of, the main one first.
    departments: Vec<DepartmentName>,
    /// What the person may beside what the role gives.
    grants: Vec<Grant>,
    /// Who owns the person's jobs and takes the places in rotas, where the person is disabled.
    successor: Option<PersonName>,
}

impl From<&Person> for PersonView {
    fn from(person: &Person) -> Self {
        let Person { name, full_name, mail, phone, language, enabled, role, departments, grants, successor } =
            person.clone();
        Self { name, full_name, mail, phone, language, enabled, role, departments, grants, successor }
    }
}

/// A person, and what hangs on them.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PersonDetail {
    /// The person.
    #[serde(flatten)]
    person: PersonView,
    /// Who owns the person's jobs and takes their places in rotas: the person, or the last one of their successors.
    stands_in: Option<PersonName>,
    /// The departments whose rota names the person.
    rotas: Vec<DepartmentName>,
    /// Whom the person succeeds.
    succeeds: Vec<PersonName>,
}

pub(super) async fn list(shown: Shown) -> Answered<List<PersonView>> {
    let Shown { directory, params } = shown;
    let (department, role, enabled) = (params.get(DEPARTMENT)?, params.get(ROLE)?, params.get(ENABLED)?);
    let fits = |person: &Person| {
        department.as_ref().is_none_or(|name| person.departments.iter().any(|of| of.as_str() == name))
            && role.as_ref().is_none_or(|role| person.role.as_str() == role)
            && enabled.is_none_or(|enabled| person.enabled == enabled)
    };
    let people = directory.people().iter().filter(|(_, person)| fits(person));
    Ok(Json(part(&params, people.map(|(name, person)| (name, PersonView::from(&**person))))?))
}

pub(super) async fn get(shown: Shown, Path(name): Path<String>) -> Answered<PersonDetail> {
    let directory = &shown.directory;
    let person = known(directory, &name)?;
    let names_them = |name: &&PersonName| **name == person.name;
    let rotas = directory.departments().values().filter(|department| {
        department.on_call.as_ref().is_some_and(|rota| rota.people().any(|name| names_them(&name)))
    });
    let succeeds = directory
        .people()
        .values()
        .filter(|other| other.successor.as_ref().is_some_and(|it| *it == person.name));
    let last =
        directory.stands_for(&person.name).last().filter(|last| last.enabled).map(|last| last.name.clone());
    Ok(Json(PersonDetail {
        stands_in: last,
        rotas: rotas.map(|department| department.name.clone()).collect(),
        succeeds: succeeds.map(|person| person.name.clone()).collect(),
        person: person.into(),
    }))
}

fn known<'d>(directory: &'d Directory, name: &str) -> Result<&'d Person, Problem> {
    let person = PersonName::try_from(name).ok().and_then(|name| directory.people().get(&name));
    person.map(|person| &**person).ok_or_else(|| Problem::unknown("person", name))
}

/// Adds a person, or gives a known one this form.
pub(super) async fn put(by: Writer, Path(name): Path<String>, Body(body): Body) -> Settled<Written> {
    let person = Person::from_value(body).map_err(|error| Problem::fields(vec![error]))?;
    if person.name.as_str() != name {
        return Err(Problem::field("name", &person.name, format!("must be {name}, as in the path")));
    }
    let change = |_: &Directory| Ok(DirectoryChange::Person(Box::new(person.clone())));
    Changing::new(&by).await?.one(change).await
}

pub(super) async fn delete(by: Writer, Path(name): Path<String>) -> Settled<Written> {
    let change = |directory: &Directory| {
        let name = known(directory, &name)?.name.clone();
        Ok(DirectoryChange::DeletePerson { name })
    };
    Changing::new(&by).await?.one(change).await
}

/// Who takes over.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DisableRequest {
    /// Who owns the person's jobs and takes their places in rotas from now on; needed where there are some.
    #[serde(default)]
    successor: Option<PersonName>,
}

pub(super) async fn disable(by: Writer, Path(name): Path<String>, Body(body): Body) -> Settled<Written> {
    let DisableRequest { successor } = parse(body)?;
    let change = |person: &Person| Person { enabled: false, successor: successor.clone(), ..person.clone() };
    changed(&by, &name, change).await
}

pub(super) async fn enable(by: Writer, Path(name): Path<String>) -> Settled<Written> {
    changed(&by, &name, |person| Person { enabled: true, successor: None, ..person.clone() }).await
}

async fn changed(by: &Writer, name: &str, change: impl Fn(&Person) -> Person) -> Settled<Written> {
    let change =
        |directory: &Directory| Ok(DirectoryChange::Person(Box::new(change(known(directory, name)?))));
    Changing::new(by).await?.one(change).await
}
