//! Jobs that move between groups (JOB-9): what the catalogue says, and what the shards tell it.

use std::collections::HashMap;

use tidemill_model::{
    Event, GroupName, JobEvent, JobId, Json as _, MovedJob, Rejection, ShardId, TransferEvent,
};

use crate::Invariant;
use crate::answers::{Answers, Kind};
use crate::findings::At;
use crate::requests::fingerprint;

pub(crate) const KIND: Kind = Kind { rule: Invariant::MovedJobsKeepTheirRuns, what: "answer", on: "a job" };

#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// Who is being moved: from where, to which group.
    moving: HashMap<JobId, (ShardId, GroupName)>,
    pub(crate) answers: Answers,
}

impl Moves {
    /// `moved_jobs_keep_their_runs`, as the catalogue says. `jobs`: where jobs are, `groups`: where groups are.
    pub(crate) fn decided(
        &mut self,
        at: &At<'_>,
        event: &Event,
        (jobs, groups): (&HashMap<JobId, ShardId>, &HashMap<GroupName, ShardId>),
    ) {
        let rule = KIND.rule;
        match event {
            Event::Job(JobEvent::MoveRequested { job, from, to, .. }) => {
                if jobs.get(job) != Some(from) {
                    at.breaks(rule, format!("shard {from} is asked for job {job}, which it does not run"));
                }
                if !groups.contains_key(to) {
                    at.breaks(rule, format!("job {job} is to go to group {to}, which is not there"));
                }
                if self.moving.insert(*job, (*from, to.clone())).is_some() {
                    at.breaks(rule, format!("job {job} is being moved already"));
                }
            }
            Event::Job(JobEvent::Moved { definition, from, moved, .. }) => {
                let id = definition.id;
                self.answers.heard(at, KIND, *from, released(id, moved));
                match self.moving.remove(&id) {
                    Some((asked, to)) if (asked, &to) == (*from, &definition.spec.group) => {}
                    other => {
                        let to = &definition.spec.group;
                        let why = format!("job {id} is moved from {from} to {to}, and asked was {other:?}");
                        at.breaks(rule, why);
                    }
                }
            }
            Event::Job(JobEvent::MoveRejected { job, reason, .. }) => match self.moving.remove(job) {
                Some((from, _)) => self.answers.heard(at, KIND, from, kept(*job, reason)),
                None => at.breaks(rule, format!("job {job} stays, and was not being moved")),
            },
            Event::Job(JobEvent::Defined { definition, .. }) if self.moving.contains_key(&definition.id) => {
                at.breaks(rule, format!("job {} changes while it is being moved", definition.id));
            }
            Event::Job(JobEvent::Defined { definition, .. }) => {
                if let Some(parent) =
                    definition.other_parents().find(|parent| self.moving.contains_key(parent))
                {
                    let why = format!(
                        "job {} gets job {parent} as a parent while that is being moved",
                        definition.id
                    );
                    at.breaks(rule, why);
                }
            }
            Event::Job(
                JobEvent::Deleted { job } | JobEvent::Enabled { job } | JobEvent::Disabled { job },
            ) if self.moving.contains_key(job) => {
                at.breaks(rule, format!("job {job} changes while it is being moved"));
            }
            _ => {}
        }
    }

    /// What a group's shard answers.
    pub(crate) fn told(&mut self, at: &At<'_>, shard: ShardId, event: &Event) {
        let says = match event {
            Event::Transfer(TransferEvent::JobDetached { job, moved }) => released(*job, moved),
            Event::Transfer(TransferEvent::JobDetachRejected { job, reason }) => kept(*job, reason),
            _ => return,
        };
        self.answers.told(at, KIND, shard, says);
    }
}

fn released(job: JobId, moved: &MovedJob) -> u64 {
    fingerprint(&("released", job, moved.to_json()))
}

fn kept(job: JobId, reason: &Rejection) -> u64 {
    fingerprint(&("kept", job, reason.to_json()))
}
