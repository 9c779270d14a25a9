//! Batches: submitted, run for a logical time, run again, killed, marked, one by one or many at once.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use tidemill_model::{
    BatchCommand, BatchId, BulkAction, BulkCommand, BulkOutcome, GroupId, JobId, JobType, Level,
    OverriddenResult, Priority, Program, RecordedBatch, ShardId, Submission, Token, WorkerCommand,
};

use crate::known::KnownJob;
use crate::plan::Mode;
use crate::{Rng, World};

impl World {
    pub(super) fn submit(&mut self, rng: &mut Rng) {
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
        let program = match kind {
            "noop" | "anchor" => Program::None,
            _ => Program::Command("true".to_owned()),
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
        self.ask(shard, BatchCommand::SubmitJob(Box::new(submission)));
    }

    pub(super) fn run_job(&mut self, rng: &mut Rng) {
        let Some(job) = self.some_job(rng, true) else { return self.submit(rng) };
        let logical_time = rng.chance(40).then(|| {
            let second = SignedDuration::from_secs(rng.range(0, 120) as i64 - 60);
            let text = (self.wall() + second).as_second() / 10 * 10;
            tidemill_model::Timestamp::from_second(text).unwrap_or(self.wall())
        });
        let parameters = rows_by_hand(&mut rng.aside("values"));
        let concurrent = rng.aside("concurrent").chance(60);
        self.ask(job.shard, BatchCommand::RunJob { job: job.id, logical_time, parameters, concurrent });
    }

    /// One job for many logical times, so many that the oldest are forgotten.
    pub(super) fn run_often(&mut self, rng: &mut Rng) {
        let quick = |job: &&KnownJob| matches!(job.kind.as_str(), "noop" | "anchor");
        let jobs: Vec<_> = self.known.jobs.values().filter(quick).cloned().collect();
        let Some(job) = rng.pick(&jobs) else { return self.submit(rng) };
        let end = self.wall().as_second() / 10 * 10;
        for back in 0..24_u64 {
            let logical_time = tidemill_model::Timestamp::from_second(end - 10 * back as i64).ok();
            let parameters = BTreeMap::new();
            let command = BatchCommand::RunJob { job: job.id, logical_time, parameters, concurrent: true };
            self.ask_later(job.shard, command, 150 * (24 - back));
        }
    }

    pub(super) fn rerun(&mut self, rng: &mut Rng) {
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
        self.ask(shard, BatchCommand::Rerun { batch, job, logical_time, recorded });
    }

    pub(super) fn kill(&mut self, rng: &mut Rng) {
        let of_job = rng.chance(20);
        let unfinished = self.known.unfinished();
        let any: Vec<_> = self.known.batches.keys().copied().collect();
        let batch = if rng.chance(80) { rng.pick(&unfinished) } else { rng.pick(&any) };
        let Some(batch) = batch.copied() else { return self.submit(rng) };
        let job = self.known.batches.get(&batch).map(|known| known.job);
        let command = match job {
            Some(job) if of_job => BatchCommand::KillJob { job },
            Some(_) | None => BatchCommand::Kill { batch, reason: "because".to_owned() },
        };
        self.ask(batch.shard(), command);
    }

    /// EXE-12: somebody who has looked vouches that nothing of an attempt runs: its process began, and is gone. Now and then without
    /// a reason, or of an attempt that the batch does not have.
    pub(super) fn vouch_for_an_end(&mut self, rng: &mut Rng) {
        // Nobody writes what the catalogue's level does not allow yet.
        let stands = self.oracle[0].state.level().allows(Level::LIMITS);
        if self.plan.mode != Mode::Usual || !stands {
            return;
        }
        let runs = |token: &Token| self.clusters.iter().any(|cluster| cluster.processes.contains_key(token));
        let is_gone = |(_, token): &(&BatchId, &Token)| self.known.begun.contains(token) && !runs(token);
        let gone: Vec<_> =
            self.known.running.iter().filter(is_gone).map(|(id, token)| (*id, *token)).collect();
        let Some((batch, token)) = rng.pick(&gone).copied() else { return };
        let token = if rng.chance(90) { token } else { Token::mint(77_777, batch.shard()) };
        let reason = if rng.chance(95) { "looked there".to_owned() } else { String::new() };
        self.ask(batch.shard(), BatchCommand::VouchEnded { batch, token, reason });
    }

    /// Somebody says how a batch ended, mostly one of the newest, sometimes without a reason.
    pub(super) fn mark(&mut self, rng: &mut Rng) {
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
            BatchCommand::OverrideResult { batch, job, logical_time, result, reason, run },
        );
    }

    /// BYD-3: an operation, and what interfaces report of those that are open, twice and in pieces.
    pub(super) fn bulk(&mut self, rng: &mut Rng) {
        let open: Vec<_> = self.known.bulks.iter().map(|(bulk, items)| (*bulk, items.clone())).collect();
        if let Some((bulk, items)) = rng.pick(&open).cloned().filter(|_| rng.chance(70)) {
            let from = rng.below(items.len());
            let refused = rng.chance(20).then(|| "as seen".to_owned());
            let outcome = |item: &i64| BulkOutcome { item: *item, refused: refused.clone(), rerun: None };
            let outcomes = items[from..].iter().map(outcome).collect();
            self.ask_catalogue(BulkCommand::Report { bulk, outcomes });
            return;
        }
        let items: Vec<i64> = self.known.batches.keys().map(|batch| batch.0).take(rng.below(12)).collect();
        let reason = if rng.chance(90) { "as seen".to_owned() } else { String::new() };
        self.ask_catalogue(BulkCommand::Request { action: BulkAction::Kill, items, reason });
    }

    /// The program of a late attempt reports a code.
    pub(super) fn report_user_code(&mut self, rng: &mut Rng) {
        let tokens = self.known.tokens.iter().rev().map(|(token, _)| *token);
        let (live, ended): (Vec<_>, Vec<_>) = tokens.partition(|token| !self.known.ended.contains(token));
        let late: Vec<Token> = live.into_iter().take(5).chain(ended.into_iter().take(2)).collect();
        for token in late {
            let code = if rng.chance(70) { 0 } else { rng.range(1, 4) as i32 };
            self.ask(token.shard(), WorkerCommand::ReportUserCode { token, code, seal: String::new() });
        }
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
