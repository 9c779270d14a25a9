//! What worker processes and shims do in the simulated world.

use tidemill_executor::{ExitRecord, Input, KilledBecause, Lease, Output, ProcessEnd, Tag};
use tidemill_model::{Actor, Command, CommandRecord, Envelope, Event, RunSpec, Token, WorkMessage, WorkerId};

use crate::plan::Mode;
use crate::rng::Rng;
use crate::site::{Entry, Process, Site};
use crate::world::{Happening, Then, World};

/// From one look at the clock to the next.
const TICK_MS: u64 = 500;

impl World {
    pub(crate) fn worker_begins(&mut self, index: usize, life: u64) {
        let site = &mut self.sites[index];
        if site.worker.is_some() || site.life != life {
            return;
        }
        site.start();
        let life = site.life;
        let mut found = Vec::new();
        for (token, entry) in &mut site.directory {
            let end = match entry {
                Entry::Wanted | Entry::Unwanted { .. } => Some(ProcessEnd::Abandoned),
                Entry::Runs => None,
                Entry::Ended(record) => Some(ProcessEnd::Recorded(record.clone())),
                Entry::Vanished => Some(ProcessEnd::Vanished),
            };
            found.push(Input::Found { token: *token, end });
        }
        self.tell(|| format!("worker {index} begins life {life}, finds {}", found.len()));
        for input in found {
            self.worker_steps(index, input);
        }
        self.after(0, Happening::WorkerTick { site: index, life });
    }

    pub(crate) fn worker_tick(&mut self, index: usize, life: u64) {
        let (now, site) = (self.now, &self.sites[index]);
        if site.life != life || site.worker.is_none() {
            return;
        }
        if now < site.paused_until {
            return self.at(site.paused_until, Happening::WorkerTick { site: index, life });
        }
        let (boottime_ms, measure) = (site.boot(now), site.measure(self.plan.seed, now));
        self.worker_steps(index, Input::Measured(measure));
        self.worker_steps(index, Input::Ticked { boottime_ms });
        self.fill_disk(index);
        self.after(TICK_MS, Happening::WorkerTick { site: index, life });
    }

    /// Now and then a disk is full, for a while.
    fn fill_disk(&mut self, index: usize) {
        let now = self.now;
        let site = &mut self.sites[index];
        if site.full_until > 0 {
            if site.full_until <= now {
                site.full_until = 0;
                self.worker_steps(index, Input::Fitness { unfit: None });
            }
            return;
        }
        let mut rng = Rng::new(self.plan.seed, "disk", now ^ ((index as u64) << 40));
        if rng.range(0, 250) == 0 && now < self.plan.end {
            site.full_until = now + rng.range(1_000, 12_000);
            self.worker_steps(index, Input::Fitness { unfit: Some("its disk is full".to_owned()) });
        }
    }

    pub(crate) fn worker_hears(&mut self, index: usize, life: u64, input: Input) {
        let (now, site) = (self.now, &self.sites[index]);
        if site.life != life || site.worker.is_none() {
            return;
        }
        if now < site.paused_until {
            let input = Box::new(input);
            return self.at(site.paused_until, Happening::Worker { site: index, life, input });
        }
        let boottime_ms = site.boot(now);
        self.worker_steps(index, Input::Ticked { boottime_ms });
        self.worker_steps(index, input);
    }

    fn worker_steps(&mut self, index: usize, input: Input) {
        if !matches!(input, Input::Ticked { .. } | Input::Measured(_)) {
            self.tell(|| format!("worker {index} hears {input:?}"));
        }
        let Some(worker) = self.sites[index].worker.as_mut() else { return };
        for output in worker.step(input) {
            self.worker_acts(index, output);
        }
    }

    fn worker_acts(&mut self, index: usize, output: Output) {
        match output {
            Output::Append { tag, command } => self.worker_appends(index, tag, command),
            Output::Look { token, checks } => self.look_at_paths(index, token, &checks),
            Output::Spawn { spec, lease, grace_ms } => self.spawn(index, &spec, lease, grace_ms),
            Output::KillProcess { token, grace_ms, because } => {
                let now = self.now;
                self.tell(|| format!("worker {index} ends {token}: {}", because.as_str()));
                let site = &mut self.sites[index];
                if let Some(process) = site.processes.get_mut(&token) {
                    process.end(now, grace_ms, because);
                    self.look_later(index, token);
                } else if let Some(entry @ Entry::Wanted) = site.directory.get_mut(&token) {
                    *entry = Entry::Unwanted { grace_ms, because };
                }
            }
            Output::RenewLease(lease) => self.renew(index, lease),
            Output::Forget { token } => {
                self.sites[index].directory.remove(&token);
            }
            Output::Exit => {
                self.tell(|| format!("worker {index} exits"));
                self.stop_worker_process(index);
                let life = self.sites[index].life;
                let wait = self.rng.range(500, 5_000);
                self.after(wait, Happening::WorkerBegins { site: index, life });
            }
        }
    }

