//! What worker processes and shims do in the simulated world.

use tidemill_executor::{ExitRecord, Input, KillCause, Lease, Output, ProcessEnd, Tag};
use tidemill_model::{Command, RunSpec, Token, WorkMessage, WorkerCommand, WorkerId};

use crate::cluster::{Cluster, Entry, Process};
use crate::happening::{Happening, Then};
use crate::plan::Mode;
use crate::rng::Rng;
use crate::world::{World, unasked};

/// From one look at the clock to the next.
const TICK_MS: u64 = 500;

impl World {
    pub(crate) fn worker_begins(&mut self, index: usize, life: u64) {
        let cluster = &mut self.clusters[index];
        if cluster.worker.is_some() || cluster.life != life {
            return;
        }
        cluster.start();
        let life = cluster.life;
        let mut found = Vec::new();
        for (token, entry) in &mut cluster.directory {
            let end = match entry {
                Entry::Wanted | Entry::Unwanted { .. } => Some(ProcessEnd::Abandoned),
                Entry::Runs => None,
                Entry::Ended(record) => Some(ProcessEnd::Recorded((**record).clone())),
                Entry::Vanished => Some(ProcessEnd::Vanished),
            };
            let process = cluster.processes.get(token).filter(|_| end.is_none());
            let of = process.map(|process| process.running(*token));
            found.push(Input::Found { token: *token, of, end });
        }
        self.tell(|| format!("worker {index} begins life {life}, finds {}", found.len()));
        for input in found {
            let runs = match &input {
                Input::Found { token, end: None, .. } => Some(*token),
                _ => None,
            };
            self.worker_steps(index, input);
            if let Some(token) = runs {
                // Its shim has to be reached first.
                self.stats.add("condition", "attempt_taken_over");
                let wait = self.rng.range(1, 2_000);
                if let Some(process) = self.clusters[index].processes.get_mut(&token) {
                    process.hears_from = self.now + wait;
                }
                self.after(wait, Happening::worker(index, life, Input::ProcessStarted { token }));
            }
        }
        self.after(0, Happening::WorkerTick { cluster: index, life });
    }

    pub(crate) fn worker_tick(&mut self, index: usize, life: u64) {
        let (now, cluster) = (self.now, &self.clusters[index]);
        if cluster.life != life || cluster.worker.is_none() {
            return;
        }
        if now < cluster.paused_until {
            return self.at(cluster.paused_until, Happening::WorkerTick { cluster: index, life });
        }
        let (boottime_ms, measure) = (cluster.boot(now), cluster.measure(self.plan.seed, now));
        self.worker_steps(index, Input::Measured(measure));
        self.worker_steps(index, Input::Ticked { boottime_ms });
        self.fill_disk(index);
        self.after(TICK_MS, Happening::WorkerTick { cluster: index, life });
    }

    /// Now and then a disk is full, for a while.
    fn fill_disk(&mut self, index: usize) {
        let now = self.now;
        let cluster = &mut self.clusters[index];
        if cluster.full_until > 0 {
            if cluster.full_until <= now {
                cluster.full_until = 0;
                self.worker_steps(index, Input::Fitness { unready: None });
            }
            return;
        }
        let mut rng = Rng::new(self.plan.seed, "disk", now ^ ((index as u64) << 40));
        if rng.range(0, 250) == 0 && now < self.plan.end {
            cluster.full_until = now + rng.range(1_000, 12_000);
            self.worker_steps(index, Input::Fitness { unready: Some("its disk is full".to_owned()) });
        }
    }

    pub(crate) fn worker_hears(&mut self, index: usize, life: u64, input: Input) {
        let (now, cluster) = (self.now, &self.clusters[index]);
        if cluster.life != life || cluster.worker.is_none() {
            return;
        }
        if now < cluster.paused_until {
            return self.at(cluster.paused_until, Happening::worker(index, life, input));
        }
        let boottime_ms = cluster.boot(now);
        self.worker_steps(index, Input::Ticked { boottime_ms });
        self.worker_steps(index, input);
    }

    fn worker_steps(&mut self, index: usize, input: Input) {
        if !matches!(input, Input::Ticked { .. } | Input::Measured(_)) {
            self.tell(|| format!("worker {index} hears {input:?}"));
        }
        let Some(worker) = self.clusters[index].worker.as_mut() else { return };
        for output in worker.step(input) {
            self.worker_acts(index, output);
        }
    }

