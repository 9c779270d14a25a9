//! Which jobs a definition may name as parents (API-5): those that whoever writes it sees, or may depend on.
//!
//! Everything else is told as what is not there is told, so that nobody finds out which jobs others have. A parent that the job
//! has stays, whoever edits it and whatever became of the grant.
//!
//! The journal says why a parent could be named: `job.defined` is the first record that has it, and what its writer reached
//! then is in `key.defined`, `person.defined` and `department.defined` before that.

use std::cell::RefCell;
use std::collections::BTreeSet;

use tidemill_model::{FieldError, JobDefinition, JobId, Permission};

use super::Catalogue;
use super::accept::{full_parent_name, value_read};
use super::keys::Vouch;
use super::reach::Reach;

/// What whoever writes a definition may name as its parents.
pub(super) struct Parents<'a> {
    catalogue: &'a Catalogue,
    reach: Reach<'a>,
    /// Those that the job has, as far as who writes it sees the job.
    kept: BTreeSet<JobId>,
}

impl Parents<'_> {
    /// Whether this job may be one. One that is new with the same request is in nobody's way.
    pub(super) fn may_be(&self, parent: JobId) -> bool {
        let is_new = || !self.catalogue.jobs.contains_key(&parent);
        self.reach.is_all()
            || self.kept.contains(&parent)
            || is_new()
            || self.catalogue.may_depend_on(parent, self.reach)
    }
}

impl Catalogue {
    /// Whether a job may name this one as parent that did not before: it is seen, or that is granted.
    pub(super) fn may_depend_on(&self, parent: JobId, reach: Reach<'_>) -> bool {
        planted!(ForeignParentTaken => return true);
        self.is_reached(parent, reach) || self.may(Permission::Depend, parent, reach)
    }

    /// What may be named as parents of this job.
    pub(super) fn parents_for(&self, job: JobId, vouch: Vouch<'_>) -> Parents<'_> {
        let reach = match vouch {
            Vouch::Key(by) => self.reach_of(Some(by)),
            // It was looked at when the request was committed, or is nobody's.
            Vouch::Found(_) | Vouch::Nobody => Reach::All,
        };
        let seen = self.jobs.get(&job).filter(|_| !reach.is_all() && self.is_reached(job, reach));
        let kept = seen.into_iter().flat_map(|job| job.definition.other_parents()).collect();
        Parents { catalogue: self, reach, kept }
    }

    /// Who may only depend on a job does not get what it says of itself: its values are for those who see it, and for
    /// definitions that read them before.
    pub(super) fn check_values_seen(
        &self,
        definition: &JobDefinition,
        parents: &Parents<'_>,
    ) -> Result<(), FieldError> {
        if parents.reach.is_all() {
            return Ok(());
        }
        let is_hidden =
            |parent: &JobId| self.jobs.contains_key(parent) && !self.is_reached(*parent, parents.reach);
        let name = |parent: JobId| self.jobs.get(&parent).map(|job| job.definition.full_name());
        let mut hidden: BTreeSet<String> =
            definition.other_parents().filter(is_hidden).filter_map(name).collect();
        if hidden.is_empty() {
            return Ok(());
        }
        if let Some(before) = self.jobs.get(&definition.id) {
            for read in values_read(&before.definition) {
                hidden.remove(&read);
            }
        }
        match value_read(definition, |parent| hidden.contains(&full_parent_name(definition, parent))) {
            Some((field, value)) => {
                let rule = "is a value of a job that the caller may depend on and not see; ask who owns it for `view`, or leave \
                            it out";
                Err(FieldError::new(field, value, rule))
            }
            None => Ok(()),
        }
    }
}

/// Of which jobs a definition reads values.
fn values_read(definition: &JobDefinition) -> BTreeSet<String> {
    let read = RefCell::new(BTreeSet::new());
    value_read(definition, |parent| {
        read.borrow_mut().insert(full_parent_name(definition, parent));
        false
    });
    read.into_inner()
}
