//! One history from its seed to its verdict.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tidemill_checker::{Checker, Options};
use tidemill_dispatcher::Role;
use tidemill_engine::OutboxSender;
use tidemill_log::Record;
use tidemill_model::{
    BatchCommand, CatalogueCommand, JobCommand, JobId, LiveAnswer, LiveQuery, RerunCommand, WorkerCommand,
};

use crate::clients::is_by_state;
use crate::coverage::Stats;
use crate::host::text_of;
use crate::plan::{Fault, LEAST_COMMANDS, LEAST_FAULTS, Mask, Mode, Plan};
use crate::world::World;

/// After healing, everything must have come to rest within this, in the simulator's time: after days without work a job
/// may have a hundred runs to make up for, one after the other.
const REST_WITHIN_MS: u64 = 3_600_000;
const LOOK_EVERY_MS: u64 = 2_000;
/// The requests beyond those of the plan have numbers from here on, and these pauses between them.
const FIRST_MORE: usize = 1_000;
const MORE_EVERY_MS: u64 = 300;

/// What a history was, and whether it was right.
#[derive(Debug, Clone)]
pub struct Report {
    /// From which all follows.
    pub seed: u64,
    /// What happened how often.
    pub stats: Stats,
    /// The last hashes of all journals: equal for equal histories.
    pub hash: String,
    /// What should not have been; empty: all is well.
    pub wrong: Vec<String>,
    /// What happened, line by line, where it was asked for.
    pub trace: Vec<String>,
}

/// Runs the history of a seed.
#[must_use]
pub fn run(seed: u64, mask: &Mask, trace: bool) -> Report {
    run_in(Mode::Usual, seed, mask, trace)
}

/// Runs the history of a seed in a mode.
#[must_use]
pub fn run_in(mode: Mode, seed: u64, mask: &Mask, trace: bool) -> Report {
    run_world(World::of(Plan::new(seed, mode, mask), trace))
}

/// The journals of a usual history, by partition.
#[must_use]
pub fn journals(seed: u64) -> Vec<Vec<Record>> {
    let mut world = World::of(Plan::new(seed, Mode::Usual, &Mask::default()), false);
    world.live_and_judge();
    world.journal
}

/// Lives through it, whatever it is, to the verdict.
pub(crate) fn run_world(mut world: World) -> Report {
    let seed = world.plan.seed;
    let lived = catch_unwind(AssertUnwindSafe(|| world.live_and_judge()));
    if let Err(panic) = lived {
        world.is_wrong(format!("a panic: {}", text_of(&*panic)));
    }
    let hash = world.hash();
    Report {
        seed,
        stats: std::mem::take(&mut world.stats),
        hash,
        wrong: std::mem::take(&mut world.wrong),
        trace: world.trace.take().unwrap_or_default(),
    }
}

/// Leaves out faults, then requests, as long as it still fails in the same way.
#[must_use]
pub fn shrink(mode: Mode, seed: u64) -> (Mask, Report) {
    let mut mask = Mask::default();
    let mut report = run_in(mode, seed, &mask, false);
    let Some(kind) = report.wrong.first().map(|what| kind_of(what)) else { return (mask, report) };
    let plan = Plan::new(seed, mode, &mask);
    let mut attempt = |mask: &mut Mask, next: Mask| {
        let tried = run_in(mode, seed, &next, false);
        if tried.wrong.first().is_some_and(|what| kind_of(what) == kind) {
            (*mask, report) = (next, tried);
        }
    };
    for fault in &plan.faults {
        let mut next = mask.clone();
        next.faults.push(fault.index);
        attempt(&mut mask, next);
    }
    let mut chunk = plan.client_requests.len() / 2;
    while chunk > 0 {
        for part in plan.client_requests.chunks(chunk) {
            let mut next = mask.clone();
            let more =
                part.iter().map(|(index, _)| *index).filter(|index| !mask.client_requests.contains(index));
            next.client_requests.extend(more.collect::<Vec<_>>());
            if next != mask {
                attempt(&mut mask, next);
            }
        }
        chunk /= 2;
    }
    (mask, report)
}

/// What is wrong, without its numbers.
fn kind_of(what: &str) -> String {
    what.split(": ").nth(1).unwrap_or(what).chars().filter(|c| !c.is_ascii_digit()).take(30).collect()
}

impl World {
    fn live_and_judge(&mut self) {
        self.run_until(self.plan.end);
        self.client_request_more();
        self.heal();
        if self.live_on() {
            self.come_to_rest();
            self.compare();
            self.check();
        }
        self.is_rich_enough();
    }

    /// A history without a mode's loss, up to where it is judged.
    #[cfg(feature = "planted")]
    pub(crate) fn live(&mut self) {
        self.run_until(self.plan.end);
        self.client_request_more();
        self.heal();
        self.come_to_rest();
    }

