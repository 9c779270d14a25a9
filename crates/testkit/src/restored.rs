//! OPS-5: the log is restored from a state that it had some seconds before. Its workers live on, and so do their questions, reports
//! and what they run; nobody but them knows what is lost.

use std::collections::BTreeSet;

use crate::happening::Happening;
use crate::known::KnownBatch;
use crate::log_fault::{LogFault, fault_injection};
use crate::oracle::Oracle;
use crate::rng::Rng;
use crate::world::World;
use tidemill_checker::Invariant;
use tidemill_dispatcher::{Life, Restoring, restored_records};
use tidemill_log::{Kind, Payload};
use tidemill_model::{
    BatchCommand, BatchEvent, BatchId, Command, CommandRecord, Envelope, Event, FinalCommandEvent, Json as _,
    RunningAttempt, ShardCommand, ShardId, TaskEvent, Token, WorkerCommand, WorkerEvent, WorkerId,
};

/// What left the owners before speaks of records that are lost: replies, and work orders whose attempts nobody knows any more.
pub(crate) const GIVEN_UP_BY_RESTORE: &[Invariant] =
    &[Invariant::AcknowledgedIsOnRecord, Invariant::WorkIsOnRecord];

/// The most that is lost, milliseconds.
const LOST_MS: u64 = 30_000;

impl World {
    pub(crate) fn restore(&mut self, rng: &mut Rng) -> LogFault {
        self.owners_go();
        let before = self.wall().as_millisecond().saturating_sub_unsigned(rng.range(1, LOST_MS));
        for partition in 0..self.plan.partitions {
            self.lose_appends(partition);
            self.lost_ids.extend(ids_in(&self.journal[partition as usize]));
        }
        // Owners write into their own log alone, which is gone.
        self.lose_messages();
        // What is lost of all of them was recorded after one moment.
        for at in 0..self.journal.len() {
            let keep = self.journal[at].partition_point(|record| record.timestamp_ms <= before).max(1);
            self.journal[at].truncate(keep);
            let keep = self.commands[at].partition_point(|record| record.timestamp_ms <= before);
            self.commands[at].truncate(keep);
        }
        let kept: BTreeSet<i64> = self.journal.iter().flat_map(|journal| ids_in(journal)).collect();
        self.lost_ids.retain(|id| !kept.contains(id));
        self.stats.add("log_fault", "restored");
        // What was said about records that are no more proves nothing any more.
        self.noted = Some(Vec::new());
        for partition in 0..self.plan.partitions {
            self.goes_on(partition);
        }
        LogFault::Restored
    }

    /// What owners have sent to other shards, and has not landed, never does.
    fn lose_messages(&mut self) {
        let is_lost = |what: &Happening| match what {
            Happening::CommandLands { value, .. } => CommandRecord::from_json(value).is_ok_and(|record| {
                matches!(
                    record.command,
                    Command::Shard(ShardCommand::Deliver { .. } | ShardCommand::Acknowledge { .. })
                )
            }),
            _ => false,
        };
        self.queue.retain(|_, what| !is_lost(what));
    }

    fn goes_on(&mut self, partition: u32) {
        let at = partition as usize;
        let mut oracle = Oracle::new(partition, self.plan.partitions, fault_injection(&self.plan));
        for record in &self.journal[at] {
            oracle.land(record.offset, &record.value, &mut self.stats);
        }
        let done = oracle.state.resume().map_or(0, |resume| resume.offset);
        // The copy was made before they were deleted.
        self.commands_from[at] = self.commands_from[at].min(done);
        let head = oracle.chain.head().expect("it has its genesis").clone();
        let restoring = Restoring { by: "simulator".to_owned(), incarnation: format!("restore-{partition}") };
        let log_id = head.log_id.restored(1).expect("it is short");
        let upto = self.journal[at].len() as u64 - 1;
        let (generation, ids_above) = (1, 1 << 16);
        let life = Life { log_id: &log_id, generation, ids_above, upto, now: self.wall() };
        let records = restored_records(&oracle.state, &head, &restoring, &life).expect("they are small");
        self.oracle[at] = oracle;
        for record in records {
            self.land(partition, record.into(), false);
        }
    }

