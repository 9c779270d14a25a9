//! Definitions: applied at once or in parts, defined, renamed, moved, switched and deleted.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemill_model::{
    BatchCommand, Cascade, GroupName, JobCommand, JobId, JobSpec, RequestId, RerunCommand, RerunDefinition,
    RerunOnly, RerunOrder, RerunScope, RerunSpec, ShardId,
};

use super::job_spec::{by_night, named_values, parents, spec, when_parents_fail};
use crate::known::KnownJob;
use crate::{Rng, World};

/// A job of this name has a schedule that panics.
pub(crate) const POISON: &str = "poison";

const MANY: usize = 201;

impl World {
    /// A group's jobs, some with names that are there already; now and then one that cannot be accepted.
    pub(super) fn apply_jobs(&mut self, rng: &mut Rng) {
        let group = format!("g{}", rng.below(self.plan.groups) + 1);
        let mut jobs = self.some_specs(rng, &group);
        spoil(rng, &mut jobs);
        let jobs: Vec<JobSpec> =
            jobs.into_iter().map(|job| JobSpec::from_value(job).expect("of the right form")).collect();
        let prune = if rng.chance(4) { vec![group.try_into().expect("a name")] } else { Vec::new() };
        let cancel = rng.chance(30);
        if rng.chance(30) {
            return self.stage(rng, jobs, prune, cancel);
        }
        self.ask_catalogue(JobCommand::Apply { jobs, prune, cancel, orphan_children: cancel });
    }

    /// Specs of a group, some with names that are there already.
    fn some_specs(&self, rng: &mut Rng, group: &str) -> Vec<Value> {
        let known: Vec<(String, String)> = self
            .known
            .jobs
            .values()
            .filter(|job| !job.submitted && job.name != "unnamed")
            .map(|job| (job.group.clone(), job.name.clone()))
            .collect();
        let count = rng.range(1, 6);
        let mut names: Vec<String> = Vec::new();
        let mut jobs = Vec::new();
        for _ in 0..count {
            let poison = rng.range(0, 32) == 0;
            let name = if poison { POISON.to_owned() } else { format!("j{}", rng.below(12)) };
            if names.contains(&name) {
                continue;
            }
            let mut spec = spec(rng, group, &name, self.clusters.len());
            if self.plan.is_long_night() {
                by_night(&mut spec);
            }
            self.while_it_lasts(&mut spec);
            let parents = parents(rng, group, &names, &known);
            if !parents.is_empty() {
                spec["parents"] = Value::Array(parents);
                when_parents_fail(&mut rng.clone(), &mut spec);
                named_values(&mut rng.aside("values"), &mut spec);
            }
            // JOB-9: often of a job that is not there, or that is named in the same apply.
            let aside = &mut rng.aside("previous name");
            if aside.chance(6) {
                spec["previous_name"] = json!(format!("j{}", aside.below(12)));
            }
            self.owned(&mut rng.aside("owner"), &mut spec);
            names.push(name);
            jobs.push(spec);
        }
        jobs
    }

    /// The same in parts, as a request that is too large for one command; not all are committed.
    fn stage(&mut self, rng: &mut Rng, jobs: Vec<JobSpec>, prune: Vec<GroupName>, cancel: bool) {
        let apply = RequestId::new(format!("apply-{:x}", rng.next()));
        let mut parts = 0;
        for jobs in jobs.chunks(2) {
            let command = JobCommand::Stage { apply: apply.clone(), part: parts, jobs: jobs.to_vec() };
            self.ask_catalogue(command);
            parts += 1;
        }
        if rng.chance(60) {
            let if_revision = rng.chance(20).then(|| rng.range(0, 10));
            let delay = rng.range(0, 200);
            let command =
                JobCommand::Commit { apply, parts, prune, cancel, orphan_children: false, if_revision };
            self.ask_later(ShardId::CATALOGUE, command, delay);
        }
    }