    fn worker_appends(&mut self, index: usize, tag: Tag, command: Command) {
        let now = self.now;
        let site = &self.sites[index];
        let life = site.life;
        let is_heartbeat = matches!(command, Command::Heartbeat(_));
        let is_lost = now < site.cut_until || is_heartbeat && now < site.mute_until;
        let actor = Actor { app: "worker".into(), user: None };
        let record = CommandRecord { shard: site.shard, request: None, reply_to: None, actor, command };
        let wait = site.floor.saturating_sub(now);
        self.tell(|| {
            format!("worker {index} says {:?}{}", record.command, if is_lost { ", lost" } else { "" })
        });
        if is_lost {
            self.stats.add("lost", "worker_append");
            if self.rng.chance(20) {
                let late = self.rng.range(500, 10_000);
                self.send(&record, late, Then::Nobody);
            }
            let input = Box::new(Input::Failed(tag));
            return self.after(2_000, Happening::Worker { site: index, life, input });
        }
        let at = self.send(&record, wait, Then::Worker(index, life, tag));
        if at < now + 500 {
            self.sites[index].floor = at;
        }
    }

    /// A message of an owner is on its way to a worker.
    pub(crate) fn work(&mut self, worker: &WorkerId, message: WorkMessage, hop: u64) {
        let now = self.now;
        let Some(site) = self.sites.iter_mut().find(|site| site.id == *worker) else { return };
        if site.worker.is_none() {
            return;
        }
        let at = (now + hop).max(site.cut_until).max(site.hear_floor);
        site.hear_floor = at;
        let (index, life) = (site.index, site.life);
        self.at(at, Happening::Worker { site: index, life, input: Box::new(Input::Work(message)) });
    }

    fn spawn(&mut self, index: usize, spec: &RunSpec, lease: Option<Lease>, grace_ms: u64) {
        let mut rng = Rng::new(self.plan.seed, "process", spec.token.0 as u64);
        let site = &mut self.sites[index];
        let wait = if rng.chance(5) { rng.range(500, 6_000) } else { rng.range(1, 60) };
        let life = site.life;
        if rng.chance(5) {
            let end = match rng.chance(60) {
                true => ProcessEnd::NotStarted("no such program".to_owned()),
                false => ProcessEnd::NoRoom("its disk is full".to_owned()),
            };
            let input = Box::new(Input::ProcessEnded { token: spec.token, end });
            return self.after(wait, Happening::Worker { site: index, life, input });
        }
        let heeds_term = (!rng.chance(25)).then(|| rng.range(1, 400));
        let duration = match rng.range(0, 10) {
            0..6 => rng.range(5, 2_000),
            6..9 => rng.range(2_000, 15_000),
            _ => rng.range(15_000, 40_000),
        };
        let process = Process {
            batch: spec.batch,
            job: spec.job,
            logical_time: spec.logical_time,
            is_final: spec.ending.is_some(),
            of: site.id.clone(),
            began: 0,
            natural_end: duration,
            exit_code: if rng.chance(25) { [1, 1, 2, 3][rng.below(4)] } else { 0 },
            heeds_term,
            grace_ms,
            lease: lease.map(|lease| shifted(site, lease)),
            ending: None,
        };
        let token = spec.token;
        site.directory.insert(token, Entry::Wanted);
        let process = Box::new(process);
        self.after(wait, Happening::ProcessBegins { site: index, life, token, process });
    }

