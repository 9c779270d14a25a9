//! DSP-2: whether a job may run as the account that it names.

use tidemill_model::{Account, BatchId, BatchResult, Event, JobDefinition};

use crate::group::GroupShard;

impl GroupShard {
    /// Why a batch of this job is not run, for people; nothing: its account is allowed, or is the worker's own.
    pub(crate) fn forbidden_account(&self, definition: &JobDefinition) -> Option<String> {
        let (account, by) = account_of(definition)?;
        if by.is_none() {
            return Some(format!(
                "the job was defined before accounts were bound to keys; apply it again with a key that may have jobs run \
                 as {account}"
            ));
        }
        let allowed = self.group.as_ref().and_then(|group| group.settings.accounts.as_deref());
        let is_allowed = allowed.is_some_and(|allowed| allowed.allow(account)) || planted!(AccountNotAllowed);
        (!is_allowed)
            .then(|| format!("jobs of group {} may not run as account {account}", definition.spec.group))
    }

    /// Instead of its assignment.
    pub(crate) fn refuse_account(&self, id: BatchId, definition: &JobDefinition) -> Option<Event> {
        let message = self.forbidden_account(definition)?;
        Some(self.batches.batch_end(id, BatchResult::Failed, None, message))
    }
}

fn account_of(definition: &JobDefinition) -> Option<(&Account, Option<&str>)> {
    Some((definition.spec.run_as.as_ref()?, definition.run_as_by.as_deref()))
}