    fn worker_acts(&mut self, index: usize, output: Output) {
        match output {
            Output::Append { tag, command } => self.worker_appends(index, tag, command),
            // Owners of the simulation take every report for its worker's.
            Output::Seal(_) => {}
            Output::Look { token, checks } => self.look_at_paths(index, token, &checks),
            Output::Spawn { spec, lease, grace_ms } => self.spawn(index, &spec, lease, grace_ms),
            Output::KillProcess { token, grace_ms, because } => {
                let now = self.now;
                self.tell(|| format!("worker {index} ends {token}: {}", because.as_str()));
                let cluster = &mut self.clusters[index];
                if let Some(process) = cluster.processes.get_mut(&token) {
                    process.end(now.max(process.hears_from), grace_ms, because);
                    self.look_later(index, token);
                } else if let Some(entry @ Entry::Wanted) = cluster.directory.get_mut(&token) {
                    *entry = Entry::Unwanted { grace_ms, because };
                }
            }
            Output::RenewLease(lease) => self.renew(index, lease),
            Output::Forget { token } => {
                self.clusters[index].directory.remove(&token);
            }
            Output::Exit => {
                self.tell(|| format!("worker {index} exits"));
                self.stop_worker_process(index);
                let life = self.clusters[index].life;
                let wait = self.rng.range(500, 5_000);
                self.after(wait, Happening::WorkerBegins { cluster: index, life });
            }
        }
    }

    fn worker_appends(&mut self, index: usize, tag: Tag, command: Command) {
        let now = self.now;
        let cluster = &self.clusters[index];
        let (life, shard, floor) = (cluster.life, cluster.shard, cluster.floor);
        let is_heartbeat = matches!(command, Command::Worker(WorkerCommand::Heartbeat(_)));
        let is_question = matches!(command, Command::Worker(WorkerCommand::RequestStart(_)));
        let is_lost = now < cluster.cut_until
            || is_heartbeat && now < cluster.mute_until
            || is_question && now < self.weather.lost_questions_until && self.rng.chance(60);
        let record = unasked("worker", shard, command);
        let wait = floor.saturating_sub(now);
        self.tell(|| {
            format!("worker {index} says {:?}{}", record.command, if is_lost { ", lost" } else { "" })
        });
        if is_lost {
            self.stats.add("lost", "worker_append");
            if self.rng.chance(20) {
                let late = self.rng.range(500, 10_000);
                self.send(&record, late, Then::Nobody);
            }
            return self.after(2_000, Happening::worker(index, life, Input::Failed(tag)));
        }
        let at = self.send(&record, wait, Then::Worker(index, life, tag));
        if at < now + 500 {
            self.clusters[index].floor = at;
        }
    }

    /// A message of an owner is on its way to a worker.
    pub(crate) fn work(&mut self, worker: &WorkerId, message: WorkMessage, hop: u64) {
        let now = self.now;
        let Some(cluster) = self.clusters.iter_mut().find(|cluster| cluster.id == *worker) else { return };
        if cluster.worker.is_none() {
            return;
        }
        let mut at = (now + hop).max(cluster.cut_until).max(cluster.hear_floor);
        let (index, life) = (cluster.index, cluster.life);
        if now < self.weather.late_work_until {
            // Of two owners' producers, what one says may come long after what the other does, and all may come twice.
            if self.rng.chance(30) {
                let again = at + self.rng.range(100, 20_000);
                self.at(again, Happening::worker(index, life, Input::Work(message.clone())));
            }
            if self.rng.chance(30) {
                at += self.rng.range(100, 12_000);
                return self.at(at, Happening::worker(index, life, Input::Work(message)));
            }
        }
        self.clusters[index].hear_floor = at;
        self.at(at, Happening::worker(index, life, Input::Work(message)));
    }

    fn spawn(&mut self, index: usize, spec: &RunSpec, lease: Option<Lease>, grace_ms: u64) {
        let mut rng = Rng::new(self.plan.seed, "process", spec.token.0 as u64);
        let cluster = &mut self.clusters[index];
        let wait = if rng.chance(5) { rng.range(500, 6_000) } else { rng.range(1, 60) };
        let life = cluster.life;
        if rng.chance(5) {
            let end = match rng.chance(60) {
                true => ProcessEnd::NotStarted("no such program".to_owned()),
                false => ProcessEnd::NoRoom("its disk is full".to_owned()),
            };
            let input = Input::ProcessEnded { token: spec.token, end };
            return self.after(wait, Happening::worker(index, life, input));
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
            of: cluster.id.clone(),
            began: 0,
            natural_end: duration,
            exit_code: if rng.chance(25) { [1, 1, 2, 3][rng.below(4)] } else { 0 },
            heeds_term,
            grace_ms,
            lease: lease.map(|lease| shifted(cluster, lease)),
            ending: None,
            hears_from: 0,
            renewal: None,
            unconfirmed: spec.unconfirmed.iter().map(|work| work.token).collect(),
        };
        let token = spec.token;
        cluster.directory.insert(token, Entry::Wanted);
        let process = Box::new(process);
        self.after(wait, Happening::ProcessBegins { cluster: index, life, token, process });
    }