    /// Hundreds of small jobs, in parts.
    pub(super) fn apply_many(&mut self, mut rng: Rng) {
        let group = format!("g{}", rng.below(self.plan.groups) + 1);
        let apply = RequestId::new("apply-many");
        let job = |number: usize| {
            let spec =
                json!({"name": format!("many{number}"), "group": group, "type": "noop", "enabled": false});
            JobSpec::from_value(spec).expect("of the right form")
        };
        let jobs: Vec<JobSpec> = (0..MANY).map(job).collect();
        let parts = jobs.chunks(100).map(<[JobSpec]>::to_vec).collect::<Vec<_>>();
        let commit = JobCommand::Commit {
            apply: apply.clone(),
            parts: parts.len() as u32,
            prune: Vec::new(),
            cancel: false,
            orphan_children: false,
            if_revision: None,
        };
        for (part, jobs) in (0..).zip(parts) {
            let apply = apply.clone();
            self.ask_catalogue(JobCommand::Stage { apply, part, jobs });
        }
        self.ask_later(ShardId::CATALOGUE, commit, 500);
    }

    /// Where everything stops for days, schedules are over soon: nothing is due meanwhile, a million times.
    fn while_it_lasts(&self, spec: &mut Value) {
        if !self.plan.stops || spec["schedule"].is_null() {
            return;
        }
        let minutes = (0..15).map(|minute| {
            let then = self.wall() + SignedDuration::from_mins(minute);
            then.to_zoned(jiff::tz::TimeZone::UTC)
        });
        let mut fields: [BTreeSet<i16>; 5] = Default::default();
        for then in minutes {
            let values = [
                then.minute().into(),
                then.hour().into(),
                then.day().into(),
                then.month().into(),
                then.year(),
            ];
            for (field, value) in fields.iter_mut().zip(values) {
                field.insert(value);
            }
        }
        let [minute, hour, day, month, year] =
            fields.map(|field| field.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        let cron = format!("0/10 {minute} {hour} {day} {month} ? {year}");
        spec["schedule"] = json!({"cron": cron, "zone": "UTC"});
    }

    pub(super) fn define_job(&mut self, rng: &mut Rng) {
        let group = format!("g{}", rng.below(self.plan.groups) + 1);
        let mut spec = spec(rng, &group, "unnamed", self.clusters.len());
        self.while_it_lasts(&mut spec);
        self.owned(&mut rng.aside("owner"), &mut spec);
        let parents = self.some_job(rng, false).filter(|_| rng.chance(50)).map(|job| job.id);
        let job = Box::new(JobSpec::from_value(spec).expect("of the right form"));
        self.ask_catalogue(JobCommand::Define { job, parents: parents.into_iter().collect() });
    }

    pub(super) fn switch(&mut self, rng: &mut Rng) {
        let Some(job) = self.some_job(rng, false) else { return self.submit(rng) };
        let enabled = if rng.chance(80) { !job.enabled } else { job.enabled };
        self.ask_catalogue(JobCommand::Switch { job: job.id, enabled });
    }

    /// JOB-9: now and then to the name of another job.
    pub(super) fn rename(&mut self, rng: &mut Rng) {
        let Some(job) = self.some_job(rng, false) else { return };
        let name = format!("j{}", rng.below(16)).try_into().expect("a name");
        self.ask_catalogue(JobCommand::Rename { job: job.id, name });
    }

    /// JOB-9: to any group, its own among them. One that is disabled first can mostly go.
    pub(super) fn move_job(&mut self, rng: &mut Rng) {
        let Some(job) = self.some_job(rng, false) else { return };
        let to = format!("g{}", rng.below(self.plan.groups) + 1).try_into().expect("a name");
        let later = if rng.chance(50) { 400 } else { 0 };
        if later > 0 {
            self.ask_catalogue(JobCommand::Switch { job: job.id, enabled: false });
            self.ask_later(ShardId::CATALOGUE, JobCommand::Switch { job: job.id, enabled: true }, 2 * later);
        }
        self.ask_later(ShardId::CATALOGUE, JobCommand::Move { job: job.id, to }, later);
    }

    /// DSP-2: somebody gives a batch parameters, then its job gets an account or loses it, and a rerun of that batch is
    /// planned, more than once, for the first plan mostly finds it unfinished.
    pub(super) fn change_account(&mut self, rng: &mut Rng) {
        let is_meant = |job: &&KnownJob| {
            !job.submitted && job.name != "unnamed" && matches!(job.kind.as_str(), "shell" | "python")
        };
        let jobs: Vec<_> = self.known.jobs.values().filter(is_meant).cloned().collect();
        let Some(job) = rng.pick(&jobs) else { return };
        let second = self.wall().as_second() / 10 * 10 - 10 * rng.range(1, 12) as i64;
        let time = tidemill_model::Timestamp::from_second(second).expect("it was one");
        let parameters = BTreeMap::from([("rows".to_owned(), "7".to_owned())]);
        let run =
            BatchCommand::RunJob { job: job.id, logical_time: Some(time), parameters, concurrent: true };
        self.ask(job.shard, run);
        let mut spec = json!({
            "name": job.name, "group": job.group, "type": job.kind.as_str(), "command": "echo", "arguments": ["${param.rows}"],
            "parameters": {"rows": "0"}, "max_concurrent": 2,
        });
        if rng.chance(80) {
            spec["run_as"] = json!("etl");
        }
        let jobs = vec![JobSpec::from_value(spec).expect("of the right form")];
        let apply = JobCommand::Apply { jobs, prune: Vec::new(), cancel: false, orphan_children: false };
        self.ask_later(ShardId::CATALOGUE, apply, 1_500);
        for delay in [3_000, 9_000, 20_000] {
            let client_request = RerunSpec {
                scope: RerunScope::Rerun { jobs: vec![job.id], cascade: Cascade::Job },
                from: time,
                to: time,
                reach: None,
                only: RerunOnly::All,
                order: RerunOrder::Oldest,
                concurrency: 1,
                definition: RerunDefinition::Today,
                reason: "another account".to_owned(),
                approve: true,
            };
            self.ask_later(ShardId::CATALOGUE, RerunCommand::Plan(Box::new(client_request)), delay);
        }
    }

    pub(super) fn delete(&mut self, rng: &mut Rng) {
        let Some(job) = self.some_job(rng, rng.clone().chance(10)) else { return self.submit(rng) };
        self.ask_catalogue(JobCommand::Delete {
            job: job.id,
            cancel: rng.chance(30),
            orphan_children: rng.chance(40),
        });
    }

    /// A job goes though others name it, and these later: then nobody names the deleted one any more.
    pub(super) fn delete_with_children(&mut self, rng: &mut Rng) {
        let jobs: Vec<KnownJob> = self.known.jobs.values().filter(|job| !job.submitted).cloned().collect();
        let parents: Vec<JobId> = jobs.iter().flat_map(|job| job.parents.iter().copied()).collect();
        let Some(parent) = rng.pick(&parents).copied() else { return };
        let delete = |job| JobCommand::Delete { job, cancel: true, orphan_children: true };
        self.ask_catalogue(delete(parent));
        for child in jobs.into_iter().filter(|job| job.parents.contains(&parent)) {
            self.ask_later(ShardId::CATALOGUE, delete(child.id), 3_000);
        }
    }
}

/// Now and then one of them cannot be accepted: a cycle, a schedule that is none, a parent that is not there.
fn spoil(rng: &mut Rng, jobs: &mut [Value]) {
    match rng.range(0, 20) {
        0 if jobs.len() > 1 => {
            let end = jobs.len() - 1;
            let last = jobs[end]["name"].clone();
            jobs[0]["parents"] = json!([{"job": last, "mapping": "latest"}]);
            let first = jobs[0]["name"].clone();
            jobs[end]["parents"] = json!([{"job": first, "mapping": "latest"}]);
        }
        1 => jobs[0]["schedule"] = json!({"cron": "61 * * * * ?", "zone": "UTC"}),
        2 => jobs[0]["parents"] = json!(["nobody"]),
        _ => {}
    }
}
