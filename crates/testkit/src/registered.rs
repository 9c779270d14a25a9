//! Processes that register with the catalogue, and are replaced by newer ones while everything goes on (rule 13).

use tidemill_model::{InstanceId, Level, LevelCommand, Process, RequestId, ShardId};

use crate::clients::by_state;
use crate::happening::{Happening, ProcessStep, Then};
use crate::rng::Rng;
use crate::world::{HOSTS, World, unasked};

/// Between two signs of life.
const SHOWN_EVERY_MS: u64 = 2_000;
const EXPIRE_AFTER_MS: u64 = 9_000;
/// Beside the dispatchers: roles of which nothing is played but that they register.
const OTHERS: usize = 2;

/// One process, and those that replace it.
#[derive(Debug)]
pub(crate) struct RegisteredProcess {
    life: u64,
    reads: Level,
    up: bool,
    /// Signs of life.
    shown: u64,
}

impl World {
    /// In three of ten histories processes register, all of the first level; and in those with snapshots or rights, which are
    /// of the second, of that or of the newest.
    pub(crate) fn registered_processes_begin(&mut self) {
        let mut rng = Rng::new(self.plan.seed, "registered", 0);
        let reads = match (rng.chance(30), self.plan.rights || self.has_snapshots()) {
            (_, true) if self.plan.rights => second_or_newest(&mut rng),
            (true, _) => Level::FIRST,
            (false, true) => second_or_newest(&mut rng),
            (false, false) => return,
        };
        for index in 0..HOSTS + OTHERS {
            self.registered.push(RegisteredProcess { life: 0, reads, up: false, shown: 0 });
            self.at(rng.range(500, 3_000), self.registered_step(index, ProcessStep::Begins));
            self.at(
                rng.range(self.plan.end / 4, self.plan.end),
                self.registered_step(index, ProcessStep::Ends),
            );
        }
    }

    fn registered_step(&self, index: usize, what: ProcessStep) -> Happening {
        Happening::RegisteredProcess { index, what }
    }

    pub(crate) fn registered_process(&mut self, index: usize, what: ProcessStep) {
        // At the end of the history all of them are gone, and expire.
        if self.healed {
            return;
        }
        let mut rng = Rng::new(self.plan.seed, "registered", self.now * 16 + index as u64);
        match what {
            ProcessStep::Begins => self.registered_begins(index, &mut rng),
            ProcessStep::ShowsLife { life } if self.registered[index].life == life => self.shows_life(index),
            ProcessStep::ShowsLife { .. } => {}
            ProcessStep::Ends => self.registered_ends(index, &mut rng),
        }
    }

    fn registered_begins(&mut self, index: usize, rng: &mut Rng) {
        let process = &mut self.registered[index];
        process.life += 1;
        process.up = true;
        let (life, reads) = (process.life, process.reads);
        if let Some(host) = self.hosts.get_mut(index) {
            host.config.reads = host.config.reads.max(reads);
        }
        self.tell(|| format!("process {index}-{life} begins, and reads level {reads}"));
        if rng.chance(60) {
            let request = RequestId::new(by_state(self.requests + 1));
            let command = self.register(index);
            self.ask_with(request, ShardId::CATALOGUE, command, 0);
        }
        self.shows_life(index);
    }

    fn register(&mut self, index: usize) -> LevelCommand {
        self.registered[index].shown += 1;
        let number = self.registered[index].shown;
        LevelCommand::RegisterProcess { process: Box::new(self.registration(index)), number }
    }

    fn registration(&self, index: usize) -> Process {
        let RegisteredProcess { life, reads, .. } = self.registered[index];
        Process {
            id: InstanceId::new(format!("process-{index}-{life}")),
            host: format!("host-{index}"),
            roles: vec![if index < HOSTS { "dispatcher" } else { "api" }.to_owned()],
            version: "0".to_owned(),
            reads,
            expire_after_ms: EXPIRE_AFTER_MS,
        }
    }

    fn shows_life(&mut self, index: usize) {
        let RegisteredProcess { life, up, .. } = self.registered[index];
        if !up {
            return;
        }
        let command = self.register(index);
        self.send(&unasked("process", ShardId::CATALOGUE, command), 0, Then::Nobody);
        self.after(SHOWN_EVERY_MS, self.registered_step(index, ProcessStep::ShowsLife { life }));
    }

    /// In order or not; another one follows, mostly a newer one.
    fn registered_ends(&mut self, index: usize, rng: &mut Rng) {
        let id = self.registration(index).id;
        self.registered[index].up = false;
        if rng.chance(60) {
            let command = LevelCommand::DeregisterProcess { process: id };
            self.send(&unasked("process", ShardId::CATALOGUE, command), 0, Then::Nobody);
        }
        self.registered[index].reads =
            if rng.chance(80) { second_or_newest(&mut rng.aside("newest")) } else { Level::FIRST };
        self.after(rng.range(500, 4_000), self.registered_step(index, ProcessStep::Begins));
        self.after(
            rng.range(self.plan.end / 4, self.plan.end),
            self.registered_step(index, ProcessStep::Ends),
        );
    }

    /// Holds the level, or lets it be raised.
    pub(crate) fn hold_level(&mut self) {
        let command = match self.known.is_held {
            true => LevelCommand::Release { reason: String::new() },
            false => LevelCommand::Hold { reason: "a try".to_owned() },
        };
        self.ask_catalogue(command);
    }

    /// The program of a host that is too old for the log is replaced.
    pub(crate) fn replace_host(&mut self, host: usize) {
        self.stats.add("condition", "owner_too_old");
        self.hosts[host].config.reads = Level::READS;
    }
}

fn second_or_newest(rng: &mut Rng) -> Level {
    let is_third = rng.aside("third").chance(20);
    match rng.chance(30) {
        true => Level::new(2),
        false if is_third => Level::new(3),
        false => Level::READS,
    }
}