    /// The shim has begun, and with it the job.
    pub(crate) fn process_begins(&mut self, index: usize, life: u64, token: Token, mut process: Process) {
        let now = self.now;
        let cluster = &mut self.clusters[index];
        let is_orphan = cluster.life != life || cluster.worker.is_none();
        if is_orphan {
            // A worker that began since has made sure that it never starts; else it goes on alone, if its shim heard what
            // to run.
            if cluster.life != life || self.rng.chance(50) || !cluster.directory.contains_key(&token) {
                return;
            }
        }
        let cluster = &mut self.clusters[index];
        process.began = now;
        process.natural_end += now;
        if process.lease.is_some_and(|lease| lease.term_at_ms <= now) {
            process.end(now, 0, KillCause::Lease);
        }
        if let Some(entry) = cluster.directory.get_mut(&token) {
            if let Entry::Unwanted { grace_ms, because } = *entry {
                process.end(now, grace_ms, because);
            }
            *entry = Entry::Runs;
        }
        let (batch, time) = (process.batch, (process.job, process.logical_time));
        let is_final = process.is_final;
        cluster.processes.insert(token, process);
        self.tell(|| format!("process of {token}, batch {batch}, begins on site {index}"));
        self.stats.add("process", "began");
        if !is_final {
            self.known.begun.insert(token);
        }
        if is_final {
            self.stats.add("process", "final");
        } else if let Some(other) = self.live_batches.insert(batch, index) {
            self.is_wrong(format!("two live processes of batch {batch}, on sites {other} and {index}"));
        } else if let Some(other) = self.live_times.insert(time, index) {
            self.is_wrong(format!("two live runs of job {} for {}, on {other} and {index}", time.0, time.1));
        }
        let runs = self.clusters[index].processes.get(&token).is_some_and(|process| process.ending.is_none());
        if runs && self.plan.mode == Mode::Usual && self.known.ended.contains(&token) {
            self.is_wrong(format!("a process of {token} begins on site {index} after its end is on record"));
        }
        if runs && self.plan.mode == Mode::Usual && self.known.not_begun.contains(&token) {
            self.is_wrong(format!(
                "a process of {token} begins on site {index} after it was taken back as not begun"
            ));
        }
        self.after(1, Happening::worker(index, life, Input::ProcessStarted { token }));
        self.draw_excess(index, life, token);
        self.begins_elsewhere(index, life, token);
        self.look_later(index, token);
    }

    fn look_later(&mut self, index: usize, token: Token) {
        if let Some(process) = self.clusters[index].processes.get(&token) {
            let at = process.next_look();
            self.at(at, Happening::ProcessLook { cluster: index, token });
        }
    }

    pub(crate) fn process_look(&mut self, index: usize, token: Token) {
        let now = self.now;
        let Some(process) = self.clusters[index].processes.get_mut(&token) else { return };
        match process.look(now) {
            Some(record) => {
                let record = self.ended_elsewhere(index, token, record);
                self.process_ends(index, token, Some(record));
            }
            None if process.next_look() > now => self.look_later(index, token),
            None => self.is_wrong(format!("the simulator lost sight of the process of {token}")),
        }
    }

    /// Nothing of it runs any more.
    pub(crate) fn process_ends(&mut self, index: usize, token: Token, record: Option<ExitRecord>) {
        let cluster = &mut self.clusters[index];
        let Some(process) = cluster.processes.remove(&token) else { return };
        if !process.is_final {
            self.live_batches.remove(&process.batch);
            self.live_times.remove(&(process.job, process.logical_time));
        }
        if let Some(because) = record.as_ref().and_then(|record| record.kill_cause) {
            self.stats.add("killed", because.as_str());
        }
        if process.of == cluster.id && cluster.directory.contains_key(&token) {
            let entry = record.clone().map_or(Entry::Vanished, |record| Entry::Ended(Box::new(record)));
            cluster.directory.insert(token, entry);
            let end = record.map_or(ProcessEnd::Vanished, ProcessEnd::Recorded);
            let what = Happening::worker(index, cluster.life, Input::ProcessEnded { token, end });
            let hop = self.hop();
            self.after(hop, what);
        }
        self.tell(|| format!("process of {token} has ended on site {index}"));
    }

    fn renew(&mut self, index: usize, lease: Lease) {
        let cluster = &mut self.clusters[index];
        let lease = shifted(cluster, lease);
        for process in cluster.processes.values_mut().filter(|process| process.of == cluster.id) {
            process.renew(self.now, lease);
        }
    }

    /// The worker's process is gone; what runs goes on.
    pub(crate) fn stop_worker_process(&mut self, index: usize) {
        let cluster = &mut self.clusters[index];
        cluster.worker = None;
        cluster.paused_until = 0;
        if !cluster.processes.is_empty() {
            self.stats.add("condition", "shim_outlives_worker");
        }
    }

    /// What runs in a directory that is gone is found by no worker, and its shims notice.
    pub(crate) fn lose_directory(&mut self, index: usize) {
        let cluster = &mut self.clusters[index];
        cluster.wipe();
        for process in cluster.processes.values_mut() {
            let noticed = self.now + self.rng.range(1, 5_000);
            process.end(noticed, process.grace_ms, KillCause::WorkerGone);
        }
        for token in self.clusters[index].processes.keys().copied().collect::<Vec<_>>() {
            self.look_later(index, token);
        }
    }
}

fn shifted(cluster: &Cluster, lease: Lease) -> Lease {
    let shift = |at: u64| cluster.unboot(at);
    Lease { term_at_ms: shift(lease.term_at_ms), kill_at_ms: shift(lease.kill_at_ms) }
}
