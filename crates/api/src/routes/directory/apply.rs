//! Changes of the directory: planned against what is known, and decided by the catalogue as a whole or in parts that can each
//! stand alone.

use axum::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidemill_directory::{Directory, Plan, PlannedEntry};
use tidemill_model::{
    Department, DirectoryChange, DirectoryCommand, DirectoryFile, Level, LiveAnswer, LiveQuery, Permission,
    Person, Rejection, Role, ShardId,
};

use super::places::{Place, alone, in_file, placed};
use super::{directory, reach};
use crate::Problem;
use crate::body::{LargeBody, parse, value_of};
use crate::params::Params;
use crate::position::JournalPosition;
use crate::propagation::Late;
use crate::rights::{Caller, Right};
use crate::routes::apply::DRY_RUN;
use crate::routes::level;
use crate::routes::requests::Writer;
use crate::view::{Settled, Written};
use crate::write::Write;

/// Errors of a body that are told.
const MAX_ERRORS: usize = 20;
/// Plans that are made anew, because somebody else has changed the directory meanwhile.
const MAX_PLANS: usize = 5;

/// The directory as it is to be.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DirectoryRequest {
    /// Departments, as they are to be.
    #[serde(default)]
    #[schemars(with = "Vec<Department>")]
    departments: Vec<Value>,
    /// People, as they are to be.
    #[serde(default)]
    #[schemars(with = "Vec<Person>")]
    people: Vec<Value>,
    /// Delete whoever is not named. Default false.
    #[serde(default)]
    prune: bool,
}

/// What has changed, or would.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DirectoryApplied {
    /// Departments, then people, by name; what stays as it is, is left out.
    changes: Vec<PlannedEntry>,
    /// Give this as `at_least` to reads that must show it; absent: nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<String>,
    /// How far it is.
    #[serde(flatten)]
    late: Late,
}

impl DirectoryRequest {
    /// What was written, with each error at its place.
    fn read(self) -> Result<(DirectoryFile, bool), Problem> {
        let mut errors = Vec::new();
        let mut file = DirectoryFile::default();
        for (index, value) in self.departments.into_iter().enumerate() {
            match Department::from_value(value) {
                Ok(department) => file.departments.push(department),
                Err(error) => errors.push(error.within(&format!("departments[{index}]"))),
            }
        }
        for (index, value) in self.people.into_iter().enumerate() {
            match Person::from_value(value) {
                Ok(person) => file.people.push(person),
                Err(error) => errors.push(error.within(&format!("people[{index}]"))),
            }
        }
        errors.truncate(MAX_ERRORS);
        if errors.is_empty() { Ok((file, self.prune)) } else { Err(Problem::fields(errors)) }
    }
}

/// Makes the directory what the request says.
pub(super) async fn apply(
    by: Writer,
    params: Params,
    LargeBody(body): LargeBody,
) -> Settled<DirectoryApplied> {
    let dry_run = params.flag(DRY_RUN)?;
    let request: DirectoryRequest = parse(value_of(&body)?)?;
    let (file, prune) = request.read()?;
    let changing = Changing::new(&by).await?;
    let plan = |directory: &Directory| {
        Plan::new(directory, &file, prune).map_err(|error| Problem::fields(vec![error]))
    };
    let out = changing.carry_out(plan, &in_file(&file), dry_run).await?;
    let late = changing.shown(&out).await;
    let position = out.position.map(|position| position.to_string());
    Ok((late.status(), Json(DirectoryApplied { changes: out.entries, position, late })))
}

/// One who may change the directory, and how.
pub(super) struct Changing<'w> {
    by: &'w Writer,
    right: Right,
}

impl<'w> Changing<'w> {
    pub(super) async fn new(by: &'w Writer) -> Result<Self, Problem> {
        let right = by.caller.for_site(Permission::Administer)?;
        level::allows(&by.app, Level::DIRECTORY).await?;
        Ok(Self { by, right })
    }

