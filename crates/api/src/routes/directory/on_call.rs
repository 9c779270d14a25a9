//! Who is on call.

use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_calendar::{Duty, OnCall};
use tidemill_directory::Directory;
use tidemill_journal::now;
use tidemill_model::{Department, DepartmentName, PersonName, Timestamp, bounds};

use super::Shown;
use super::departments::known;
use crate::parameter::Asked;
use crate::view::{Answered, List};

pub(super) const DEPARTMENT: Asked<String> =
    Asked::text("department", "Only of this department; absent: of all that have a rota.");
pub(super) const AT: Asked<Timestamp> = Asked::time("at", "When, RFC 3339; default now.");
pub(super) const DAYS: Asked<u64> =
    Asked::number("days", "Of so many days from then on, 1 to 366; default 14.", 1, 366);
const DEFAULT_DAYS: u64 = 14;
/// A turn a day over the longest time, and as many overrides as there may be, each of which cuts a turn in three.
const MAX_DUTIES: usize = 366 + 2 * bounds::ROTA_OVERRIDES;

/// Who is on call for a time.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OnCallView {
    /// Of which department.
    department: DepartmentName,
    /// Whether it is on call for the scheduler itself.
    for_system: bool,
    /// The primary first, then the secondary.
    people: Vec<Contact>,
    /// Since when.
    from: Timestamp,
    /// Until when; absent: without an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
}

/// One who is on call, and how to reach them.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Contact {
    /// The name.
    name: PersonName,
    /// The name for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    full_name: String,
    /// Their mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    mail: Option<String>,
    /// Their number.
    #[serde(skip_serializing_if = "Option::is_none")]
    phone: Option<String>,
    /// Whose place it is, where they stand in for somebody who is disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    instead_of: Option<PersonName>,
}

impl OnCallView {
    pub(super) fn into_names(self) -> Vec<PersonName> {
        self.people.into_iter().map(|person| person.name).collect()
    }

    fn new(directory: &Directory, department: &Department, duty: &Duty<'_>) -> Self {
        let mut people: Vec<Contact> = Vec::new();
        for name in duty.people {
            let stand_in = directory.stands_for(name).last().copied().filter(|person| person.enabled);
            let Some(person) = stand_in else { continue };
            // Who stands in for a colleague of the same turn is called once.
            if people.iter().any(|known| known.name == person.name) {
                continue;
            }
            people.push(Contact {
                name: person.name.clone(),
                full_name: person.full_name.clone(),
                mail: person.mail.clone(),
                phone: person.phone.clone(),
                instead_of: (person.name != *name).then(|| name.clone()),
            });
        }
        Self {
            department: department.name.clone(),
            for_system: department.for_system,
            people,
            from: duty.from,
            until: Some(duty.until).filter(|until| *until != Timestamp::MAX),
        }
    }
}

/// Who is on call there at this time.
pub(super) fn of_department(
    directory: &Directory,
    department: &Department,
    at: Timestamp,
) -> Option<OnCallView> {
    let on_call = rota_of(department)?;
    Some(OnCallView::new(directory, department, &on_call.at(at)?))
}

/// The catalogue accepts no rota that cannot be followed.
fn rota_of(department: &Department) -> Option<OnCall> {
    OnCall::try_from(department.on_call.as_ref()?).ok()
}

pub(super) async fn now_or_then(shown: Shown) -> Answered<List<OnCallView>> {
    let Shown { directory, params } = shown;
    let at = params.get(AT)?.unwrap_or_else(now);
    let of = match params.get(DEPARTMENT)? {
        Some(name) => vec![known(&directory, &name)?],
        None => directory.departments().values().map(|department| &**department).collect(),
    };
    let on_call = of.into_iter().filter_map(|department| of_department(&directory, department, at));
    Ok(Json(List { items: on_call.collect(), next: None }))
}

pub(super) async fn duties(shown: Shown, Path(name): Path<String>) -> Answered<List<OnCallView>> {
    let Shown { directory, params } = shown;
    let department = known(&directory, &name)?;
    let from = params.get(AT)?.unwrap_or_else(now);
    let days = params.get(DAYS)?.unwrap_or(DEFAULT_DAYS);
    let until = from.checked_add(Duration::from_secs(days * 86_400)).unwrap_or(Timestamp::MAX);
    let on_call = rota_of(department);
    let duties = on_call.iter().flat_map(|on_call| on_call.between(from, until));
    let items = duties.take(MAX_DUTIES).map(|duty| OnCallView::new(&directory, department, &duty));
    Ok(Json(List { items: items.collect(), next: None }))
}
