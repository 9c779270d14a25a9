//! Jobs that move between groups (JOB-9): what the catalogue says, and what the shards tell it.

use std::collections::{BTreeMap, HashMap};

use tidemill_model::{Event, GroupName, JobId, MovedJob, Rejection, ShardId};

use crate::Invariant;
use crate::at::At;
use crate::findings::Findings;
use crate::messages::{Place, place, violation};
use crate::requests::fingerprint;

/// All moves.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// Who is being moved: from where, to which group.
    moving: HashMap<JobId, (ShardId, GroupName)>,
    told: BTreeMap<ShardId, Told>,
}

/// What one shard told of the jobs that it was asked to let go, and what was heard of that.
#[derive(Debug, Default)]
struct Told {
    told: u64,
    heard: u64,
    /// Those of which only one side has been seen.
    open: BTreeMap<u64, (u64, Place)>,
}

impl Moves {
    /// `moved_jobs_keep_their_runs`, as the catalogue says. `jobs`: where jobs are, `groups`: where groups are.
    pub(crate) fn decided(
        &mut self,
        at: &At<'_>,
        event: &Event,
        (jobs, groups): (&HashMap<JobId, ShardId>, &HashMap<GroupName, ShardId>),
        found: &mut Findings,
    ) {
        let rule = Invariant::MovedJobsKeepTheirRuns;
        match event {
            Event::JobMoveAsked { job, from, to, .. } => {
                if jobs.get(job) != Some(from) {
                    at.breaks(
                        found,
                        rule,
                        format!("shard {from} is asked for job {job}, which it does not run"),
                    );
                }
                if !groups.contains_key(to) {
                    at.breaks(found, rule, format!("job {job} is to go to group {to}, which is not there"));
                }
                if self.moving.insert(*job, (*from, to.clone())).is_some() {
                    at.breaks(found, rule, format!("job {job} is being moved already"));
                }
            }
            Event::JobMoved { definition, from, moved, .. } => {
                let id = definition.id;
                self.hear(at, *from, released(id, moved), found);
                match self.moving.remove(&id) {
                    Some((asked, to)) if (asked, &to) == (*from, &definition.group) => {}
                    other => {
                        let to = &definition.group;
                        at.breaks(
                            found,
                            rule,
                            format!("job {id} is moved from {from} to {to}, and asked was {other:?}"),
                        );
                    }
                }
            }
            Event::JobMoveRefused { job, reason, .. } => match self.moving.remove(job) {
                Some((from, _)) => self.hear(at, from, kept(*job, reason), found),
                None => at.breaks(found, rule, format!("job {job} stays, and was not being moved")),
            },
            Event::JobDefined { definition, .. } if self.moving.contains_key(&definition.id) => {
                at.breaks(found, rule, format!("job {} changes while it is being moved", definition.id));
            }
            Event::JobDefined { definition, .. } => {
                if let Some(parent) =
                    definition.other_parents().find(|parent| self.moving.contains_key(parent))
                {
                    let why = format!(
                        "job {} gets job {parent} as a parent while that is being moved",
                        definition.id
                    );
                    at.breaks(found, rule, why);
                }
            }
            Event::JobDeleted { job } | Event::JobEnabled { job } | Event::JobDisabled { job }
                if self.moving.contains_key(job) =>
            {
                at.breaks(found, rule, format!("job {job} changes while it is being moved"));
            }
            _ => {}
        }
    }

    /// What a group's shard answers.
    pub(crate) fn told(&mut self, at: &At<'_>, shard: ShardId, event: &Event, found: &mut Findings) {
        let says = match event {
            Event::JobReleased { job, moved } => released(*job, moved),
            Event::JobKept { job, reason } => kept(*job, reason),
            _ => return,
        };
        let told = self.told.entry(shard).or_default();
        told.told += 1;
        let number = told.told;
        told.pair(at, shard, (number, says), found);
    }

    fn hear(&mut self, at: &At<'_>, shard: ShardId, says: u64, found: &mut Findings) {
        let told = self.told.entry(shard).or_default();
        told.heard += 1;
        let number = told.heard;
        told.pair(at, shard, (number, says), found);
    }

    /// `at_rest`: nothing is on its way any more.
    pub(crate) fn finish(&self, at_rest: bool, found: &mut Findings) {
        let rule = Invariant::MovedJobsKeepTheirRuns;
        for (shard, told) in &self.told {
            let Some((number, (_, place))) = told.open.first_key_value() else { continue };
            if told.heard > told.told {
                let why = format!("answer {number} of shard {shard} on a job was heard and never told");
                found.violation(rule, violation(rule, *place, why));
            } else if at_rest {
                let why = format!("answer {number} of shard {shard} on a job was never heard");
                found.violation(rule, violation(rule, *place, why));
            }
        }
    }
}

impl Told {
    fn pair(&mut self, at: &At<'_>, shard: ShardId, (number, says): (u64, u64), found: &mut Findings) {
        match self.open.remove(&number) {
            None => {
                self.open.insert(number, (says, place(at)));
            }
            Some((other, (partition, offset, event))) if other != says => {
                let why = format!(
                    "answer {number} of shard {shard} on a job differs from what stands at {partition}:{offset} event {event}"
                );
                at.breaks(found, Invariant::MovedJobsKeepTheirRuns, why);
            }
            Some(_) => {}
        }
    }
}

fn released(job: JobId, moved: &MovedJob) -> u64 {
    fingerprint(&("released", job, serde_json::to_string(moved).ok()))
}

fn kept(job: JobId, reason: &Rejection) -> u64 {
    fingerprint(&("kept", job, serde_json::to_string(reason).ok()))
}
