//! What people and programs request: one command after the other, from what is on record at the moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemill_model::{
    Actor, AllowedAccounts, BatchCommand, BulkAction, BulkCommand, BulkOutcome, CalendarSpec, Cascade,
    CatalogueCommand, Command, CommandRecord, GroupId, GroupName, GroupSettings, Incarnation, JobCommand,
    JobId, JobSpec, JobType, OnSilence, Outcome, OverriddenResult, Priority, Program, RecordedBatch,
    Registration, Reply, RequestId, RerunCommand, RerunDefinition, RerunOnly, RerunOrder, RerunScope,
    RerunSpec, Role, ShardCommand, ShardId, Submission, Token, WorkerCommand, WorkerId,
};

use crate::clients::is_by_state;
use crate::cluster::public_key;
use crate::oracle::KnownJob;
use crate::outside::CODES;
use crate::pools;
use crate::pulls::pull_settings;
use crate::rng::Rng;
use crate::world::{Happening, Requested, Then, World};

/// A job of this name has a schedule that panics.
pub(crate) const POISON: &str = "poison";
/// So few keys may there be.
pub(crate) const MOST_KEYS: usize = 3;
/// The request beside which hundreds of jobs are applied at once, in histories where they are; more than shards are told
/// of in one envelope.
const LARGE_AT: usize = 8;
const MANY: usize = 201;
/// Until an unanswered request is sent again.
const AGAIN_MS: u64 = 6_000;

impl World {
    pub(crate) fn define_groups(&mut self, rng: &mut Rng) {
        for index in 0..self.plan.groups {
            let settings = settings(rng, self.holds(index));
            let name = format!("g{}", index + 1).try_into().expect("a group's name");
            let command = Command::Catalogue(CatalogueCommand::DefineGroup {
                name,
                worker_key: public_key(),
                settings,
            });
            // One after the other, so that their numbers follow their names.
            self.ask_later(ShardId::CATALOGUE, command, 100 * index as u64);
        }
        // Whose requests they are; it stays, so that jobs may run as its account.
        let (app, hash, role) = ("test".to_owned(), "0f".repeat(32), Role::Administrator);
        let run_as = ["etl".try_into().expect("an account")].into();
        let key = Command::Catalogue(CatalogueCommand::DefineKey {
            app,
            hash,
            role,
            groups: Vec::new(),
            run_as,
            first_only: false,
        });
        self.ask(ShardId::CATALOGUE, key);
        self.define_pools(&mut rng.aside("pools"));
        self.define_pulls();
        for index in 0..3 {
            let spec = calendar(&mut rng.clone(), &format!("c{index}"), self.wall());
            let calendar = Box::new(CalendarSpec::from_value(spec).expect("of the right form"));
            self.ask_later(
                ShardId::CATALOGUE,
                Command::Catalogue(CatalogueCommand::DefineCalendar { calendar }),
                0,
            );
        }
    }

    /// Sends a request that is repeated until it is answered.
    pub(crate) fn ask(&mut self, shard: ShardId, command: Command) -> RequestId {
        self.ask_later(shard, command, 0)
    }

    pub(crate) fn ask_later(&mut self, shard: ShardId, command: Command, delay: u64) -> RequestId {
        let number = self.requests + 1;
        let request = RequestId::of_client("test", &format!("r{number}"), number);
        self.ask_with(request, shard, command, delay)
    }

    pub(crate) fn ask_with(
        &mut self,
        request: RequestId,
        shard: ShardId,
        command: Command,
        delay: u64,
    ) -> RequestId {
        self.requests += 1;
        let record = CommandRecord {
            shard,
            request: Some(request.clone()),
            reply_to: Some(self.instance(self.requests)),
            actor: Actor { app: "test".into(), user: Some("ann".into()) },
            command,
        };
        self.stats.add("sent", "client_request");
        self.tell(|| format!("WISH {request} to {shard}: {:?}", record.command));
        self.send(&record, delay, Then::Nobody);
        let partition = shard.partition(self.plan.partitions);
        self.requested.insert(request.clone(), Requested { partition, record, answer: None });
        self.after(AGAIN_MS, Happening::ClientRequestAgain { request: request.clone() });
        request
    }

    pub(crate) fn client_request_again(&mut self, request: &RequestId) {
        let Some(requested) = self.requested.get(request).filter(|requested| requested.answer.is_none())
        else {
            return;
        };
        let mut record = requested.record.clone();
        // Through another instance, as a client does whose own is gone.
        let other = self.rng.next();
        record.reply_to = Some(self.instance(other));
        self.stats.add("sent", "client_request_again");
        self.send(&record, 0, Then::Nobody);
        self.after(AGAIN_MS, Happening::ClientRequestAgain { request: request.clone() });
    }

    pub(crate) fn reply(&mut self, reply: Reply) {
        let Some(requested) = self.requested.get_mut(&reply.request) else {
            return self.is_wrong(format!("a reply to nobody's request: {reply:?}"));
        };
        if reply.outcome == Outcome::Repeated || reply.partition != requested.partition {
            let what = format!("a reply that cannot be: {reply:?}");
            return self.is_wrong(what);
        }
        match &requested.answer {
            Some(first) if *first != reply.outcome && !is_by_state(&reply.request) => {
                let what = format!("{} was answered {first:?}, then {:?}", reply.request, reply.outcome);
                self.is_wrong(what);
            }
            Some(_) => {}
            None => requested.answer = Some(reply.outcome),
        }
    }

