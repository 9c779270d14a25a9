//! The whole cluster: what happens next is the earliest entry of one queue.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use tidemill_engine::FaultInjection;
use tidemill_executor::Input as WorkerInput;
use tidemill_log::{Genesis, LogId, Payload, Record};
use tidemill_model::{
    Actor, BatchId, Command, CommandRecord, InstanceId, JobId, Json as _, Outcome, Reply, RequestId, ShardId,
    Timestamp, Token, WorkMessage, WorkerId,
};

use crate::clients::Client;
use crate::cluster::{Cluster, reserved, slots};
use crate::coverage::Stats;
use crate::elsewhere::Elsewhere;
use crate::happening::{Happening, Then};
use crate::host::Host;
use crate::known::Known;
use crate::log_fault::{LogFault, fault_injection};
use crate::oracle::Oracle;
use crate::plan::{Mode, Plan};
use crate::registered::RegisteredProcess;
use crate::rng::Rng;
use crate::snapshots::Kept;

/// Two dispatcher processes.
pub(crate) const HOSTS: usize = 2;

/// A request that is not answered yet, or was.
#[derive(Debug)]
pub(crate) struct Requested {
    pub(crate) partition: u32,
    pub(crate) record: CommandRecord,
    pub(crate) answer: Option<Outcome>,
}

/// What the weather is, until some moment.
#[derive(Debug, Default)]
pub(crate) struct Weather {
    pub(crate) lost_effects_until: u64,
    pub(crate) lost_replies_until: u64,
    pub(crate) duplicates_until: u64,
    pub(crate) delays_until: u64,
    pub(crate) rejections_until: u64,
    /// So many grants more.
    pub(crate) cuts_at_grant: usize,
    pub(crate) lost_questions_until: u64,
    pub(crate) late_work_until: u64,
    pub(crate) late_acknowledgements_until: u64,
    /// So many assignments more.
    pub(crate) cuts_at_assignment: usize,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) now: u64,
    order: u64,
    /// While every machine was off.
    pub(crate) days_off: i64,
    /// By when, and of those at one time by the order in which they came.
    pub(crate) queue: BTreeMap<(u64, u64), Happening>,
    pub(crate) rng: Rng,
    pub(crate) journal: Vec<Vec<Record>>,
    pub(crate) commands: Vec<Vec<Record>>,
    /// The first command that each partition still has.
    pub(crate) commands_from: Vec<u64>,
    /// What a topic held before it was rebuilt.
    pub(crate) lost_commands: Vec<Vec<Record>>,
    pub(crate) fault_injection: FaultInjection,
    pub(crate) ruined: Option<LogFault>,
    /// What only the life before a restore minted.
    pub(crate) lost_ids: BTreeSet<i64>,
    /// What runs of that life, by what it runs.
    pub(crate) strays: BTreeMap<(JobId, Timestamp), Token>,
    pub(crate) oracle: Vec<Oracle>,
    pub(crate) known: Known,
    pub(crate) hosts: Vec<Host>,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) clients: Vec<Client>,
    pub(crate) registered: Vec<RegisteredProcess>,
    pub(crate) requested: BTreeMap<RequestId, Requested>,
    pub(crate) requests: u64,
    pub(crate) weather: Weather,
    pub(crate) healed: bool,
    pub(crate) stats: Stats,
    pub(crate) wrong: Vec<String>,
    /// Where given: what is wrong is only noted here, and the history goes on.
    pub(crate) noted: Option<Vec<String>>,
    pub(crate) live_batches: BTreeMap<BatchId, usize>,
    pub(crate) elsewhere: Elsewhere,
    pub(crate) live_times: BTreeMap<(JobId, Timestamp), usize>,
    pub(crate) trace: Option<Vec<String>>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) works: Vec<WorkMessage>,
    /// Where snapshots are, in histories with some.
    pub(crate) snapshots: Option<Kept>,
}

impl World {
    /// Only the planted bugs begin histories of their own.
    #[cfg(feature = "planted")]
    pub(crate) fn new(seed: u64) -> Self {
        Self::of(Plan::long(seed), false)
    }

