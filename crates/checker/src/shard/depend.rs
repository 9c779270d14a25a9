//! Who gave a job which parents, and whether they saw them, or could have jobs depend on them (API-5).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tidemill_model::{
    Actor, ApplyEvent, CatalogueEvent, Command, CredentialEvent, CredentialId, CredentialKind, DeletionEvent,
    Department, DepartmentName, DirectoryEvent, Event, Grant, GrantOn, GroupName, JobDefinition, JobEvent,
    JobId, Permission, Person, PersonName, Role, ShardCommand,
};

use crate::findings::Asked;
use crate::{At, Invariant};

const RULE: Invariant = Invariant::ParentsAreSeenOrDependedOn;

/// Who may what, and which parents jobs have.
#[derive(Debug, Default)]
pub(super) struct Dependence {
    keys: BTreeMap<String, Key>,
    people: BTreeMap<PersonName, Arc<Person>>,
    departments: BTreeMap<DepartmentName, Arc<Department>>,
    tokens: BTreeMap<CredentialId, Token>,
    jobs: HashMap<JobId, Known>,
    /// Who committed what is carried out, and where.
    committed: Option<(Option<Who>, u64)>,
    /// Who asked for what waits for the shards' answers, by question.
    asked: BTreeMap<u64, Option<Actor>>,
    /// The question that the record at hand answers.
    answered: Option<(u64, u64)>,
}

#[derive(Clone, Debug)]
struct Key {
    role: Role,
    groups: BTreeSet<GroupName>,
    department: Option<DepartmentName>,
    may: BTreeSet<Permission>,
}

#[derive(Debug)]
struct Token {
    person: Option<PersonName>,
    may: BTreeSet<Permission>,
}

#[derive(Debug)]
struct Known {
    definition: Arc<JobDefinition>,
    is_named: bool,
    /// The record that defined it first.
    since: u64,
}

/// Who writes definitions, as far as it decides which jobs they see.
#[derive(Clone, Debug)]
enum Who {
    /// They see all.
    Everything,
    /// They see none.
    Nothing,
    Bound {
        groups: BTreeSet<GroupName>,
        department: Option<DepartmentName>,
        person: Option<PersonName>,
        depends: bool,
        /// Of the key, whatever it is bound to.
        depends_on_all: bool,
    },
}

impl Dependence {
    pub(super) fn event(&mut self, at: &At<'_>, event: &Event) {
        match event {
            Event::Catalogue(event) => self.of_key(event),
            Event::Directory(event) => self.of_directory(event),
            Event::Credential(event) => self.of_token(event),
            Event::Job(event) => self.of_job(at, event),
            Event::Apply(ApplyEvent::Committed { by, .. }) => {
                self.committed = Some((by.as_ref().map(|by| self.who(by)), at.offset));
            }
            Event::Apply(ApplyEvent::Finished { .. }) => self.committed = None,
            Event::Deletion(DeletionEvent::UnfinishedQueried { question, by, .. }) => {
                self.asked.insert(*question, by.clone());
            }
            Event::Deletion(DeletionEvent::UnfinishedReceived { question, .. }) => {
                self.answered = Some((*question, at.offset));
            }
            Event::Deletion(DeletionEvent::Decided { question, .. }) => {
                self.asked.remove(question);
            }
            _ => {}
        }
    }

    fn of_key(&mut self, event: &CatalogueEvent) {
        match event {
            CatalogueEvent::KeyDefined { app, role, groups, department, may, .. } => {
                let groups = groups.iter().cloned().collect();
                let key = Key { role: *role, groups, department: department.clone(), may: may.clone() };
                self.keys.insert(app.clone(), key);
            }
            CatalogueEvent::KeyRevoked { app } => {
                self.keys.remove(app);
            }
            _ => {}
        }
    }

    fn of_directory(&mut self, event: &DirectoryEvent) {
        match event {
            DirectoryEvent::DepartmentDefined { department } => {
                self.departments.insert(department.name.clone(), Arc::clone(department));
            }
            DirectoryEvent::DepartmentDeleted { name } => {
                self.departments.remove(name);
            }
            DirectoryEvent::PersonDefined { person } => {
                self.people.insert(person.name.clone(), Arc::clone(person));
            }
            DirectoryEvent::PersonDeleted { name } => {
                self.people.remove(name);
            }
        }
    }

    fn of_token(&mut self, event: &CredentialEvent) {
        match event {
            CredentialEvent::Issued { credential } if credential.kind == CredentialKind::Token => {
                let (person, may) = (credential.person.clone(), credential.may.clone());
                self.tokens.insert(credential.id.clone(), Token { person, may });
            }
            CredentialEvent::Ended { credential, .. } => {
                self.tokens.remove(credential);
            }
            CredentialEvent::AllEnded { person, .. } => {
                self.tokens.retain(|_, token| token.person.as_ref() != Some(person));
            }
            _ => {}
        }
    }

    fn of_job(&mut self, at: &At<'_>, event: &JobEvent) {
        match event {
            JobEvent::Defined { definition, unnamed, .. } => {
                self.check(at, definition);
                self.know(at, definition, !unnamed);
            }
            JobEvent::Moved { definition, unnamed, .. } => self.know(at, definition, !unnamed),
            JobEvent::Deleted { job } => {
                self.jobs.remove(job);
            }
            _ => {}
        }
    }

    fn know(&mut self, at: &At<'_>, definition: &Arc<JobDefinition>, is_named: bool) {
        let since = self.jobs.get(&definition.id).map_or(at.offset, |known| known.since);
        self.jobs.insert(definition.id, Known { definition: Arc::clone(definition), is_named, since });
    }