    /// The shim has begun, and with it the job.
    pub(crate) fn process_begins(&mut self, index: usize, life: u64, token: Token, mut process: Process) {
        let now = self.now;
        let site = &mut self.sites[index];
        let is_orphan = site.life != life || site.worker.is_none();
        if is_orphan {
            // A worker that began since has made sure that it never starts; else its shim sees at once that
            // the worker is gone.
            if site.life != life || self.rng.chance(50) || !site.directory.contains_key(&token) {
                return;
            }
            process.end(now, process.grace_ms, KilledBecause::WorkerGone);
        }
        let site = &mut self.sites[index];
        process.began = now;
        process.natural_end += now;
        if process.lease.is_some_and(|lease| lease.term_at_ms <= now) {
            process.end(now, 0, KilledBecause::Lease);
        }
        if let Some(entry) = site.directory.get_mut(&token) {
            if let Entry::Unwanted { grace_ms, because } = *entry {
                process.end(now, grace_ms, because);
            }
            *entry = Entry::Runs;
        }
        let (batch, time) = (process.batch, (process.job, process.logical_time));
        let is_final = process.is_final;
        site.processes.insert(token, process);
        self.tell(|| format!("process of {token}, batch {batch}, begins on site {index}"));
        self.stats.add("process", "began");
        if is_final {
            self.stats.add("process", "final");
        } else if let Some(other) = self.live_batches.insert(batch, index) {
            self.is_wrong(format!("two live processes of batch {batch}, on sites {other} and {index}"));
        } else if let Some(other) = self.live_times.insert(time, index) {
            self.is_wrong(format!("two live runs of job {} for {}, on {other} and {index}", time.0, time.1));
        }
        let runs = self.sites[index].processes.get(&token).is_some_and(|process| process.ending.is_none());
        if runs && self.plan.mode == Mode::Usual && self.known.ended.contains(&token) {
            self.is_wrong(format!("a process of {token} begins on site {index} after its end is on record"));
        }
        let input = Box::new(Input::ProcessStarted { token });
        self.after(1, Happening::Worker { site: index, life, input });
        self.look_later(index, token);
    }

    /// Nothing of an attempt runs once its end is on record.
    pub(crate) fn ended_on_record(&mut self, envelope: &Envelope) {
        for recorded in &envelope.events {
            let token = match recorded.event {
                Event::AttemptFinished { token, .. }
                | Event::FinalCommandEnded { token: Some(token), .. } => token,
                _ => continue,
            };
            self.known.ended.insert(token);
            let runs = self.sites.iter().position(|site| site.processes.contains_key(&token));
            if let Some(index) = runs.filter(|_| self.plan.mode == Mode::Usual) {
                self.is_wrong(format!(
                    "a process of {token} runs on site {index} after its end is on record"
                ));
            }
        }
    }

    fn look_later(&mut self, index: usize, token: Token) {
        if let Some(process) = self.sites[index].processes.get(&token) {
            let at = process.next_look();
            self.at(at, Happening::ProcessLook { site: index, token });
        }
    }

    pub(crate) fn process_look(&mut self, index: usize, token: Token) {
        let now = self.now;
        let Some(process) = self.sites[index].processes.get_mut(&token) else { return };
        match process.look(now) {
            Some(record) => self.process_ends(index, token, Some(record)),
            None if process.next_look() > now => self.look_later(index, token),
            None => self.is_wrong(format!("the simulator lost sight of the process of {token}")),
        }
    }

    /// Nothing of it runs any more.
    pub(crate) fn process_ends(&mut self, index: usize, token: Token, record: Option<ExitRecord>) {
        let site = &mut self.sites[index];
        let Some(process) = site.processes.remove(&token) else { return };
        if !process.is_final {
            self.live_batches.remove(&process.batch);
            self.live_times.remove(&(process.job, process.logical_time));
        }
        if let Some(because) = record.as_ref().and_then(|record| record.killed_because) {
            self.stats.add("killed", because.as_str());
        }
        if process.of == site.id && site.directory.contains_key(&token) {
            let entry = record.clone().map_or(Entry::Vanished, Entry::Ended);
            site.directory.insert(token, entry);
            let end = record.map_or(ProcessEnd::Vanished, ProcessEnd::Recorded);
            let (life, input) = (site.life, Box::new(Input::ProcessEnded { token, end }));
            let hop = self.hop();
            self.after(hop, Happening::Worker { site: index, life, input });
        }
        self.tell(|| format!("process of {token} has ended on site {index}"));
    }

    fn renew(&mut self, index: usize, lease: Lease) {
        let site = &mut self.sites[index];
        let lease = shifted(site, lease);
        for process in site.processes.values_mut().filter(|process| process.of == site.id) {
            if process.lease.is_some() && process.ending.is_none() {
                process.lease = Some(lease);
            }
        }
    }

    /// The worker's process is gone; its shims see it.
    pub(crate) fn stop_worker_process(&mut self, index: usize) {
        let now = self.now;
        let site = &mut self.sites[index];
        site.worker = None;
        site.paused_until = 0;
        if !site.processes.is_empty() {
            self.stats.add("condition", "shim_outlives_worker");
        }
        for process in site.processes.values_mut() {
            process.end(now, process.grace_ms, KilledBecause::WorkerGone);
        }
        for token in site.processes.keys().copied().collect::<Vec<_>>() {
            self.look_later(index, token);
        }
    }
}

fn shifted(site: &Site, lease: Lease) -> Lease {
    let shift = |at: u64| at.saturating_sub(site.boot_offset);
    Lease { term_at_ms: shift(lease.term_at_ms), kill_at_ms: shift(lease.kill_at_ms) }
}