    pub(crate) fn of(plan: Plan, trace: bool) -> Self {
        let seed = plan.seed;
        let count = plan.partitions;
        let fault_injection = fault_injection(&plan);
        let mut rng = Rng::new(seed, "shape", 0);
        let mut hosts: Vec<Host> = (0..HOSTS).map(|_| Host::new(count, &mut rng)).collect();
        // A log that loses what it acknowledged is no log to start on.
        hosts.iter_mut().for_each(|host| host.config.keeps_acknowledged = plan.mode != Mode::LostTail);
        let mut world = Self {
            now: 0,
            order: 0,
            days_off: 0,
            queue: BTreeMap::new(),
            rng: Rng::new(seed, "network", 0),
            journal: vec![Vec::new(); count as usize],
            commands: vec![Vec::new(); count as usize],
            commands_from: vec![0; count as usize],
            lost_commands: vec![Vec::new(); count as usize],
            oracle: (0..count)
                .map(|partition| Oracle::new(partition, count, fault_injection.clone()))
                .collect(),
            fault_injection,
            ruined: None,
            lost_ids: BTreeSet::new(),
            strays: BTreeMap::new(),
            known: Known::default(),
            hosts,
            clusters: Vec::new(),
            clients: Vec::new(),
            registered: Vec::new(),
            requested: BTreeMap::new(),
            requests: 0,
            weather: Weather::default(),
            healed: false,
            stats: Stats::default(),
            wrong: Vec::new(),
            noted: None,
            live_batches: BTreeMap::new(),
            elsewhere: Elsewhere::default(),
            live_times: BTreeMap::new(),
            trace: trace.then(Vec::new),
            replies: Vec::new(),
            works: Vec::new(),
            snapshots: None,
            plan,
        };
        world.begin(&mut rng);
        world
    }

    fn begin(&mut self, rng: &mut Rng) {
        for partition in 0..self.plan.partitions {
            let log_id = LogId::try_from("simulated".to_owned()).expect("small letters");
            let genesis = Genesis { log_id, partition, count: self.plan.partitions };
            self.land(partition, genesis.record().into(), true);
            let host = partition as usize % HOSTS;
            self.at(0, Happening::Suggest { host, partition, suggested: true });
        }
        for index in 0..self.plan.clusters {
            let group = index % self.plan.groups;
            let mut cluster = Cluster {
                index,
                group: format!("g{}", group + 1).try_into().expect("a group's name"),
                shard: ShardId(group as u16 + 1),
                host: format!("host-{index}"),
                reserved: BTreeMap::new(),
                slots: slots(rng),
                worker: None,
                id: WorkerId::new("none"),
                ids: 0,
                life: 0,
                boot_offset: rng.range(1_000, 10_000_000),
                drift_ppm: rng.aside("drift").range(0, 2_000) as i64 - 1_000,
                heartbeat_ms: rng.range(1_000, 3_000),
                paused_until: 0,
                cut_until: 0,
                mute_until: 0,
                processes: BTreeMap::new(),
                directory: BTreeMap::new(),
                floor: 0,
                hear_floor: 0,
                full_until: 0,
            };
            cluster.reserved = reserved(&mut rng.aside("reserved"), &cluster.slots);
            cluster.wipe();
            self.clusters.push(cluster);
            // Some begin late.
            let is_late = rng.chance(20);
            if is_late {
                self.stats.add("condition", "late_worker");
            }
            let at = if is_late { rng.range(3_000, 30_000) } else { rng.range(500, 3_000) };
            self.at(at, Happening::WorkerBegins { cluster: index, life: 0 });
        }
        self.define_groups(rng);
        for (index, at) in self.plan.client_requests.clone() {
            self.at(at, Happening::SubmitRequest { index });
        }
        self.at(2_000, Happening::Outside { round: 0 });
        self.clients_begin();
        self.registered_processes_begin();
        self.snapshots_begin();
        for fault in self.plan.faults.clone() {
            self.at(fault.at, Happening::Fault { fault });
        }
        if self.plan.mode != Mode::Usual {
            let at = rng.range(self.plan.end / 3, self.plan.end);
            self.at(at, Happening::LogFault);
        }
    }