    /// Until there are as many commands as a history has at least.
    fn client_request_more(&mut self) {
        let mut index = FIRST_MORE;
        while self.plan.whole
            && self.wrong.is_empty()
            && self.sent() < LEAST_COMMANDS
            && index < 2 * FIRST_MORE
        {
            self.client_request(index);
            self.run_until(self.now + MORE_EVERY_MS);
            index += 1;
        }
    }

    /// The commands in the log, of all times.
    fn sent(&self) -> usize {
        self.commands.iter().chain(&self.lost_commands).map(Vec::len).sum()
    }

    fn come_to_rest(&mut self) {
        self.run_until(self.now + 5_000);
        self.quieten();
        // A late request, delayed and then doubled, may switch a job on after all were switched off.
        self.run_until(self.now + 14_000);
        self.quieten();
        self.rest("nothing is left but what waits for what never comes", Self::is_settled);
        for batch in self.known.unfinished() {
            let reason = "the end of the history".to_owned();
            self.ask(batch.shard(), BatchCommand::Kill { batch, reason });
        }
        self.rest("every batch has ended and every owner has read everything", Self::is_at_rest);
    }

    fn rest(&mut self, what: &str, is_reached: fn(&Self) -> Result<(), String>) {
        let end = self.now + REST_WITHIN_MS;
        while self.wrong.is_empty() {
            let Err(missing) = is_reached(self) else { return };
            if self.now >= end {
                return self.is_wrong(format!("not within {REST_WITHIN_MS} ms: {what}; {missing}"));
            }
            self.run_until(self.now + LOOK_EVERY_MS);
        }
    }

    /// No more generation; every worker takes work.
    fn quieten(&mut self) {
        for job in self.known.jobs.clone().into_values().filter(|job| job.enabled && !job.submitted) {
            self.ask_catalogue(JobCommand::Switch { job: job.id, enabled: false });
        }
        for group in self.known.frozen.clone() {
            self.ask_catalogue(CatalogueCommand::LiftFreeze { group, reason: String::new() });
        }
        for (worker, shard) in self.known.workers.clone() {
            self.ask(shard, WorkerCommand::Resume { worker });
        }
        for rerun in self.known.reruns.clone() {
            self.ask_catalogue(RerunCommand::Cancel { rerun, kill: false });
        }
    }

    fn is_settled(&self) -> Result<(), String> {
        self.all_answered()?;
        self.all_delivered()?;
        if let Some(job) = self.known.jobs.values().find(|job| job.enabled && !job.submitted) {
            return Err(format!("job {} is enabled", job.id));
        }
        // Its job's limit may be taken up by one that waits for ever.
        let mut stuck = BTreeSet::new();
        let mut limited = Vec::new();
        for batch in self.known.unfinished() {
            let shard = batch.shard();
            let job = self.known.batches.get(&batch).map(|known| known.job);
            let oracle = &self.oracle[shard.partition(self.plan.partitions) as usize];
            let LiveAnswer::Why(why) = oracle.state.answer(shard, &LiveQuery::Why { batch }) else {
                return Err(format!("nobody knows why {batch}"));
            };
            let has = |kinds: &[&str]| why.conditions.iter().any(|c| kinds.contains(&c.kind.as_str()));
            if has(&["pinned_host", "worker_label", "no_worker", "no_memory"]) {
                stuck.extend(job);
            } else if has(&["concurrency"]) {
                limited.push((job, why));
            } else if !has(&[
                "dependency",
                "parent_deleted",
                "disabled",
                "path",
                "third_party",
                "quality_gate",
            ]) {
                return Err(format!("{why:?}"));
            }
        }
        let waits = |job: &Option<JobId>| job.is_some_and(|job| stuck.contains(&job));
        if let Some((_, why)) = limited.into_iter().find(|(job, _)| !waits(job)) {
            return Err(format!("{why:?}"));
        }
        if self.clusters.iter().any(|cluster| !cluster.processes.is_empty()) {
            return Err("processes live".to_owned());
        }
        Ok(())
    }

    fn all_delivered(&self) -> Result<(), String> {
        let waits = |oracle: &crate::oracle::Oracle| OutboxSender::default().is_waiting(&oracle.state);
        match self.oracle.iter().position(waits) {
            Some(partition) => Err(format!("partition {partition} has messages that did not arrive")),
            None => Ok(()),
        }
    }

    fn all_answered(&self) -> Result<(), String> {
        match self.requested.iter().find(|(_, requested)| requested.answer.is_none()) {
            Some((request, requested)) => {
                Err(format!("no answer to {request}: {:?}", requested.record.command))
            }
            None => Ok(()),
        }
    }