    /// Somebody has a stray ended, or lets it count for a batch of its logical time, sometimes for one that cannot have it. The others end by
    /// themselves.
    pub(crate) fn people_decide_of_strays(&mut self, envelope: &Envelope) {
        for recorded in &envelope.events {
            match &recorded.event {
                Event::Worker(WorkerEvent::StraysFound { worker, strays, .. }) => {
                    for stray in strays {
                        self.stray_found(recorded.shard, worker, stray);
                    }
                }
                Event::Worker(WorkerEvent::StrayEnded { token, .. }) => {
                    self.strays.retain(|_, stray| stray != token);
                }
                Event::Batch(BatchEvent::Generated { batch, job, logical_time, .. }) => {
                    if let Some(token) = self.strays.get(&(*job, *logical_time)).copied() {
                        self.adopt(*batch, token);
                    }
                }
                _ => {}
            }
        }
    }

    fn stray_found(&mut self, shard: ShardId, worker: &WorkerId, stray: &RunningAttempt) {
        self.stats.add("condition", "stray");
        let mut rng = Rng::new(self.plan.seed, "stray", stray.token.0 as u64);
        self.strays.insert((stray.job, stray.logical_time), stray.token);
        let is_other = rng.chance(10);
        let is_of = |known: &KnownBatch| {
            let time = (known.job, known.logical_time) == (stray.job, stray.logical_time);
            !known.finished && (time || is_other)
        };
        let batch = self.known.batches.iter().rev().find(|(_, known)| is_of(known)).map(|(id, _)| *id);
        match (rng.range(0, 3), batch) {
            (0, _) => {
                let (worker, reason) = (worker.clone(), "it runs again".to_owned());
                let command = WorkerCommand::EndStray { worker, token: stray.token, reason };
                self.ask_later(shard, command, rng.range(50, 5_000));
            }
            (_, Some(batch)) => self.adopt(batch, stray.token),
            (_, None) => {}
        }
    }

    fn adopt(&mut self, batch: BatchId, token: Token) {
        let mut rng = Rng::new(self.plan.seed, "adoption", token.0 as u64);
        if rng.chance(60) {
            let reason = "it does the same".to_owned();
            self.ask_later(batch.shard(), BatchCommand::Adopt { batch, token, reason }, rng.range(50, 2_000));
        }
    }

    /// What the lost life gave to the world is not given again, whoever mints it.
    pub(crate) fn gives_nothing_twice(&mut self) {
        let given: Vec<i64> = self.journal.iter().flat_map(|journal| ids_in(journal)).collect();
        if let Some(id) = given.into_iter().find(|id| self.lost_ids.contains(id)) {
            self.is_wrong(format!("id {id} was given in the life that is lost, and is given twice"));
        }
    }
}

/// Ids of batches, assignments and grants that are minted in a journal.
fn ids_in(journal: &[tidemill_log::Record]) -> Vec<i64> {
    let minted = |value: &Payload| {
        let header = value.header().ok().filter(|header| header.kind == Kind::Envelope);
        let envelope = header.and_then(|_| Envelope::from_json(&value.body()).ok());
        let events = envelope.map(|envelope| envelope.events).unwrap_or_default();
        events.into_iter().filter_map(|recorded| id_of(&recorded.event)).collect::<Vec<_>>()
    };
    journal.iter().flat_map(|record| minted(&record.value)).collect()
}

fn id_of(event: &Event) -> Option<i64> {
    match event {
        Event::Batch(BatchEvent::Assigned { token, .. })
        | Event::FinalCommand(FinalCommandEvent::Assigned { token, .. }) => Some(token.0),
        Event::Task(TaskEvent::Granted { grant, .. }) => Some(grant.0),
        _ => None,
    }
}