    pub(crate) fn at(&mut self, at: u64, what: Happening) {
        self.order += 1;
        self.queue.insert((at.max(self.now), self.order), what);
    }

    /// What is on its way to this journal never arrives.
    pub(crate) fn lose_appends(&mut self, to: u32) {
        let is_lost =
            |what: &Happening| matches!(what, Happening::JournalLands { partition, .. } if *partition == to);
        self.queue.retain(|_, what| !is_lost(what));
    }

    pub(crate) fn after(&mut self, ms: u64, what: Happening) {
        self.at(self.now + ms, what);
    }

    /// A trip over the network.
    pub(crate) fn hop(&mut self) -> u64 {
        self.rng.range(1, 12)
    }

    pub(crate) fn tell(&mut self, text: impl FnOnce() -> String) {
        if self.trace.is_some() {
            let line = format!("{:>9.3} {}", self.now as f64 / 1_000.0, text());
            self.trace.iter_mut().for_each(|trace| trace.push(line.clone()));
        }
    }

    pub(crate) fn is_wrong(&mut self, what: String) {
        self.tell(|| format!("WRONG {what}"));
        let wrong = self.noted.as_mut().unwrap_or(&mut self.wrong);
        wrong.push(format!("at {} ms: {what}", self.now));
    }

    pub(crate) fn wall(&self) -> Timestamp {
        self.plan.start
            + SignedDuration::from_hours(24 * self.days_off)
            + SignedDuration::from_millis(self.now as i64)
    }

