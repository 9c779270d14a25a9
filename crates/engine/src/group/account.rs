//! DSP-2: whether a job's owner may use the account that the job runs as.

use tidemill_model::{AllowedAccounts, BatchId, BatchResult, Event, JobDefinition};

use super::GroupShard;

impl GroupShard {
    /// Why a batch of this job is not run, for people; nothing: its account is allowed, or is the worker's own.
    pub(crate) fn forbidden_account(&self, definition: &JobDefinition) -> Option<String> {
        let account = definition.execution.as_ref()?.run_as.as_ref()?;
        let allowed = self.group.as_ref().and_then(|group| group.settings.accounts.as_deref());
        let may = |allowed: &AllowedAccounts| allowed.allow(&definition.owner, account);
        let owner = if definition.owner.is_empty() { "a job without an owner" } else { &definition.owner };
        (!allowed.is_some_and(may)).then(|| format!("{owner} may not use account {account}"))
    }

    /// Instead of its assignment.
    pub(crate) fn refuse_account(&self, id: BatchId, definition: &JobDefinition) -> Option<Event> {
        let message = self.forbidden_account(definition)?;
        Some(self.batch_end(id, BatchResult::Failed, None, message))
    }
}