    pub(crate) fn client_request(&mut self, index: usize) {
        let mut rng = Rng::new(self.plan.seed, "client_request", index as u64);
        let rng = &mut rng;
        if index == LARGE_AT && self.plan.is_large {
            self.apply_many(rng.aside("many"));
        }
        self.client_request_of_reruns(index);
        self.client_request_of_pulls(index);
        let aside = &mut rng.aside("pool");
        if index > 4 && aside.chance(5) {
            self.change_pool(aside);
        }
        // Kinds that need several requests of one sort in one history.
        match rng.aside("seldom").range(0, 100) {
            0..3 if index > 4 => self.calendars(&mut rng.aside("calendars")),
            3..8 => self.keys(&mut rng.aside("keys")),
            8..11 if index > 4 => self.rename(&mut rng.aside("rename")),
            11..15 if index > 4 => self.bulk(&mut rng.aside("bulk")),
            15..21 if index > 4 => self.move_job(&mut rng.aside("move")),
            21..24 if index > 4 => self.change_account(&mut rng.aside("account")),
            _ => {}
        }
        if rng.range(0, 500) == 0 {
            return self.run_often(rng);
        }
        match if index < 4 { 0 } else { rng.range(0, 100) } {
            0..14 => self.apply_jobs(rng),
            14..33 => self.submit(rng),
            33 | 49 | 94 => self.report_user_code(rng),
            34 => self.keys(rng),
            35 => self.calendars(rng),
            36..49 => self.run_job(rng),
            50..62 => self.rerun(rng),
            62..69 => self.kill(rng),
            69..72 => self.mark(rng),
            72..79 => self.switch(rng),
            79..82 => self.delete(rng),
            82..85 => self.drain(rng),
            85..87 => self.freeze(rng),
            87..89 => self.keys(rng),
            89..90 => self.change_group(rng),
            90..92 => self.calendars(rng),
            92..93 => self.garbage(rng),
            93 => self.stray(rng),
            95..97 => self.impostor(rng),
            97..98 => self.repeat_an_old_client_request(rng),
            98..99 => self.set_time(rng),
            _ => self.define_job(rng),
        }
    }

    fn some_job(&self, rng: &mut Rng, submitted: bool) -> Option<KnownJob> {
        let jobs: Vec<_> = self.known.jobs.values().filter(|job| submitted || !job.submitted).collect();
        rng.pick(&jobs).map(|job| (*job).clone())
    }

