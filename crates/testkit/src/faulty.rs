//! What the planned faults do.

use tidemill_executor::Input;
use tidemill_model::{AttemptEvent, BatchCommand, BatchEvent, Envelope, Event, WorkerCommand};

use crate::cluster::Cluster;
use crate::happening::{Happening, Then};
use crate::host::Fate;
use crate::plan::{Fault, Planned};
use crate::rng::Rng;
use crate::world::{HOSTS, World, unasked};

impl World {
    pub(crate) fn fault(&mut self, planned: &Planned) {
        if self.healed {
            return;
        }
        let mut rng = Rng::new(self.plan.seed, "fault", planned.index as u64);
        let fault = planned.fault;
        self.stats.add("fault", fault.name());
        self.tell(|| format!("FAULT {} {fault:?}", planned.index));
        let host = rng.below(HOSTS);
        let cluster = rng.below(self.clusters.len());
        let until = self.now + rng.range(500, 15_000);
        match fault {
            Fault::CrashHost => self.host_goes(host, Some(0), &mut rng),
            Fault::CrashHostWithZombies => {
                let late = rng.range(100, 20_000);
                self.host_goes(host, Some(late), &mut rng);
            }
            Fault::CrashHostLosingAppends => self.host_goes(host, None, &mut rng),
            Fault::PauseHost => {
                self.hosts[host].paused_until = until;
                self.suggest_around(host, until, &mut rng);
            }
            Fault::CutHost => {
                self.hosts[host].cut_until = until;
                self.suggest_around(host, until, &mut rng);
            }
            Fault::StepClock => self.step_clock(host, planned.index, until, &mut rng),
            Fault::SlowReader => self.hosts[host].slow_until = until,
            Fault::MoveSuggestion | Fault::OverlapSuggestion => self.move_partition(fault, until, &mut rng),
            Fault::RivalClaims => self.rival_claims(&mut rng),
            Fault::UnknownLanded => self.arm(Fate::Landed),
            Fault::UnknownLost => self.arm(Fate::Lost),
            Fault::UnknownLate => self.arm(Fate::Late),
            Fault::ZombieClaim => {
                self.arm(Fate::LateClaim);
                let late = rng.chance(50).then_some(rng.range(1, 10_000));
                self.host_goes(host, late, &mut rng);
            }
            Fault::SuccessWithoutOffset => self.arm(Fate::NoOffset),
            Fault::RefusedAppend => self.arm(Fate::Refused),
            Fault::FullProducer => self.arm(Fate::Full),
            Fault::DelayedAppend => self.arm(Fate::Delayed),
            Fault::LostEffects => self.weather.lost_effects_until = until,
            Fault::LostReplies => self.weather.lost_replies_until = until,
            Fault::DuplicatedCommands => self.weather.duplicates_until = until,
            Fault::DelayedCommands => self.weather.delays_until = until,
            Fault::TrimmedCommands => self.trim_commands(),
            Fault::CrashWorker => self.worker_goes(cluster, &mut rng, false, false),
            Fault::CrashWorkerLosingDirectory => self.worker_goes(cluster, &mut rng, true, false),
            Fault::RebootWorker => self.worker_goes(cluster, &mut rng, true, true),
            Fault::PauseWorker => {
                let until = self.now + rng.range(500, 60_000);
                self.clusters[cluster].paused_until = until;
            }
            Fault::CutWorker => self.clusters[cluster].cut_until = self.now + rng.range(500, 60_000),
            Fault::MuteWorker => self.clusters[cluster].mute_until = self.now + rng.range(2_000, 60_000),
            Fault::StopWorker => self.worker_is_stopped(cluster),
            Fault::MissedWork => self.worker_hears(cluster, self.clusters[cluster].life, Input::Missed),
            Fault::KillShim => {
                if let Some(token) = self.clusters[cluster].processes.keys().next().copied() {
                    self.process_ends(cluster, token, None);
                }
            }
            Fault::OverdueRejections => self.weather.rejections_until = until,
            Fault::CutAtGrant => self.weather.cuts_at_grant = 1 + rng.below(3),
            Fault::LongStop => self.stop_for_long(&mut rng),
            Fault::LostQuestions | Fault::LateWork | Fault::LateAcknowledgements | Fault::CutAtAssignment => {
                self.fault_of_rights(fault, until, &mut rng)
            }
        }
    }

