//! What must change nothing: garbage, commands for another shard, claims of others, requests of long ago.

use std::collections::BTreeMap;

use tidemill_model::{
    CatalogueCommand, Command, CommandRecord, Incarnation, JobType, Registration, RequestId, ShardCommand,
    ShardId, Token, WorkerCommand, WorkerId,
};

use crate::happening::Then;
use crate::{Rng, World};

impl World {
    /// What cannot be read, or whose decision panics.
    pub(super) fn garbage(&mut self, rng: &mut Rng) {
        let partition = rng.range(0, u64::from(self.plan.partitions)) as u32;
        if rng.chance(50) {
            let value = b"{\"shard\": \"none\"}"[..].into();
            self.stats.add("sent", "garbage");
            self.send_raw(partition, value, 0, Then::Nobody);
        } else {
            let shard = if rng.chance(50) { ShardId::CATALOGUE } else { ShardId(1) };
            self.ask(shard, ShardCommand::PlantedPanic {});
        }
    }

    /// What is not for the shard that it reaches.
    pub(super) fn stray(&mut self, rng: &mut Rng) {
        let (worker, incarnation) = (WorkerId::new("w0-1"), Incarnation::new("w0-1-life-1"));
        match rng.range(0, 3) {
            0 => self.ask(ShardId(1), WorkerCommand::DeclareLost { worker, incarnation }),
            1 => self.ask(ShardId(1), CatalogueCommand::RevokeKey { app: "app0".to_owned() }),
            _ => self.ask_catalogue(WorkerCommand::Drain { worker }),
        };
    }

    /// Claims of workers that they cannot make.
    pub(super) fn impostor(&mut self, rng: &mut Rng) {
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
                keeps: None,
                types: BTreeMap::new(),
                live: Vec::new(),
                running: Vec::new(),
                number: 0,
                signature: "00".repeat(64),
            })))
        } else {
            let token = rng.pick(&self.known.tokens).map_or(Token::mint(1, shard), |(token, _)| *token);
            let outcome = tidemill_model::AttemptOutcome::success();
            Command::Worker(WorkerCommand::ReportFinished {
                token,
                worker,
                outcome,
                usage: None,
                interrupted: false,
                external: None,
            })
        };
        let shard = match &command {
            Command::Worker(WorkerCommand::ReportFinished { token, .. }) => token.shard(),
            _ => shard,
        };
        self.ask(shard, command);
    }

    pub(super) fn repeat_an_old_client_request(&mut self, rng: &mut Rng) {
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
}