    /// A group's jobs, some with names that are there already; now and then one that cannot be accepted.
    fn apply_jobs(&mut self, rng: &mut Rng) {
        let group = format!("g{}", rng.below(self.plan.groups) + 1);
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
            let mut spec = spec(rng, &group, &name, self.clusters.len());
            if self.plan.is_long_night() {
                by_night(&mut spec);
            }
            self.while_it_lasts(&mut spec);
            let parents = parents(rng, &group, &names, &known);
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
            names.push(name);
            jobs.push(spec);
        }
        match rng.range(0, 20) {
            0 if jobs.len() > 1 => {
                let last = names.last().cloned().unwrap_or_default();
                jobs[0]["parents"] = json!([{"job": last, "mapping": "latest"}]);
                let first = names[0].clone();
                let end = jobs.len() - 1;
                jobs[end]["parents"] = json!([{"job": first, "mapping": "latest"}]);
            }
            1 => jobs[0]["schedule"] = json!({"cron": "61 * * * * ?", "zone": "UTC"}),
            2 => jobs[0]["parents"] = json!(["nobody"]),
            _ => {}
        }
        let jobs: Vec<JobSpec> =
            jobs.into_iter().map(|job| JobSpec::from_value(job).expect("of the right form")).collect();
        let prune = if rng.chance(4) { vec![group.try_into().expect("a name")] } else { Vec::new() };
        let cancel = rng.chance(30);
        if rng.chance(30) {
            return self.stage(rng, jobs, prune, cancel);
        }
        self.ask(
            ShardId::CATALOGUE,
            Command::Job(JobCommand::Apply { jobs, prune, cancel, orphan_children: cancel }),
        );
    }

    /// The same in parts, as a request that is too large for one command; not all are committed.
    fn stage(&mut self, rng: &mut Rng, jobs: Vec<JobSpec>, prune: Vec<GroupName>, cancel: bool) {
        let apply = RequestId::new(format!("apply-{:x}", rng.next()));
        let mut parts = 0;
        for jobs in jobs.chunks(2) {
            let command =
                Command::Job(JobCommand::Stage { apply: apply.clone(), part: parts, jobs: jobs.to_vec() });
            self.ask(ShardId::CATALOGUE, command);
            parts += 1;
        }
        if rng.chance(60) {
            let if_revision = rng.chance(20).then(|| rng.range(0, 10));
            let delay = rng.range(0, 200);
            let command = Command::Job(JobCommand::Commit {
                apply,
                parts,
                prune,
                cancel,
                orphan_children: false,
                if_revision,
            });
            self.ask_later(ShardId::CATALOGUE, command, delay);
        }
    }

    /// Hundreds of small jobs, in parts.
    fn apply_many(&mut self, mut rng: Rng) {
        let group = format!("g{}", rng.below(self.plan.groups) + 1);
        let apply = RequestId::new("apply-many");
        let job = |number: usize| {
            let spec =
                json!({"name": format!("many{number}"), "group": group, "type": "noop", "enabled": false});
            JobSpec::from_value(spec).expect("of the right form")
        };
        let jobs: Vec<JobSpec> = (0..MANY).map(job).collect();
        let parts = jobs.chunks(100).map(<[JobSpec]>::to_vec).collect::<Vec<_>>();
        let commit = Command::Job(JobCommand::Commit {
            apply: apply.clone(),
            parts: parts.len() as u32,
            prune: Vec::new(),
            cancel: false,
            orphan_children: false,
            if_revision: None,
        });
        for (part, jobs) in (0..).zip(parts) {
            let apply = apply.clone();
            self.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Stage { apply, part, jobs }));
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

    fn define_job(&mut self, rng: &mut Rng) {
        let group = format!("g{}", rng.below(self.plan.groups) + 1);
        let mut spec = spec(rng, &group, "unnamed", self.clusters.len());
        self.while_it_lasts(&mut spec);
        let parents = self.some_job(rng, false).filter(|_| rng.chance(50)).map(|job| job.id);
        let job = Box::new(JobSpec::from_value(spec).expect("of the right form"));
        self.ask(
            ShardId::CATALOGUE,
            Command::Job(JobCommand::Define { job, parents: parents.into_iter().collect() }),
        );
    }

    fn submit(&mut self, rng: &mut Rng) {
        let number = rng.below(self.plan.groups) + 1;
        let shard = ShardId(number as u16);
        let kind = ["noop", "shell", "shell", "anchor", "python"][rng.below(5)];
        let of_shard: Vec<JobId> =
            self.known.jobs.values().filter(|job| job.shard == shard).map(|job| job.id).collect();
        let parents = match rng.range(0, 10) {
            0..3 => rng.pick(&of_shard).copied().into_iter().collect(),
            3 => vec![JobId::mint(9_999, shard)],
            _ => Vec::new(),
        };
        let program = if matches!(kind, "noop" | "anchor") {
            Program::None
        } else {
            Program::Command("true".to_owned())
        };
        let submission = Submission {
            name: "once".try_into().expect("a name"),
            group: format!("g{number}").try_into().expect("a name"),
            group_id: GroupId(number as i32),
            app_name: "test".to_owned(),
            owner: String::new(),
            job_type: JobType::try_from(kind).expect("a type"),
            program,
            parameters: BTreeMap::new(),
            priority: Priority::try_from(rng.range(0, 10) as i64).expect("0 to 9"),
            parents,
            retries: rng.range(0, 3) as u32,
            retry_interval_s: rng.range(0, 4) as u32,
        };
        self.ask(shard, Command::Batch(BatchCommand::SubmitJob(Box::new(submission))));
    }

    fn run_job(&mut self, rng: &mut Rng) {
        let Some(job) = self.some_job(rng, true) else { return self.submit(rng) };
        let logical_time = rng.chance(40).then(|| {
            let second = SignedDuration::from_secs(rng.range(0, 120) as i64 - 60);
            let text = (self.wall() + second).as_second() / 10 * 10;
            tidemill_model::Timestamp::from_second(text).unwrap_or(self.wall())
        });
        let parameters = rows_by_hand(&mut rng.aside("values"));
        let concurrent = rng.aside("concurrent").chance(60);
        self.ask(
            job.shard,
            Command::Batch(BatchCommand::RunJob { job: job.id, logical_time, parameters, concurrent }),
        );
    }

    /// One job for many logical times, so many that the oldest are forgotten.
    fn run_often(&mut self, rng: &mut Rng) {
        let quick = |job: &&KnownJob| matches!(job.kind.as_str(), "noop" | "anchor");
        let jobs: Vec<_> = self.known.jobs.values().filter(quick).cloned().collect();
        let Some(job) = rng.pick(&jobs) else { return self.submit(rng) };
        let end = self.wall().as_second() / 10 * 10;
        for back in 0..24_u64 {
            let logical_time = tidemill_model::Timestamp::from_second(end - 10 * back as i64).ok();
            let parameters = BTreeMap::new();
            let command = Command::Batch(BatchCommand::RunJob {
                job: job.id,
                logical_time,
                parameters,
                concurrent: true,
            });
            self.ask_later(job.shard, command, 150 * (24 - back));
        }
    }

    fn rerun(&mut self, rng: &mut Rng) {
        // Most histories have fewer, so that what was evicted is among them.
        let batches: Vec<_> = self.known.batches.iter().rev().take(60).collect();
        let aside = &mut rng.aside("of own parameters");
        let own: Vec<_> = batches.iter().filter(|(_, known)| !known.parameters.is_empty()).copied().collect();
        let picked = if aside.chance(30) { aside.pick(&own).copied() } else { None };
        let Some((batch, known)) = picked.or_else(|| rng.pick(&batches).copied()) else {
            return self.submit(rng);
        };
        let (batch, job, logical_time) = (*batch, known.job, known.logical_time);
        let recorded = RecordedBatch { run: known.run, parameters: known.parameters.clone() };
        let recorded = aside.chance(90).then(|| Box::new(recorded));
        let (batch, recorded) = match rng.chance(5) {
            true => (tidemill_model::BatchId::mint(77_777, batch.shard()), None),
            false => (batch, recorded),
        };
        let moved =
            self.known.jobs.get(&job).map(|job| job.shard).filter(|_| job.shard() == ShardId::CATALOGUE);
        let shard = moved.unwrap_or(batch.shard());
        self.ask(shard, Command::Batch(BatchCommand::Rerun { batch, job, logical_time, recorded }));
    }

    fn kill(&mut self, rng: &mut Rng) {
        let of_job = rng.chance(20);
        let unfinished = self.known.unfinished();
        let any: Vec<_> = self.known.batches.keys().copied().collect();
        let batch = if rng.chance(80) { rng.pick(&unfinished) } else { rng.pick(&any) };
        let Some(batch) = batch.copied() else { return self.submit(rng) };
        let job = self.known.batches.get(&batch).map(|known| known.job);
        let command = match job {
            Some(job) if of_job => Command::Batch(BatchCommand::KillJob { job }),
            Some(_) | None => Command::Batch(BatchCommand::Kill { batch, reason: "because".to_owned() }),
        };
        self.ask(batch.shard(), command);
    }

    /// Somebody says how a batch ended, mostly one of the newest, sometimes without a reason.
    fn mark(&mut self, rng: &mut Rng) {
        let unfinished = self.known.unfinished();
        let newest: Vec<_> = self.known.batches.keys().rev().take(40).copied().collect();
        let batch = if rng.chance(40) { rng.pick(&unfinished) } else { rng.pick(&newest) };
        let known = batch.and_then(|batch| Some((*batch, self.known.batches.get(batch)?.clone())));
        let Some((batch, known)) = known else { return self.submit(rng) };
        let result =
            [OverriddenResult::Success, OverriddenResult::Failed, OverriddenResult::Skipped][rng.below(3)];
        let reason = if rng.chance(95) { "as seen".to_owned() } else { String::new() };
        let (job, logical_time) = (known.job, known.logical_time);
        let run = rng.aside("run").chance(90).then_some(known.run);
        self.ask(
            batch.shard(),
            Command::Batch(BatchCommand::OverrideResult { batch, job, logical_time, result, reason, run }),
        );
    }

    fn switch(&mut self, rng: &mut Rng) {
        let Some(job) = self.some_job(rng, false) else { return self.submit(rng) };
        let enabled = if rng.chance(80) { !job.enabled } else { job.enabled };
        self.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job: job.id, enabled }));
    }

    /// BYD-3: an operation, and what interfaces report of those that are open, twice and in pieces.
    fn bulk(&mut self, rng: &mut Rng) {
        let open: Vec<_> = self.known.bulks.iter().map(|(bulk, items)| (*bulk, items.clone())).collect();
        if let Some((bulk, items)) = rng.pick(&open).cloned().filter(|_| rng.chance(70)) {
            let from = rng.below(items.len());
            let refused = rng.chance(20).then(|| "as seen".to_owned());
            let outcome = |item: &i64| BulkOutcome { item: *item, refused: refused.clone(), rerun: None };
            let outcomes = items[from..].iter().map(outcome).collect();
            self.ask(ShardId::CATALOGUE, Command::Bulk(BulkCommand::Report { bulk, outcomes }));
            return;
        }
        let items: Vec<i64> = self.known.batches.keys().map(|batch| batch.0).take(rng.below(12)).collect();
        let reason = if rng.chance(90) { "as seen".to_owned() } else { String::new() };
        self.ask(
            ShardId::CATALOGUE,
            Command::Bulk(BulkCommand::Request { action: BulkAction::Kill, items, reason }),
        );
    }

    /// JOB-9: now and then to the name of another job.
    fn rename(&mut self, rng: &mut Rng) {
        let Some(job) = self.some_job(rng, false) else { return };
        let name = format!("j{}", rng.below(16)).try_into().expect("a name");
        self.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Rename { job: job.id, name }));
    }

    /// JOB-9: to any group, its own among them. One that is disabled first can mostly go.
    fn move_job(&mut self, rng: &mut Rng) {
        let Some(job) = self.some_job(rng, false) else { return };
        let to = format!("g{}", rng.below(self.plan.groups) + 1).try_into().expect("a name");
        let later = if rng.chance(50) { 400 } else { 0 };
        if later > 0 {
            self.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job: job.id, enabled: false }));
            self.ask_later(
                ShardId::CATALOGUE,
                Command::Job(JobCommand::Switch { job: job.id, enabled: true }),
                2 * later,
            );
        }
        self.ask_later(ShardId::CATALOGUE, Command::Job(JobCommand::Move { job: job.id, to }), later);
    }

    /// DSP-2: somebody gives a batch parameters, then its job gets an account or loses it, and a rerun of that batch is
    /// planned, more than once, for the first plan mostly finds it unfinished.
    fn change_account(&mut self, rng: &mut Rng) {
        let is_meant = |job: &&KnownJob| {
            !job.submitted && job.name != "unnamed" && matches!(job.kind.as_str(), "shell" | "python")
        };
        let jobs: Vec<_> = self.known.jobs.values().filter(is_meant).cloned().collect();
        let Some(job) = rng.pick(&jobs) else { return };
        let second = self.wall().as_second() / 10 * 10 - 10 * rng.range(1, 12) as i64;
        let time = tidemill_model::Timestamp::from_second(second).expect("it was one");
        let parameters = BTreeMap::from([("rows".to_owned(), "7".to_owned())]);
        let run = Command::Batch(BatchCommand::RunJob {
            job: job.id,
            logical_time: Some(time),
            parameters,
            concurrent: true,
        });
        self.ask(job.shard, run);
        let mut spec = json!({
            "name": job.name, "group": job.group, "type": job.kind.as_str(), "command": "echo", "arguments": ["${param.rows}"],
            "parameters": {"rows": "0"}, "max_concurrent": 2,
        });
        if rng.chance(80) {
            spec["run_as"] = json!("etl");
        }
        let jobs = vec![JobSpec::from_value(spec).expect("of the right form")];
        let apply = Command::Job(JobCommand::Apply {
            jobs,
            prune: Vec::new(),
            cancel: false,
            orphan_children: false,
        });
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
            self.ask_later(
                ShardId::CATALOGUE,
                Command::Rerun(RerunCommand::Plan(Box::new(client_request))),
                delay,
            );
        }
    }

    fn delete(&mut self, rng: &mut Rng) {
        let Some(job) = self.some_job(rng, rng.clone().chance(10)) else { return self.submit(rng) };
        self.ask(
            ShardId::CATALOGUE,
            Command::Job(JobCommand::Delete {
                job: job.id,
                cancel: rng.chance(30),
                orphan_children: rng.chance(40),
            }),
        );
    }

    fn drain(&mut self, rng: &mut Rng) {
        let workers: Vec<_> = self.known.workers.iter().collect();
        let Some((worker, shard)) = rng.pick(&workers) else { return self.submit(rng) };
        let (worker, shard) = ((*worker).clone(), **shard);
        let drains = rng.chance(50);
        let command = if drains {
            Command::Worker(WorkerCommand::Drain { worker })
        } else {
            Command::Worker(WorkerCommand::Resume { worker })
        };
        self.ask(shard, command);
    }

    /// Freezes a group or everything, or lifts the freeze of what is frozen.
    fn freeze(&mut self, rng: &mut Rng) {
        let frozen: Vec<_> = self.known.frozen.iter().cloned().collect();
        if let Some(group) = rng.pick(&frozen).filter(|_| rng.clone().chance(60)).cloned() {
            self.ask(
                ShardId::CATALOGUE,
                Command::Catalogue(CatalogueCommand::LiftFreeze { group, reason: String::new() }),
            );
            return;
        }
        let name = format!("g{}", rng.below(self.plan.groups) + 1);
        let group = rng.chance(60).then(|| name.try_into().expect("a name"));
        let seconds = SignedDuration::from_secs(rng.range(0, 120) as i64 - 60);
        let latest = rng.chance(80).then(|| self.wall() + seconds);
        let reason = "a move".to_owned();
        self.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::Freeze { group, latest, reason }));
    }

    fn keys(&mut self, rng: &mut Rng) {
        let app = format!("app{}", rng.below(MOST_KEYS + 2));
        let role = [Role::Viewer, Role::User, Role::Administrator, Role::SuperAdministrator][rng.below(4)];
        let first_only = rng.chance(30);
        let command = match rng.chance(45) {
            true => Command::Catalogue(CatalogueCommand::RevokeKey { app }),
            false => {
                let (hash, groups, run_as) = ("0f".repeat(32), Vec::new(), BTreeSet::new());
                Command::Catalogue(CatalogueCommand::DefineKey {
                    app,
                    hash,
                    role,
                    groups,
                    run_as,
                    first_only,
                })
            }
        };
        self.ask(ShardId::CATALOGUE, command);
    }

    fn change_group(&mut self, rng: &mut Rng) {
        let group = rng.below(self.plan.groups);
        let name = format!("g{}", group + 1).try_into().expect("a name");
        let mut settings = settings(rng, self.holds(group));
        if rng.chance(20) {
            settings.lost_after_ms = settings.lease_ms + 1;
        }
        self.ask(
            ShardId::CATALOGUE,
            Command::Catalogue(CatalogueCommand::DefineGroup { name, worker_key: public_key(), settings }),
        );
    }

    /// A calendar in which today may be a working day, or not any more.
    fn calendars(&mut self, rng: &mut Rng) {
        let name = format!("c{}", rng.below(3));
        let removed = rng.chance(50);
        let spec = calendar(rng, &name, self.wall());
        let calendar = Box::new(CalendarSpec::from_value(spec).expect("of the right form"));
        if removed {
            let name = calendar.name.clone();
            self.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::DeleteCalendar { name }));
        }
        // Soon there again, so that jobs can go on naming it.
        let delay = if removed { 2_000 } else { 0 };
        self.ask_later(
            ShardId::CATALOGUE,
            Command::Catalogue(CatalogueCommand::DefineCalendar { calendar }),
            delay,
        );
    }

    /// What cannot be read, or whose decision panics.
    fn garbage(&mut self, rng: &mut Rng) {
        let partition = rng.range(0, u64::from(self.plan.partitions)) as u32;
        if rng.chance(50) {
            let value: Arc<[u8]> = Arc::from(&b"{\"shard\": \"none\"}"[..]);
            self.stats.add("sent", "garbage");
            self.send_raw(partition, value, 0, Then::Nobody);
        } else {
            let shard = if rng.chance(50) { ShardId::CATALOGUE } else { ShardId(1) };
            self.ask(shard, Command::Shard(ShardCommand::PlantedPanic {}));
        }
    }

    /// What is not for the shard that it reaches.
    fn stray(&mut self, rng: &mut Rng) {
        let (worker, incarnation) = (WorkerId::new("w0-1"), Incarnation::new("w0-1-life-1"));
        match rng.range(0, 3) {
            0 => self.ask(ShardId(1), Command::Worker(WorkerCommand::DeclareLost { worker, incarnation })),
            1 => self
                .ask(ShardId(1), Command::Catalogue(CatalogueCommand::RevokeKey { app: "app0".to_owned() })),
            _ => self.ask(ShardId::CATALOGUE, Command::Worker(WorkerCommand::Drain { worker })),
        };
    }

    /// The program of a late attempt reports a code.
    fn report_user_code(&mut self, rng: &mut Rng) {
        let tokens = self.known.tokens.iter().rev().map(|(token, _)| *token);
        let (live, ended): (Vec<_>, Vec<_>) = tokens.partition(|token| !self.known.ended.contains(token));
        let late: Vec<Token> = live.into_iter().take(5).chain(ended.into_iter().take(2)).collect();
        for token in late {
            let code = if rng.chance(70) { 0 } else { rng.range(1, 4) as i32 };
            self.ask(token.shard(), Command::Worker(WorkerCommand::ReportUserCode { token, code }));
        }
    }

    /// Claims of workers that they cannot make.
    fn impostor(&mut self, rng: &mut Rng) {
        let shard = ShardId(rng.below(self.plan.groups) as u16 + 1);
        let worker = WorkerId::new("impostor");
        let command = if rng.chance(50) {
            Command::Worker(WorkerCommand::Register(Box::new(Registration {
                worker,
                incarnation: Incarnation::new("i"),
                group: format!("g{}", shard.0).try_into().expect("a name"),
                host: "host-0".to_owned(),
                address: "nowhere:1".to_owned(),
                slots: BTreeMap::from([(JobType::try_from("shell").expect("a type"), 9)]),
                reserved: Default::default(),
                labels: Default::default(),
                live: Vec::new(),
                signature: "00".repeat(64),
            })))
        } else {
            let token = rng.pick(&self.known.tokens).map_or(Token::mint(1, shard), |(token, _)| *token);
            let outcome = tidemill_model::AttemptOutcome::success();
            Command::Worker(WorkerCommand::ReportFinished { token, worker, outcome, usage: None })
        };
        let shard = match &command {
            Command::Worker(WorkerCommand::ReportFinished { token, .. }) => token.shard(),
            _ => shard,
        };
        self.ask(shard, command);
    }

    fn repeat_an_old_client_request(&mut self, rng: &mut Rng) {
        let old: Vec<_> = self.requested.values().map(|requested| requested.record.clone()).collect();
        let Some(record) = rng.pick(&old) else { return self.submit(rng) };
        let mut other = rng.aside("reused");
        if let Some(key) = record.request.as_ref().and_then(RequestId::key).filter(|_| other.chance(25)) {
            // API-4: under the key of that one, something else is asked for.
            let request = RequestId::new(format!("{key}#{:016x}", other.next()));
            let keyed = |record: &&CommandRecord| record.request.as_ref().and_then(RequestId::key).is_some();
            let others: Vec<_> = old.iter().filter(keyed).collect();
            let command = rng.pick(&others).map_or(record, |other| *other).command.clone();
            self.ask_with(request, record.shard, command, 0);
            return;
        }
        self.stats.add("sent", "old_client_request");
        self.send(&record.clone(), 0, Then::Nobody);
    }

    /// An operator repairs the clock, which does not need it.
    fn set_time(&mut self, rng: &mut Rng) {
        let shard = ShardId(rng.below(self.plan.groups + 1) as u16);
        let now = self.wall() - SignedDuration::from_millis(rng.range(1_000, 3_000) as i64);
        self.ask(shard, Command::Shard(ShardCommand::SetTime { now }));
    }
}