    fn is_at_rest(&self) -> Result<(), String> {
        self.all_answered()?;
        self.all_delivered()?;
        if let Some(batch) = self.known.unfinished().first() {
            return Err(format!("batch {batch} has not ended"));
        }
        if let Some(rerun) = self.known.reruns.first() {
            return Err(format!("rerun {rerun} has not ended"));
        }
        for group in self.oracle.iter().flat_map(|oracle| oracle.state.groups()) {
            match group.unfinished_final_commands() {
                0 => {}
                left => return Err(format!("{left} final commands of shard {} have not ended", group.id())),
            }
        }
        for partition in 0..self.plan.partitions as usize {
            let seats: Vec<_> = self.hosts.iter().filter_map(|host| host.seats[partition].as_ref()).collect();
            let [seat] = &seats[..] else {
                return Err(format!("{} processes have partition {partition}", seats.len()));
            };
            if seat.owner.role() != Role::Owning {
                return Err(format!("partition {partition} is {:?}", seat.owner.role()));
            }
            if seat.commands_read != Some(self.commands[partition].len()) || seat.owner.backlog() > 0 {
                return Err(format!("commands of partition {partition} are not read"));
            }
            if seat.owner.state().is_none() {
                return Err(format!("an append to partition {partition} is under way"));
            }
        }
        Ok(())
    }

    /// fold(journal) is what the owner holds; everybody who was answered was told what is on record.
    pub(crate) fn compare(&mut self) {
        if !self.wrong.is_empty() {
            return;
        }
        for partition in 0..self.plan.partitions as usize {
            let oracle = &self.oracle[partition].state;
            let states = self.hosts.iter().filter_map(|host| host.seats[partition].as_ref());
            let differs = states.filter_map(|seat| seat.owner.state()).any(|state| state != oracle);
            if differs {
                self.is_wrong(format!(
                    "the owner of partition {partition} holds another state than its journal"
                ));
            }
        }
        self.begun_are_on_record();
        self.clients_were_told_so();
        for (request, requested) in std::mem::take(&mut self.requested) {
            let told = self.known.told.get(&request).map(Vec::as_slice).unwrap_or_default();
            let recorded = match is_by_state(&request) {
                true => told.iter().find(|outcome| requested.answer.as_ref() == Some(*outcome)),
                false => self.known.outcomes.get(&request),
            };
            if requested.answer.as_ref() != recorded {
                let answer = requested.answer;
                self.is_wrong(format!("{request} was answered {answer:?}, on record is {recorded:?}"));
            }
        }
    }

    fn check(&mut self) {
        if !self.wrong.is_empty() {
            return;
        }
        let report = self.checked(true);
        let shown: Vec<String> = report.violations.iter().take(3).map(ToString::to_string).collect();
        for violation in shown {
            self.is_wrong(format!("checker: {violation}"));
        }
    }

    /// The generator keeps what it promises.
    fn is_rich_enough(&mut self) {
        if !self.plan.whole || !self.wrong.is_empty() {
            return;
        }
        let commands = self.sent();
        let faults = self.stats.of_class("fault");
        if commands < LEAST_COMMANDS || faults < LEAST_FAULTS {
            self.is_wrong(format!("only {commands} commands, {faults} faults"));
        }
    }

    /// What the checker says of all that is on record.
    pub(crate) fn checked(&self, at_rest: bool) -> tidemill_checker::Report {
        // Owners work with a clock that is off by 5 s and as long as their claim was on its way, which is 9 s at
        // most, and that steps by 5 s later.
        let steps = self.plan.faults.iter().any(|planned| planned.fault == Fault::StepClock);
        let clock_tolerance_ms = if steps { 20_000 } else { 500 };
        let options = Options { at_rest, effects: true, clock_tolerance_ms, ..Options::default() };
        let mut checker = Checker::new(options);
        for (partition, records) in self.commands.iter().enumerate() {
            let lost = &self.lost_commands[partition];
            for record in if lost.is_empty() { records } else { lost } {
                let taken_ms = Some(record.timestamp_ms);
                checker.push_command(partition as u32, record.offset, taken_ms, &record.value);
            }
        }
        for (partition, records) in self.journal.iter().enumerate() {
            let envelopes = &self.oracle[partition].envelopes;
            for record in records {
                let decoded = envelopes.get(&record.offset).map(AsRef::as_ref);
                let (partition, at) = (partition as u32, record.timestamp_ms);
                checker.push_decoded(partition, record.offset, at, &record.value, decoded);
            }
        }
        for reply in &self.replies {
            checker.push_reply(reply);
        }
        for message in &self.works {
            checker.push_work(message);
        }
        checker.finish()
    }
}
