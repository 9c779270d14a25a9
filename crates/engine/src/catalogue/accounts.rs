//! DSP-2: who may have a job run as which account: the application key that gives the job its form.
//!
//! The journal says why it may: `KeyDefined` lists the key's accounts, `JobDefined` names the key that had the job's
//! account when it was decided (`run_as_by`), and a group's shard runs nothing as an account without it. What a caller
//! writes as owner gives no right.

use tidemill_model::{Account, Actor, FieldError, JobDefinition, Rejection};

use super::Catalogue;

/// By whose key definitions get their accounts.
#[derive(Clone, Copy)]
pub(super) enum Vouch<'a> {
    /// This one's, as it is now.
    Key(&'a Actor),
    /// This one's, which was found to have them when the request was committed.
    Found(&'a Actor),
    /// Nobody's: what is new gets none.
    Nobody,
}

impl<'a> Vouch<'a> {
    pub(super) fn of(actor: Option<&'a Actor>) -> Self {
        actor.map_or(Vouch::Nobody, Vouch::Key)
    }
}

impl Catalogue {
    /// Notes by whose key a definition may run as its account; refuses it where the key does not have that. What stays as
    /// it is needs no right: whoever gave it its form had it.
    pub(super) fn vouch(&self, definition: &mut JobDefinition, vouch: Vouch<'_>) -> Result<(), FieldError> {
        let known = self.jobs.get(&definition.id).map(|job| job.definition.as_ref());
        let before = known.and_then(vouched);
        let account = definition.spec.run_as.clone();
        let same = before.filter(|(of, _)| Some(*of) == account.as_ref());
        definition.run_as_by = same.map(|(_, by)| by.clone());
        let is_as_it_was = known
            .is_some_and(|known| *known == JobDefinition { version: known.version, ..definition.clone() });
        if is_as_it_was && (account.is_none() || same.is_some()) {
            return Ok(());
        }
        let by = match vouch {
            Vouch::Key(by) => {
                let accounts = account.iter().chain(before.map(|(account, _)| account));
                accounts.into_iter().try_for_each(|account| self.check_key_for(account, by))?;
                by
            }
            Vouch::Found(by) => by,
            Vouch::Nobody => {
                // Nobody stands for the new form.
                definition.run_as_by = None;
                return Ok(());
            }
        };
        definition.run_as_by = account.map(|_| by.app.clone());
        Ok(())
    }

    /// Whether this one may change a job beside its definition.
    pub(super) fn check_account(&self, definition: &JobDefinition, by: &Actor) -> Result<(), Rejection> {
        let Some((account, _)) = vouched(definition) else { return Ok(()) };
        self.check_key_for(account, by).map_err(Rejection::from)
    }

    fn check_key_for(&self, account: &Account, by: &Actor) -> Result<(), FieldError> {
        if self.keys.get(&*by.app).is_some_and(|key| key.may_run_as(account)) {
            return Ok(());
        }
        let rule = format!(
            "is none of the accounts that key {} may have jobs run as; a super_administrator can define the key with it in \
             run_as",
            by.app
        );
        Err(FieldError::new("run_as", account, rule))
    }
}

/// The account that a job runs as, and by whose key.
fn vouched(definition: &JobDefinition) -> Option<(&Account, &std::sync::Arc<str>)> {
    definition.spec.run_as.as_ref().zip(definition.run_as_by.as_ref())
}