fn settings(rng: &mut Rng, holds: bool) -> GroupSettings {
    let lost_after_ms = rng.range(4_000, 9_000);
    let mut settings = GroupSettings {
        start_timeout_ms: rng.range(2_000, 15_000),
        lost_after_ms,
        lease_ms: lost_after_ms + rng.range(1_000, 20_000),
        lease_margin_ms: rng.range(1_000, 4_000),
        on_silence: if holds { OnSilence::Hold } else { OnSilence::Kill },
        kill_grace_ms: rng.range(100, 3_000),
        quality_retry_ms: rng.clone().range(3_000, 8_000),
        quality_alarm_after: 2,
        max_load_percent: if rng.aside("load").chance(40) { 200 } else { 0 },
        min_free_memory_percent: if rng.aside("memory").chance(20) { 10 } else { 0 },
        accounts: accounts(rng.clone()),
        ..GroupSettings::default()
    };
    pull_settings(&mut rng.aside("pulls"), &mut settings);
    settings
}

/// Which accounts jobs may run as.
fn accounts(mut rng: Rng) -> Option<Arc<AllowedAccounts>> {
    let text = [r#"{"*": ["nobody"]}"#, r#"{"*": ["etl"]}"#, r#"{"*": ["etl", "nobody"]}"#];
    let text = rng.pick(&text).copied().filter(|_| rng.chance(80))?;
    Some(Arc::new(serde_json::from_str(text).expect("accounts")))
}

fn spec(rng: &mut Rng, group: &str, name: &str, clusters: usize) -> Value {
    let kind = ["noop", "noop", "shell", "shell", "shell", "anchor", "python"][rng.below(7)];
    let missed = ["all", "latest", "none"][rng.below(3)];
    let mut job = json!({
        "name": name, "group": group, "type": kind,
        "max_concurrent": rng.range(1, 4), "retries": rng.range(0, 3), "retry_interval_s": rng.range(0, 5),
        "missed_runs": missed,
        "priority": rng.range(0, 10),
    });
    if !matches!(kind, "noop" | "anchor") {
        job["command"] = json!("echo ${logical_time}");
        // JOB-1, JOB-7: resolved by whichever owner grants the start.
        job["arguments"] = json!(["${job}", "${priority}", "${version}"]);
    }
    match rng.range(0, 10) {
        0..5 => {
            let every = [10, 15, 20, 30][rng.below(4)];
            job["schedule"] = json!({"cron": format!("0/{every} * * * * ?"), "zone": "UTC"});
        }
        5 => job["schedule"] = json!({"period": "hour", "zone": "Europe/Berlin"}),
        _ => {}
    }
    if rng.chance(15) {
        job["depends_on_past"] = json!(true);
    }
    if rng.chance(10) {
        job["host"] = json!(format!("host-{}", rng.below(clusters + 1)));
    }
    if rng.chance(10) {
        job["enabled"] = json!(false);
    }
    timeouts(&mut rng.clone(), &mut job);
    after_failures(&mut rng.clone(), &mut job);
    firing(&mut rng.clone(), &mut job);
    needs(&mut rng.clone(), &mut job);
    if rng.clone().chance(10) {
        job["earliest_start_minutes"] = json!(rng.clone().range(0, 2));
    }
    resources(&mut rng.aside("needs"), &mut job);
    execution(&mut rng.clone(), &mut job);
    pools::uses(&mut rng.aside("pools"), &mut job);
    job
}

/// What it does when a parent failed for good.
fn when_parents_fail(rng: &mut Rng, job: &mut Value) {
    match rng.range(0, 10) {
        0..3 => {}
        3..8 => job["on_parent_failure"] = json!(["fail", "skip", "run"][rng.below(3)]),
        _ => job["run_if"] = json!("failure"),
    }
}

/// A value of its first parent in the arguments of its command, itself or by a parameter, or in a parameter of its final
/// command; that parent may or may not pass it on.
fn named_values(rng: &mut Rng, job: &mut Value) {
    let first = &job["parents"][0];
    let parent = first.as_str().or(first["job"].as_str()).unwrap_or_default();
    let value = format!("${{values.{parent}.rows}}");
    if rng.chance(75) && job["command"].is_string() {
        (job["command"], job["arguments"]) = (json!("echo"), json!([value]));
    } else if rng.chance(10) && job["command"].is_string() {
        (job["command"], job["arguments"]) = (json!("echo"), json!(["${param.rows}"]));
        job["parameters"] = json!({"rows": value});
    } else if rng.chance(20) && job["final_command"].is_string() {
        job["parameters"] = json!({"rows": value});
    }
}

/// In the place of a value of parents, or one more of them; or what cannot be resolved.
fn rows_by_hand(rng: &mut Rng) -> BTreeMap<String, String> {
    let text = match rng.range(0, 12) {
        0 | 1 => "7".to_owned(),
        2 => format!("${{values.j{}.rows}}", rng.below(12)),
        3 => "${param.of_nobody}".to_owned(),
        _ => return BTreeMap::new(),
    };
    [("rows".to_owned(), text)].into()
}

/// What its exit codes mean, and how its pauses grow.
fn after_failures(rng: &mut Rng, job: &mut Value) {
    if rng.chance(25) {
        job["exit_codes"] = json!({"no_retry": [2], "skip": [3]});
    }
    if rng.chance(25) {
        let factor = [1.0, 1.5, 2.0, 10.0][rng.below(4)];
        job["retry_backoff"] = json!({"factor": factor, "max_interval_s": 8, "jitter": rng.chance(50)});
    }
}

/// How its schedule is followed.
fn firing(rng: &mut Rng, job: &mut Value) {
    if job["schedule"].is_null() {
        return;
    }
    let overlap = rng.range(0, 12);
    let many = job["max_concurrent"] != 1;
    match overlap {
        0..2 => job["overlap"] = json!("skip"),
        2..4 if many => job["overlap"] = json!("allow"),
        4..6 if !many && job["depends_on_past"].is_null() => job["overlap"] = json!("cancel_old"),
        _ => {}
    }
    if rng.chance(10) && job["missed_runs"] != "none" {
        job["missed_runs"] = json!({"policy": job["missed_runs"], "max_lateness_s": rng.range(1, 20)});
    }
    if rng.chance(20) {
        let on = if rng.chance(80) { "working_days" } else { "holidays" };
        job["calendar"] = json!({"name": format!("c{}", rng.below(3)), "on": on});
    }
    if rng.chance(5) {
        job["valid_until"] = json!("2100-01-01T00:00:00+01:00");
        job["valid_from"] = json!("1990-01-01T00:00:00Z");
    }
}

fn calendar(rng: &mut Rng, name: &str, wall: tidemill_model::Timestamp) -> Value {
    let today = wall.to_zoned(jiff::tz::TimeZone::UTC).date().to_string();
    let mut calendar = json!({"name": name, "week": ["monday", "tuesday", "saturday", "sunday"]});
    match rng.range(0, 4) {
        0 => calendar["holidays"] = json!([today]),
        1 => calendar["working_days"] = json!([today]),
        2 => calendar["zone"] = json!("Asia/Tokyo"),
        _ => {
            calendar["holidays"] = json!([today]);
            calendar["working_days"] = json!(["2026-01-01"]);
        }
    }
    calendar
}

/// What it waits for outside.
fn needs(rng: &mut Rng, job: &mut Value) {
    // Not the draws that say by when it should have got somewhere.
    let mut rng = Rng::new(rng.next(), "needs", 0);
    if rng.chance(20) {
        job["inputs"] = json!([{"path": "/d0/${yyyyMMddHHmm}", "mark": "_SUCCESS"}]);
    }
    if rng.chance(10) {
        job["inputs"] = json!(["/d1", {"path": "/d0/${yyyyMMddHHmm}", "mark": "_SUCCESS"}]);
    }
    let mut data = rng.aside("outputs");
    if data.chance(20) {
        let outputs = ["/d0/${yyyyMMddHHmm}", "/d0/${yyyyMMddHHmm-1m}", "/d1"];
        job["outputs"] = json!([outputs[data.below(outputs.len())]]);
    }
    if rng.chance(12) {
        job["third_party"] = json!([CODES[rng.below(CODES.len())]]);
    }
    if rng.chance(12) {
        job["quality_gate"] = json!(true);
    }
}

/// How its attempts are executed.
fn execution(rng: &mut Rng, job: &mut Value) {
    let kind = job["type"].as_str().unwrap_or_default().to_owned();
    // Not the numbers that its timeouts are drawn from.
    rng.next();
    rng.next();
    if kind == "anchor" {
        return;
    }
    if rng.chance(25) {
        job["final_command"] = json!("echo ${batch_id} $TIDEMILL_RESULT");
    }
    if rng.chance(8) {
        job["worker_label"] = json!(["even", "odd", "none"][rng.below(3)]);
    }
    if kind == "noop" {
        return;
    }
    if rng.chance(10) {
        job["run_as"] = json!("etl");
        job["owner"] = json!(["ann", "bob"][rng.below(2)]);
    }
    if rng.chance(30) {
        job["success_check"] = json!("user_code");
    }
    if rng.chance(10) {
        job["expected_duration_s"] = json!(rng.range(1, 5));
    }
}

/// By when its batches should have got somewhere.
fn timeouts(rng: &mut Rng, job: &mut Value) {
    if rng.chance(15) {
        job["dependency_timeout_s"] = json!(rng.range(1, 20));
    }
    if rng.chance(15) {
        job["output_timeout_s"] = json!(rng.range(1, 20));
    }
    if rng.chance(10) {
        job["not_successful_by"] = json!(format!("{:02}:00:{:02}", rng.range(0, 24), rng.range(0, 60)));
        job["cancel_on_timeout"] = json!(rng.chance(50));
    }
}

/// What its batches need beside a slot.
fn resources(rng: &mut Rng, job: &mut Value) {
    if rng.chance(20) && job["type"] != "anchor" {
        job["memory_mb"] = json!(rng.range(1, 12) * 100);
    }
}

/// Fixed times of day, before and after the clocks are set back.
fn by_night(spec: &mut Value) {
    if spec.pointer("/schedule/cron").is_some() {
        spec["schedule"] = json!({"cron": "0/10 0,1,2,3,58,59 1,2,3 * * ?", "zone": "Europe/Berlin"});
    }
}

fn parents(rng: &mut Rng, group: &str, names: &[String], known: &[(String, String)]) -> Vec<Value> {
    let mut parents: Vec<Value> = Vec::new();
    let mut taken: Vec<String> = Vec::new();
    while rng.chance(45) && parents.len() < 3 {
        let own: Vec<(String, String)> = names.iter().map(|name| (group.to_owned(), name.clone())).collect();
        let from = if rng.chance(50) { &own[..] } else { known };
        let Some((of, name)) = rng.pick(from) else { break };
        // Only towards smaller names, so that most graphs have no cycle.
        let full = format!("{of}/{name}");
        if taken.contains(&full) {
            continue;
        }
        taken.push(full.clone());
        let mapping = match rng.range(0, 8) {
            0..2 => json!("same"),
            2 => json!({"offset": rng.range(1, 3)}),
            3 => json!("all"),
            4..7 => json!("latest"),
            _ => json!("any"),
        };
        parents.push(json!({"job": full, "mapping": mapping}));
    }
    parents
}
