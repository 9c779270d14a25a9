//! What a refusal says about jobs of others: it names those in groups that the key of the request reaches, and counts the
//! rest.

use std::collections::BTreeSet;

use tidemill_model::{Actor, GroupName, JobDefinition, JobId};

use super::Catalogue;

/// Jobs that a refusal names.
const NAMED_JOBS: usize = 10;

/// The groups that a key reaches; `None`: all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach<'a>(Option<&'a BTreeSet<GroupName>>);

static NO_GROUPS: BTreeSet<GroupName> = BTreeSet::new();

impl Reach<'_> {
    pub(super) fn is_everything(self) -> bool {
        self.0.is_none()
    }

    fn covers(self, group: &GroupName) -> bool {
        self.0.is_none_or(|groups| groups.contains(group))
    }
}

impl Catalogue {
    /// What the key of this actor reaches, as it is now; a key that is not known reaches nothing. Before the first key
    /// nobody is kept from anything.
    pub(super) fn reach_of(&self, actor: Option<&Actor>) -> Reach<'_> {
        if self.keys.is_empty() {
            return Reach(None);
        }
        let key = actor.and_then(|actor| self.keys.get(&*actor.app));
        Reach(key.map_or(Some(&NO_GROUPS), |key| Some(&key.groups).filter(|groups| !groups.is_empty())))
    }

    pub(super) fn is_reached(&self, job: JobId, reach: Reach<'_>) -> bool {
        self.jobs.get(&job).is_some_and(|job| reach.covers(&job.definition.spec.group))
    }

    /// Jobs by name, as far as a key may see them, and how many others there are.
    pub(super) fn named_for(&self, jobs: &[JobId], reach: Reach<'_>) -> String {
        let (seen, hidden): (Vec<JobId>, Vec<JobId>) =
            jobs.iter().copied().partition(|job| self.is_reached(*job, reach));
        let definitions = |jobs: &[JobId]| -> Vec<&JobDefinition> {
            jobs.iter().filter_map(|job| self.jobs.get(job)).map(|job| job.definition.as_ref()).collect()
        };
        let mut parts: Vec<String> = definitions(&seen).into_iter().map(JobDefinition::full_name).collect();
        let more = parts.len().saturating_sub(NAMED_JOBS);
        parts.truncate(NAMED_JOBS);
        if more > 0 {
            parts.push(format!("{more} more"));
        }
        if !hidden.is_empty() {
            let groups: BTreeSet<&GroupName> =
                definitions(&hidden).into_iter().map(|definition| &definition.spec.group).collect();
            parts.push(format!("{} of {}", count(hidden.len(), "job"), count(groups.len(), "other group")));
        }
        match parts.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => parts.concat(),
        }
    }
}

fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