    /// Lets time pass up to `until`, or until something is wrong.
    pub(crate) fn run_until(&mut self, until: u64) {
        while self.wrong.is_empty()
            && self.queue.first_key_value().is_some_and(|((at, _), _)| *at <= until)
            && let Some(((at, _), what)) = self.queue.pop_first()
        {
            self.now = at;
            self.happen(what);
        }
        self.now = self.now.max(until);
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::JournalLands { partition, value, from, then, held } => {
                self.journal_lands(partition, value, from, then, held);
            }
            Happening::CommandLands { partition, value, then } => self.command_lands(partition, value, then),
            Happening::Owner { host, partition, turn, what } => self.owner_step(host, partition, turn, what),
            Happening::HostBegins { host } => self.host_begins(host),
            Happening::SeatBegins { host, partition, life } => self.seat_begins(host, partition, life),
            Happening::Suggest { .. } if self.healed => {}
            Happening::Suggest { host, partition, suggested } => self.suggest(host, partition, suggested),
            Happening::Worker { cluster, life, input } => self.worker_hears(cluster, life, *input),
            Happening::WorkerTick { cluster, life } => self.worker_tick(cluster, life),
            Happening::WorkerBegins { cluster, life } => self.worker_begins(cluster, life),
            Happening::ProcessBegins { cluster, life, token, process } => {
                self.process_begins(cluster, life, token, *process);
            }
            Happening::ProcessLook { cluster, token } => self.process_look(cluster, token),
            Happening::Reply { reply } => self.reply(*reply),
            Happening::SubmitRequest { index } => self.client_request(index),
            Happening::ClientRequestAgain { request } => self.client_request_again(&request),
            Happening::Outside { round } => self.outside(round),
            Happening::Client { index, turn } => self.client_turn(index, turn),
            Happening::RegisteredProcess { index, what } => self.registered_process(index, what),
            Happening::SnapshotDue => self.snapshot_due(),
            Happening::SnapshotTaken { host, partition, turn, mark } => {
                self.snapshot_taken(host, partition, turn, mark);
            }
            Happening::Fault { fault } => self.fault(&fault),
            Happening::LogFault => self.log_fault(),
        }
    }

    /// Puts a record into a journal. What was sent before a loss, by those who lived then, may land after it.
    pub(crate) fn land(&mut self, partition: u32, value: Payload, by_the_living: bool) -> u64 {
        let at = partition as usize;
        let offset = self.journal[at].len() as u64;
        self.look_for_equal_command(partition);
        let closed = by_the_living && self.is_closed(partition);
        if let Some(envelope) = self.oracle[at].land(offset, &value, &mut self.stats) {
            if closed {
                self.is_wrong(format!("partition {partition} goes on, though it must not"));
            }
            let wrong = self.known.take(&envelope, &mut self.stats);
            self.ended_on_record(&envelope);
            self.elsewhere_on_record(&envelope);
            self.taken_back_on_record();
            self.faults_of_grants(&envelope);
            self.faults_of_assignments(&envelope);
            self.people_decide_of_strays(&envelope);
            if self.trace.is_some() {
                for cause in &envelope.causes {
                    self.tell(|| format!("p{partition}@{offset} cause {cause:?}"));
                }
                for recorded in &envelope.events {
                    let event = recorded.event.to_json();
                    self.tell(|| format!("p{partition}@{offset} s{} {event}", recorded.shard));
                }
            }
            for what in wrong {
                self.is_wrong(what);
            }
        }
        let timestamp_ms = self.wall().as_millisecond();
        // Others get the bytes alone, as from a broker.
        self.journal[at].push(Record {
            offset,
            timestamp_ms,
            key: Vec::new(),
            value: Payload::from(value.to_vec()),
        });
        offset
    }

    pub(crate) fn command_lands(&mut self, partition: u32, value: Payload, then: Then) {
        let at = partition as usize;
        let offset = self.commands[at].len() as u64;
        let timestamp_ms = self.wall().as_millisecond();
        self.commands[at].push(Record { offset, timestamp_ms, key: Vec::new(), value });
        self.poll_commands(partition);
        if let Then::Worker(cluster, life, tag) = then {
            let mut hop = self.hop();
            if self.now < self.weather.late_acknowledgements_until && self.rng.chance(40) {
                hop += self.rng.range(100, 15_000);
            }
            self.after(hop, Happening::worker(cluster, life, WorkerInput::Acknowledged(tag)));
        }
    }

    pub(crate) fn send(&mut self, record: &CommandRecord, delay: u64, then: Then) -> u64 {
        let partition = record.shard.partition(self.plan.partitions);
        let value = record.to_json().into_bytes();
        self.send_raw(partition, value.into(), delay, then)
    }

    pub(crate) fn send_raw(&mut self, partition: u32, value: Payload, delay: u64, then: Then) -> u64 {
        let mut at = self.now + self.hop() + delay;
        if self.now < self.weather.delays_until && self.rng.chance(30) {
            at += self.rng.range(100, 8_000);
        }
        if self.now < self.weather.duplicates_until && self.rng.chance(40) {
            let again = at + self.rng.range(0, 5_000);
            let value = value.clone();
            self.at(again, Happening::CommandLands { partition, value, then: Then::Nobody });
        }
        self.at(at, Happening::CommandLands { partition, value, then });
        at
    }

    /// Whether the group keeps what a silent worker runs until its end is witnessed.
    pub(crate) fn holds(&self, group: usize) -> bool {
        Rng::new(self.plan.seed, "holds", group as u64).chance(15)
    }

    /// The heads of all journals.
    pub(crate) fn hash(&self) -> String {
        let heads = self.oracle.iter().filter_map(|oracle| oracle.chain.head());
        heads.map(|head| head.hash.to_string()).collect::<Vec<_>>().join("-")
    }

    pub(crate) fn instance(&self, index: u64) -> InstanceId {
        InstanceId::new(format!("api-{}", index % 3))
    }
}

/// A command of a program that waits for no answer.
pub(crate) fn unasked(app: &str, shard: ShardId, command: impl Into<Command>) -> CommandRecord {
    let actor = Actor { app: app.into(), user: None };
    CommandRecord { shard, request: None, reply_to: None, actor, command: command.into() }
}