    /// `parents_are_seen_or_depended_on`
    fn check(&self, at: &At<'_>, definition: &JobDefinition) {
        // Where the commands are not given nobody knows who asked.
        let Some(who) = self.writer(at) else { return };
        let before = self.jobs.get(&definition.id).map(|known| &known.definition);
        let had: BTreeSet<JobId> = before.into_iter().flat_map(|before| before.other_parents()).collect();
        let begun = self.committed.as_ref().map_or(at.offset, |(_, begun)| *begun);
        for parent in definition.other_parents().filter(|parent| !had.contains(parent)) {
            // What is new with the same request is its writer's.
            let is_older = |known: &&Known| known.since < begun;
            let Some(known) = self.jobs.get(&parent).filter(is_older) else { continue };
            if !self.sees(&who, known, Permission::View) && !self.sees(&who, known, Permission::Depend) {
                let why = format!(
                    "job {} gets the parent {parent}, which its writer neither sees nor may depend on: {who:?}",
                    definition.id
                );
                at.breaks(RULE, why);
            }
        }
    }

    /// Who wrote the definition at hand, where that is known.
    fn writer(&self, at: &At<'_>) -> Option<Who> {
        if let Some((by, _)) = &self.committed {
            return by.clone();
        }
        let Asked::Command(Some(record)) = at.asked else { return None };
        if !matches!(record.command, Command::Shard(ShardCommand::Deliver { .. })) {
            return Some(self.who(&record.actor));
        }
        let (question, _) = self.answered.filter(|(_, offset)| *offset == at.offset)?;
        self.asked.get(&question)?.as_ref().map(|by| self.who(by))
    }

    fn who(&self, by: &Actor) -> Who {
        if self.keys.is_empty() {
            return Who::Everything;
        }
        let person = by.user.as_deref().and_then(|name| PersonName::try_from(name).ok());
        let person = person.and_then(|name| self.people.get(&name));
        let key = self.keys.get(&*by.app);
        let depends = match key {
            Some(key) => key.role.has(Permission::Depend) || key.may.contains(&Permission::Depend),
            None => match person.and_then(|person| self.signed_in(by, person)) {
                Some(depends) => depends,
                None => return Who::Nothing,
            },
        };
        let person = person.filter(|person| person.role < Role::Administrator).map(|of| of.name.clone());
        let groups = key.map(|key| key.groups.clone()).unwrap_or_default();
        let department = key.and_then(|key| key.department.clone());
        if groups.is_empty() && department.is_none() && person.is_none() {
            return Who::Everything;
        }
        let depends_on_all = key.is_some_and(|key| key.may.contains(&Permission::Depend));
        Who::Bound { groups, department, person, depends, depends_on_all }
    }

    /// Whether somebody who calls themselves may have jobs depend on what is granted; nothing: they do not.
    fn signed_in(&self, by: &Actor, person: &Person) -> Option<bool> {
        if !person.enabled {
            return None;
        }
        if *by.app == *"session" {
            return Some(true);
        }
        let id = CredentialId::try_from(by.app.strip_prefix("token:")?).ok()?;
        let token = self.tokens.get(&id).filter(|token| token.person.as_ref() == Some(&person.name))?;
        Some(token.may.is_empty() || token.may.contains(&Permission::Depend))
    }

    /// Whether who writes may this with the job.
    fn sees(&self, who: &Who, job: &Known, needed: Permission) -> bool {
        let (groups, department, person, depends, depends_on_all) = match who {
            Who::Everything => return true,
            Who::Nothing => return false,
            Who::Bound { groups, department, person, depends, depends_on_all } => {
                (groups, department, person, *depends, *depends_on_all)
            }
        };
        let spec = &job.definition.spec;
        let is_dependence = needed == Permission::Depend;
        let of_department = |of: &DepartmentName| {
            let granted = || self.departments.get(of).is_some_and(|of| grants(&of.grants, job, needed));
            self.is_of(&spec.owner, of) || is_dependence && granted()
        };
        let is_within = (groups.is_empty() || groups.contains(&spec.group))
            && department.as_ref().is_none_or(of_department);
        (!is_dependence || depends)
            && (is_within || is_dependence && depends_on_all)
            && person.as_ref().and_then(|name| self.people.get(name)).is_none_or(|person| {
                let departments = &person.departments;
                let is_own = *spec.owner == *person.name.as_str()
                    || departments.iter().any(|of| self.is_of(&spec.owner, of));
                let of_departments = departments.iter().filter_map(|of| self.departments.get(of));
                person.role.has(needed) && is_own
                    || grants(&person.grants, job, needed)
                    || of_departments.into_iter().any(|of| grants(&of.grants, job, needed))
            })
    }

    fn is_of(&self, owner: &str, department: &DepartmentName) -> bool {
        let person = PersonName::try_from(owner).ok().and_then(|name| self.people.get(&name));
        *owner == *department.as_str() || person.is_some_and(|of| of.departments.contains(department))
    }
}

fn grants(grants: &[Grant], job: &Known, needed: Permission) -> bool {
    let spec = &job.definition.spec;
    let is_on = |on: &GrantOn| match on {
        GrantOn::Job(name) => job.is_named && *name == job.definition.full_name(),
        GrantOn::Group(group) => *group == spec.group,
        GrantOn::BusinessType(of) => of == spec.class(),
    };
    grants.iter().any(|grant| grant.gives(needed) && is_on(&grant.on))
}
