//! What of objects decides who may do what with them, as it is known now.

use std::sync::Arc;

use tidemill_model::JobId;
use tidemill_store::ReadTables;
use tidemill_store::rows::BatchRow;

use crate::Problem;
use crate::app::App;
use crate::object::{Object, OfJob};
use crate::rights::Caller;

impl App {
    /// Something of a job, in a group, as this caller's rights need it known: where its group decides them, no job is looked up.
    ///
    /// # Errors
    /// There is no such job; the tables.
    pub(crate) async fn object_of(
        &self,
        caller: &Caller,
        object: Object,
        job: JobId,
    ) -> Result<Object, Problem> {
        if caller.is_bound_to_groups_alone() {
            return Ok(object);
        }
        let missing = object.missing();
        if let Some(of) = self.known_of_job(job).await? {
            return Ok(object.with(of));
        }
        // It was submitted to run once, or is deleted.
        let row = self.read(move |tables| tables.job(job.0)).await?;
        row.map(|row| object.of(&row)).ok_or(missing)
    }

    /// The same object as it is now: its job may have another owner.
    pub(crate) async fn again(&self, object: &mut Object) -> Result<(), Problem> {
        if let Some(id) = object.job_id()
            && let Some(of) = self.known_of_job(id).await?
        {
            *object = object.clone().with(of);
        }
        Ok(())
    }

    /// A job of the catalogue, as its journal has it; nothing: it is none, or deleted.
    pub(crate) async fn object_of_known_job(&self, id: JobId) -> Result<Option<Object>, Problem> {
        Ok(self.known_of_job(id).await?.map(Object::of_known))
    }

    async fn known_of_job(&self, id: JobId) -> Result<Option<OfJob>, Problem> {
        let Some(known) = self.known_job(id).await else { return Ok(None) };
        let Some(group) = self.group_numbered(known.group).await? else { return Ok(None) };
        Ok(Some(OfJob::known(id, group.name.as_str(), known)))
    }

    /// A batch.
    pub(crate) async fn object_of_batch(&self, caller: &Caller, row: &BatchRow) -> Result<Object, Problem> {
        let object = Object::new("batch", row.id, Arc::clone(&row.group_name));
        self.object_of(caller, object, JobId(row.job_id)).await
    }
}