    fn fault_of_rights(&mut self, fault: Fault, until: u64, rng: &mut Rng) {
        let weather = &mut self.weather;
        match fault {
            Fault::LostQuestions => weather.lost_questions_until = until,
            Fault::LateWork => weather.late_work_until = until,
            Fault::LateAcknowledgements => weather.late_acknowledgements_until = until,
            _ => weather.cuts_at_assignment = 1 + rng.below(4),
        }
    }

    /// Forward or back; somebody sets it right later.
    fn step_clock(&mut self, host: usize, index: usize, until: u64, rng: &mut Rng) {
        let step = rng.range(500, 20_000) as i64;
        self.hosts[host].wall_offset += if rng.chance(50) { step } else { -step };
        if rng.chance(70) && self.hosts[host].wall_offset.abs() > 1_000 {
            let back = Planned { index: index + 1_000, fault: Fault::StepClock, at: until };
            if index < 1_000 {
                self.at(until, Happening::Fault { fault: back });
            }
        }
        if index >= 1_000 {
            self.hosts[host].wall_offset = 0;
        }
    }

    /// Every machine is switched off, the log's too, and back after days, or after all that is kept for a year.
    fn stop_for_long(&mut self, rng: &mut Rng) {
        for host in 0..HOSTS {
            self.host_goes(host, Some(0), rng);
        }
        for cluster in 0..self.clusters.len() {
            self.worker_goes(cluster, rng, true, true);
        }
        let days = if rng.chance(50) { rng.range(1, 4) } else { 401 };
        self.days_off += days as i64;
    }

    /// Somebody kills what is assigned, or its worker ends, stands still or is cut off.
    pub(crate) fn faults_of_assignments(&mut self, envelope: &Envelope) {
        for recorded in &envelope.events {
            let Event::Batch(BatchEvent::AssignedWithRight { batch, worker, .. }) = &recorded.event else {
                continue;
            };
            self.stats.add("assigned", "with_right");
            if self.weather.cuts_at_assignment == 0 {
                continue;
            }
            self.weather.cuts_at_assignment -= 1;
            let mut rng = Rng::new(self.plan.seed, "assignment", batch.0 as u64);
            let what = rng.range(0, 4);
            let index = self.clusters.iter().position(|cluster| cluster.id == *worker);
            match (what, index) {
                (0 | 1, _) => {
                    let reason = "while it is assigned".to_owned();
                    self.ask(recorded.shard, BatchCommand::Kill { batch: *batch, reason });
                }
                (2, Some(index)) => self.worker_goes(index, &mut rng, false, false),
                (_, Some(index)) => {
                    self.clusters[index].paused_until = self.now + rng.range(500, 12_000);
                }
                (_, None) => {}
            }
        }
    }

    pub(crate) fn faults_of_grants(&mut self, envelope: &Envelope) {
        for recorded in &envelope.events {
            let Event::Attempt(AttemptEvent::StartGranted { token, worker, .. }) = &recorded.event else {
                continue;
            };
            if self.now < self.weather.rejections_until {
                // What gave it back before its worker asked arrives now.
                let reason = "said before it asked".to_owned();
                let (token, worker) = (*token, worker.clone());
                let command = WorkerCommand::RejectAssignment {
                    lacks_resources: false,
                    token,
                    worker,
                    nonce: None,
                    reason,
                };
                self.send(&unasked("", recorded.shard, command), 0, Then::Nobody);
            }
            let cluster = self.clusters.iter_mut().find(|cluster| cluster.id == *worker);
            if let Some(cluster) = cluster.filter(|_| self.weather.cuts_at_grant > 0) {
                self.weather.cuts_at_grant -= 1;
                let until = self.now + self.rng.range(10_000, 60_000);
                // Before it hears of the grant, or so that nobody hears of it.
                match self.rng.chance(60) {
                    true => cluster.cut_until = until,
                    false => cluster.mute_until = until,
                }
            }
        }
    }

    /// For the next append of every process.
    fn arm(&mut self, fate: Fate) {
        for host in &mut self.hosts {
            host.fates.push(fate);
        }
    }

    fn host_goes(&mut self, host: usize, late: Option<u64>, rng: &mut Rng) {
        if !self.hosts[host].up {
            return;
        }
        self.crash_host(host, late);
        let back = self.now + rng.range(100, 12_000);
        self.at(back, Happening::HostBegins { host });
        self.suggest_around(host, back, rng);
    }

