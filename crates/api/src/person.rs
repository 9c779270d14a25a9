//! What a person may (API-5): by the role where they or their departments own a job, or everywhere; and by what is granted.

use tidemill_directory::Directory;
use tidemill_model::{DepartmentName, Grant, GrantOn, Permission, Person, Role};
use tidemill_store::Within;

use crate::object::Object;

/// A person, among whom they are.
#[derive(Clone, Copy)]
pub(crate) struct Acting<'a> {
    pub(crate) person: &'a Person,
    pub(crate) directory: &'a Directory,
}

/// Who owns what is of a department: it, or somebody of it.
pub(crate) fn owners(directory: &Directory, department: &DepartmentName) -> Vec<String> {
    let members = directory.members(department).map(|member| member.name.to_string());
    members.chain([department.to_string()]).collect()
}

/// Whether everybody of the department may have jobs depend on this one.
pub(crate) fn grants_dependence(directory: &Directory, department: &DepartmentName, job: &Object) -> bool {
    let mut grants = directory.departments().get(department).into_iter().flat_map(|of| &of.grants);
    grants.any(|grant| grant.gives(Permission::Depend) && fits(&grant.on, job))
}

/// Whether what a grant is on is this, or has it.
fn fits(on: &GrantOn, object: &Object) -> bool {
    match on {
        GrantOn::Group(group) => object.group() == group.as_str(),
        GrantOn::Job(name) => object.job().is_some_and(|job| job.is_called(name)),
        GrantOn::BusinessType(of) => object.job().is_some_and(|job| *job.class == **of),
    }
}

impl<'a> Acting<'a> {
    /// What is granted to the person, or to everybody of a department of theirs.
    pub(crate) fn grants(self) -> impl Iterator<Item = &'a Grant> {
        let departments = self.person.departments.iter();
        let of_departments = departments.filter_map(|name| self.directory.departments().get(name));
        self.person.grants.iter().chain(of_departments.flat_map(|of| &of.grants))
    }

    pub(crate) fn is_of_site(self) -> bool {
        self.person.role >= Role::Administrator
    }

    pub(crate) fn may(self, needed: Permission, object: &Object) -> bool {
        let has_by_role = self.person.role.has(needed);
        if self.is_of_site() && has_by_role {
            return true;
        }
        let owned_by = |owner: &str| {
            let departments = &self.person.departments;
            *owner == *self.person.name.as_str()
                || departments.iter().any(|of| self.directory.is_of(owner, of))
        };
        (has_by_role && object.job().is_some_and(|job| owned_by(&job.owner)))
            || self.grants().any(|grant| grant.gives(needed) && fits(&grant.on, object))
    }

    /// With what the person may do this, who is no administrator.
    pub(crate) fn within(self, needed: Permission) -> Within {
        let mut within = Within::default();
        if self.person.role.has(needed) {
            let of_departments = self.person.departments.iter().flat_map(|of| owners(self.directory, of));
            within.owners = of_departments.chain([self.person.name.to_string()]).collect();
            within.owners.sort_unstable();
            within.owners.dedup();
        }
        for grant in self.grants().filter(|grant| grant.gives(needed)) {
            match &grant.on {
                GrantOn::Group(group) => within.groups.push(group.to_string()),
                GrantOn::BusinessType(of) => within.classes.push(of.clone()),
                GrantOn::Job(name) => {
                    let names = name.split_once('/').map(|(group, job)| (group.to_owned(), job.to_owned()));
                    within.jobs.extend(names);
                }
            }
        }
        within
    }
}
