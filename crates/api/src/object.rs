//! What a right is about (API-5): a job, something of a job, or something of a group.

use std::fmt::Display;
use std::sync::Arc;

use tidemill_directory::Job;
use tidemill_model::JobId;
use tidemill_store::rows::JobRow;

use crate::Problem;

/// Something that a call is about.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    what: &'static str,
    id: Box<str>,
    /// The group that it is of.
    group: Arc<str>,
    /// Of which job it is, or which one; nothing: it is of its group alone, or that is all that matters.
    job: Option<OfJob>,
}

/// What of a job decides who may do what with it.
#[derive(Debug, Clone)]
pub(crate) struct OfJob {
    id: JobId,
    /// The group that it is in now, and its name; empty: it is known by its id alone.
    path: (Arc<str>, Arc<str>),
    /// Who owns it; empty: nobody.
    pub(crate) owner: Arc<str>,
    /// Its business type; empty: none.
    pub(crate) class: Arc<str>,
}

impl OfJob {
    /// A job of the catalogue, in a group of this name.
    pub(crate) fn known(id: JobId, group: &str, job: Job) -> Self {
        let Job { name, owner, class, .. } = job;
        Self { id, path: (group.into(), name), owner, class }
    }

    /// Whether these are the names of its group and its own.
    pub(crate) fn is_called(&self, path: &str) -> bool {
        !self.path.1.is_empty() && path.split_once('/') == Some((&*self.path.0, &*self.path.1))
    }
}

impl Object {
    /// Something of a group, as what it is called and by its id.
    pub(crate) fn new(what: &'static str, id: impl Display, group: impl Into<Arc<str>>) -> Self {
        Self { what, id: id.to_string().into(), group: group.into(), job: None }
    }

    /// A group itself.
    pub(crate) fn group_called(name: &str) -> Self {
        Self::new("group", name, name)
    }

    /// A job that is to be, which somebody is to own.
    pub(crate) fn of_owner(owner: &str, group: &str) -> Self {
        let path = (group.into(), Arc::default());
        let of = OfJob { id: JobId(0), path, owner: owner.into(), class: Arc::default() };
        Self { job: Some(of), ..Self::new("job", "", group) }
    }

    /// A job.
    pub(crate) fn of_row(row: &JobRow) -> Self {
        Self::new("job", row.id, Arc::clone(&row.group_name)).of(row)
    }

    /// A job of the catalogue.
    pub(crate) fn of_known(of: OfJob) -> Self {
        Self::new("job", of.id, Arc::clone(&of.path.0)).with(of)
    }

    /// Of this job.
    pub(crate) fn of(self, row: &JobRow) -> Self {
        let is_named = !row.unnamed && !row.submitted;
        let name = if is_named { Arc::clone(&row.name) } else { Arc::default() };
        let path = (Arc::clone(&row.group_name), name);
        let class = row.business_name.clone().unwrap_or_default();
        let (id, owner) = (JobId(row.id), Arc::clone(&row.owner));
        Self { job: Some(OfJob { id, path, owner, class }), ..self }
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    pub(crate) fn job(&self) -> Option<&OfJob> {
        self.job.as_ref()
    }

    /// The id of that job.
    pub(crate) fn job_id(&self) -> Option<JobId> {
        self.job.as_ref().map(|of| of.id)
    }

    /// Of this job.
    pub(crate) fn with(self, of: OfJob) -> Self {
        Self { job: Some(of), ..self }
    }

    /// For people.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.what, self.id)
    }

    /// What is said where it is not there, and to whom may not see it.
    pub(crate) fn missing(&self) -> Problem {
        Problem::unknown(self.what, &self.id)
    }
}