    /// The group notices after a while that a process is gone, and later that it is back.
    fn suggest_around(&mut self, host: usize, until: u64, rng: &mut Rng) {
        for partition in 0..self.plan.partitions {
            if !self.hosts[host].suggested[partition as usize] {
                continue;
            }
            let other = (host + 1) % HOSTS;
            let noticed = self.now + rng.range(200, 6_000);
            if noticed < until || rng.chance(20) {
                self.at(noticed, Happening::Suggest { host: other, partition, suggested: true });
                let told = until + rng.range(0, 2_000);
                let keeps = rng.chance(50);
                self.at(told, Happening::Suggest { host, partition, suggested: keeps });
                self.at(told, Happening::Suggest { host: other, partition, suggested: !keeps });
            }
        }
    }

    fn move_partition(&mut self, fault: Fault, until: u64, rng: &mut Rng) {
        let partition = rng.range(0, u64::from(self.plan.partitions)) as u32;
        let at = partition as usize;
        let from = usize::from(!self.hosts[0].suggested[at]);
        let to = (from + 1) % HOSTS;
        self.suggest(to, partition, true);
        if fault == Fault::MoveSuggestion {
            self.suggest(from, partition, false);
        } else {
            self.at(until, Happening::Suggest { host: from, partition, suggested: false });
        }
    }

    /// Both find a silent owner's partition, and the first claim to be sent is the last to land.
    fn rival_claims(&mut self, rng: &mut Rng) {
        let partition = rng.range(0, u64::from(self.plan.partitions)) as u32;
        for host in 0..HOSTS {
            if !self.hosts[host].up {
                continue;
            }
            self.hosts[host].fates.push(Fate::SlowClaim);
            self.hosts[host].seats[partition as usize] = None;
            self.suggest(host, partition, true);
        }
        let (host, at) = (rng.below(HOSTS), self.now + rng.range(8_000, 12_000));
        self.at(at, Happening::Suggest { host, partition, suggested: false });
    }

    /// What is done with may be deleted, up to the last command: the owner goes on from there.
    fn trim_commands(&mut self) {
        for at in 0..self.oracle.len() {
            if let Some(resume) = self.oracle[at].state.resume() {
                self.commands_from[at] = self.commands_from[at].max(resume.offset);
            }
        }
    }

    /// One that ends what runs there, where there is such a one.
    fn worker_is_stopped(&mut self, or: usize) {
        let ends_some = |at: &Cluster| !at.keeps_jobs() && !at.processes.is_empty();
        let cluster = self.clusters.iter().position(ends_some).unwrap_or(or);
        self.worker_hears(cluster, self.clusters[cluster].life, Input::Stop);
    }

    fn worker_goes(&mut self, cluster: usize, rng: &mut Rng, wiped: bool, rebooted: bool) {
        if self.clusters[cluster].worker.is_none() {
            return;
        }
        self.stop_worker_process(cluster);
        if rebooted {
            let tokens: Vec<_> = self.clusters[cluster].processes.keys().copied().collect();
            for token in tokens {
                self.process_ends(cluster, token, None);
            }
        }
        // Where a person would have to vouch for what ran there, nobody would.
        let group = self.clusters[cluster].shard.0 as usize - 1;
        if wiped && !self.holds(group) {
            self.lose_directory(cluster);
        }
        let life = self.clusters[cluster].life;
        let wait = rng.range(100, 20_000);
        self.after(wait, Happening::WorkerBegins { cluster, life });
    }

    /// From now on nothing fails: everyone is back, and each partition is suggested to one process.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        self.tell(|| "HEALED".to_owned());
        self.weather = crate::world::Weather::default();
        let now = self.now;
        for host in &mut self.hosts {
            host.paused_until = host.paused_until.min(now);
            host.cut_until = host.cut_until.min(now);
            host.slow_until = 0;
            host.wall_offset = 0;
            host.fates.clear();
        }
        for index in 0..self.hosts.len() {
            self.host_begins(index);
        }
        for partition in 0..self.plan.partitions {
            for host in 0..HOSTS {
                let suggested = host == partition as usize % HOSTS;
                self.suggest(host, partition, suggested);
            }
        }
        for cluster in 0..self.clusters.len() {
            self.clusters[cluster].paused_until = 0;
            self.clusters[cluster].cut_until = 0;
            self.clusters[cluster].mute_until = 0;
            let life = self.clusters[cluster].life;
            self.worker_begins(cluster, life);
        }
    }
}