    /// Makes what is planned so; where the directory has changed since, the rest is planned anew.
    pub(super) async fn carry_out(
        &self,
        plan: impl Fn(&Directory) -> Result<Plan, Problem>,
        place: Place<'_>,
        dry_run: bool,
    ) -> Result<CarriedOut, Problem> {
        let write = self.by.write(self.right.clone())?;
        let mut out: Option<CarriedOut> = None;
        for _ in 0..MAX_PLANS {
            let known = directory(&self.by.app).await?;
            let plan = plan(&known)?;
            // What is told is what the request made of the directory that it found.
            let out = out.get_or_insert_with(|| CarriedOut { entries: plan.entries.clone(), position: None });
            if plan.changes.is_empty() {
                return Ok(CarriedOut { entries: std::mem::take(&mut out.entries), position: out.position });
            }
            may_change(&self.by.caller, &known, &plan.changes)?;
            let changes = plan.whole();
            let done = match self.check(known.revision(), changes.clone()).await? {
                Ok(()) if dry_run => Ok(()),
                Ok(()) => self.send(&write, known.revision(), plan, &mut out.position).await?,
                Err(rejection) => Err(rejection),
            };
            match done {
                Ok(()) => {
                    return Ok(CarriedOut {
                        entries: std::mem::take(&mut out.entries),
                        position: out.position,
                    });
                }
                // Somebody else was faster.
                Err(Rejection::RevisionChanged { .. }) => {}
                Err(rejection) => return Err(placed(rejection, &changes, place).into()),
            }
        }
        let detail = "the directory is being changed by others all the time; try again in a moment";
        Err(Problem::unavailable("directory_busy", detail).retry_after(1))
    }

    /// Whether the catalogue would accept all of it together.
    async fn check(
        &self,
        revision: u64,
        changes: Vec<DirectoryChange>,
    ) -> Result<Result<(), Rejection>, Problem> {
        let query = LiveQuery::CheckDirectory { revision, changes };
        match self.by.app.ask(ShardId::CATALOGUE, query).await? {
            LiveAnswer::Acceptable => Ok(Ok(())),
            LiveAnswer::Refused(rejection) => Ok(Err(rejection)),
            _ => Err(Problem::unavailable(
                "owner_unavailable",
                "the catalogue's owner has no answer; try again later",
            )),
        }
    }

    /// Part after part; a plan of several parts that is cut off leaves the first ones done, and the same apply goes on from there.
    async fn send(
        &self,
        write: &Write<'_>,
        revision: u64,
        plan: Plan,
        position: &mut Option<JournalPosition>,
    ) -> Result<Result<(), Rejection>, Problem> {
        let mut revision = revision;
        for changes in plan.parts().map_err(|error| Problem::fields(vec![error]))? {
            let made = changes.len() as u64;
            let command = DirectoryCommand::Change { revision, changes };
            // A repeat of the whole finds this part again, and never one of another plan.
            match write.part(revision).send_once(ShardId::CATALOGUE, command.into()).await? {
                Ok(done) => *position = Some(done.position),
                Err(rejection) => return Ok(Err(rejection)),
            }
            revision += made;
        }
        Ok(Ok(()))
    }

    /// One change, for a call that makes no other.
    pub(super) async fn one(
        &self,
        plan: impl Fn(&Directory) -> Result<DirectoryChange, Problem>,
    ) -> Settled<Written> {
        let out = self.carry_out(|directory| Ok(Plan::of_one(plan(directory)?)), &alone, false).await?;
        let late = self.shown(&out).await;
        let position =
            out.position.ok_or_else(|| Problem::internal("a change was sent and has no position"))?;
        Ok((late.status(), Json(Written { position: position.to_string(), late })))
    }

    /// Whether calls that look something up show it yet.
    async fn shown(&self, out: &CarriedOut) -> Late {
        let is_shown = match out.position {
            Some(position) => reach(&self.by.app, position).await.is_ok(),
            None => true,
        };
        Late { pending_groups: Vec::new(), read_lag: !is_shown }
    }
}

/// What was carried out.
pub(super) struct CarriedOut {
    entries: Vec<PlannedEntry>,
    /// Of its last record; absent: nothing was changed.
    position: Option<JournalPosition>,
}

/// Only a super administrator makes administrators, and changes or deletes one.
fn may_change(caller: &Caller, known: &Directory, changes: &[DirectoryChange]) -> Result<(), Problem> {
    let is_high = |role: Role| role >= Role::Administrator;
    let was_high = |name| known.people().get(name).is_some_and(|person| is_high(person.role));
    let needs_super = changes.iter().any(|change| match change {
        DirectoryChange::Person(person) => is_high(person.role) || was_high(&person.name),
        DirectoryChange::DeletePerson { name } => was_high(name),
        DirectoryChange::Department(_) | DirectoryChange::DeleteDepartment { .. } => false,
    });
    if needs_super { caller.for_site(Permission::Manage).map(|_| ()) } else { Ok(()) }
}
