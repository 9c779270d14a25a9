//! What only a mode of its own does: the log loses what it had acknowledged, or the rules themselves fail. And
//! what has to hold then all the same.

use std::collections::BTreeSet;

use tidemill_checker::Invariant;
use tidemill_dispatcher::Role;
use tidemill_engine::FaultInjection;
use tidemill_log::Hash;
use tidemill_model::{CatalogueCommand, Command, JobCommand, Role as KeyRole, ShardId};

use crate::client_requests::MOST_KEYS;
use crate::oracle::Oracle;
use crate::plan::{Mode, Plan};
use crate::restored::GIVEN_UP_BY_RESTORE;
use crate::rng::Rng;
use crate::world::{HOSTS, World};

/// Revoking this application's key cannot be folded, in the mode of that.
const DOOMED: &str = "doomed";
/// Until owners have seen what happened, in the simulator's time.
const SEEN_AFTER_MS: u64 = 60_000;
/// Then everything must be worked on again within this.
const SETTLED_WITHIN_MS: u64 = 300_000;

/// What was lost for good, or fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFault {
    /// These journals or commands lost their end.
    Tail { partition: u32, journal: bool },
    /// The commands below this are gone.
    CutOff { partition: u32 },
    /// A topic of the same name, and empty at first.
    Recreated { partition: u32 },
    /// A topic rebuilt, in which the command at the resume point is the very same by chance, as heartbeats of
    /// one worker are: nobody can tell. What follows proves nothing.
    Unnoticed,
    /// Nobody can fold what was decided.
    Fold { partition: u32 },
    /// All that was recorded since a moment is lost, and the log goes on as another life.
    Restored,
}

/// What every state of a history in this mode is rigged with.
pub(crate) fn fault_injection(plan: &Plan) -> FaultInjection {
    let mode = plan.mode;
    // In most histories parents are counted from the first or second on, as they are from the 65th on in life.
    let listed_parents = [None, Some(1), Some(0), Some(0)][Rng::new(plan.seed, "listed parents", 0).below(4)];
    FaultInjection {
        listed_parents,
        spare_history: plan.forgets.then_some(0),
        remembered_submissions: None,
        max_keys: (mode != Mode::FailingFold).then_some(MOST_KEYS),
        panicking_schedule: Some(crate::client_requests::POISON.try_into().expect("a name")),
        panicking_schedules: None,
        panicking_effect: None,
        panicking_fold: (mode == Mode::FailingFold).then(|| DOOMED.to_owned()),
    }
}

/// What may break when the end of a journal is lost: whatever left the partition before (a reply, a work order,
/// a message to another shard) speaks of records that are no more, and their numbers are given again.
const GIVEN_UP: &[Invariant] = &[
    Invariant::AcknowledgedIsOnRecord,
    Invariant::WorkIsOnRecord,
    Invariant::MessagesBetweenShardsOnceInOrder,
    Invariant::VersionsRise,
    Invariant::GeneratedFromKnownVersion,
    Invariant::CalendarsFollowed,
    Invariant::RerunsKeepToPlan,
    Invariant::RerunsKeepTheirFacts,
    Invariant::KnownBatchesCanBeMarked,
    Invariant::HeardOfOtherGroupsWasSo,
    // A move is told by the old shard, recorded by the catalogue and taken in by the new shard, in three journals: one
    // that lost its end may have the user still, or not yet.
    Invariant::UsersHaveOneHome,
    Invariant::MovedJobsKeepTheirRuns,
    Invariant::PermitsAccountedFor,
    // What an owner of lost records sends late links to them or is of a later epoch, and is void.
    Invariant::ChainUnbroken,
    Invariant::EpochsRiseSeqContiguous,
];

impl World {
    pub(crate) fn log_fault(&mut self) {
        let mut rng = Rng::new(self.plan.seed, "log_fault", 0);
        let read: Vec<u32> = (0..self.plan.partitions)
            .filter(|partition| self.oracle[*partition as usize].state.resume().is_some())
            .collect();
        let partition = rng.pick(&read).copied().unwrap_or(0);
        let log_fault = match self.plan.mode {
            Mode::Usual => return,
            Mode::LostTail => self.lose_tail(partition, &mut rng),
            Mode::LostTopic => self.lose_topic(partition, &mut rng),
            Mode::FailingFold => self.doom(),
            Mode::Restored => self.restore(&mut rng),
        };
        self.tell(|| format!("RUIN {log_fault:?}"));
        self.ruined = Some(log_fault);
    }

    /// Every owner of the partition is gone, and what it had sent is lost.
    pub(crate) fn owners_go(&mut self) {
        for host in 0..HOSTS {
            self.crash_host(host, None);
            self.at(self.now + 100 + 700 * host as u64, crate::happening::Happening::HostBegins { host });
        }
    }

    fn lose_tail(&mut self, partition: u32, rng: &mut Rng) -> LogFault {
        self.owners_go();
        let at = partition as usize;
        let journal = rng.chance(60);
        if !journal {
            // Above the resume point, and with what would still raise it: what is below was lost as a topic is, see
            // the mode of that.
            self.lose_appends(partition);
            let done = self.oracle[at].state.resume().map_or(0, |resume| resume.offset as usize + 1);
            let keep = self.commands[at].len().saturating_sub(rng.below(20)).max(done);
            self.stats.add("log_fault", "commands_tail");
            self.commands[at].truncate(keep);
            return LogFault::Tail { partition, journal };
        }
        self.stats.add("log_fault", "journal_tail");
        let lost = 1 + rng.below(20);
        let keep = self.journal[at].len().saturating_sub(lost).max(1);
        self.journal[at].truncate(keep);
        // What was said about records that are no more proves nothing any more.
        self.noted = Some(Vec::new());
        let mut oracle = Oracle::new(partition, self.plan.partitions, fault_injection(&self.plan));
        for record in &self.journal[at] {
            oracle.land(record.offset, &record.value, &mut self.stats);
        }
        self.oracle[at] = oracle;
        LogFault::Tail { partition, journal }
    }

    fn lose_topic(&mut self, partition: u32, rng: &mut Rng) -> LogFault {
        self.owners_go();
        let at = partition as usize;
        if rng.chance(50) {
            // Nothing may raise the resume point any more: what is above the cut is not lost.
            self.lose_appends(partition);
            let done = self.oracle[at].state.resume().map_or(0, |resume| resume.offset);
            let from = done + 1 + rng.range(0, 10);
            self.stats.add("log_fault", "topic_cut_off");
            self.commands_from[at] = from;
            while (self.commands[at].len() as u64) < from {
                let value = b"{}"[..].into();
                self.command_lands(partition, value, crate::happening::Then::Nobody);
            }
            return LogFault::CutOff { partition };
        }
        self.stats.add("log_fault", "topic_recreated");
        self.lost_commands[at] = std::mem::take(&mut self.commands[at]);
        LogFault::Recreated { partition }
    }

    fn doom(&mut self) -> LogFault {
        let (hash, role, groups, run_as) = ("0f".repeat(32), KeyRole::Viewer, Vec::new(), BTreeSet::new());
        self.stats.add("log_fault", "fold");
        let (app, first_only) = (DOOMED.to_owned(), false);
        self.ask_catalogue(CatalogueCommand::DefineKey {
            app,
            hash,
            role,
            groups,
            run_as,
            may: BTreeSet::new(),
            department: None,
            first_only,
        });
        let revoke = CatalogueCommand::RevokeKey { app: DOOMED.to_owned() };
        self.ask_later(ShardId::CATALOGUE, revoke, 2_000);
        LogFault::Fold { partition: ShardId::CATALOGUE.partition(self.plan.partitions) }
    }

    /// Where a rule holds that nothing may count any more in this partition.
    pub(crate) fn is_closed(&self, partition: u32) -> bool {
        match self.ruined {
            Some(LogFault::CutOff { partition: of } | LogFault::Recreated { partition: of }) => {
                of == partition
            }
            Some(LogFault::Fold { partition: of }) => {
                of == partition && self.oracle[of as usize].chain.head().is_some_and(|head| head.stopped)
            }
            Some(LogFault::Tail { .. } | LogFault::Unnoticed | LogFault::Restored) | None => false,
        }
    }

    /// Notes where a topic rebuilt cannot be told from the one before.
    pub(crate) fn look_for_equal_command(&mut self, partition: u32) {
        let Some(LogFault::Recreated { partition: of }) = self.ruined else { return };
        let at = partition as usize;
        let Some(resume) = self.oracle[at].state.resume().filter(|_| of == partition) else { return };
        let record = self.commands[at].get(resume.offset as usize);
        if record.is_some_and(|record| Hash::of(&record.value).to_string() == resume.hash) {
            self.stats.add("log_fault", "unnoticed");
            self.ruined = Some(LogFault::Unnoticed);
            self.noted = Some(Vec::new());
        }
    }

    /// Whether a reader at this command finds that the log no longer has it.
    pub(crate) fn is_out_of_range(&self, partition: u32, offset: u64) -> bool {
        offset < self.commands_from[partition as usize]
    }

    /// What the mode has to show; tells whether everything must come to rest after it, as usual.
    pub(crate) fn live_on(&mut self) -> bool {
        let Some(log_fault) = self.ruined else { return true };
        match log_fault {
            LogFault::Tail { journal: false, .. } => true,
            LogFault::Unnoticed => {
                self.noted = None;
                false
            }
            LogFault::Fold { partition } => {
                self.doom();
                self.run_until(self.now + SEEN_AFTER_MS);
                self.has_stopped(partition);
                self.mend();
                true
            }
            LogFault::CutOff { partition } | LogFault::Recreated { partition } => {
                self.run_until(self.now + SEEN_AFTER_MS);
                if self.ruined == Some(LogFault::Unnoticed) {
                    self.noted = None;
                    return false;
                }
                if self.stats.get("owner", "commands_lost") == 0 {
                    self.is_wrong("no owner noticed that its commands are gone".to_owned());
                }
                self.settle(Some(partition));
                self.others_are_answered(partition);
                self.keeps_rules(&[]);
                false
            }
            LogFault::Restored => {
                self.run_until(self.now + SEEN_AFTER_MS);
                self.settle(None);
                self.gives_nothing_twice();
                self.keeps_rules(GIVEN_UP_BY_RESTORE);
                false
            }
            LogFault::Tail { journal: true, .. } => {
                self.run_until(self.now + SEEN_AFTER_MS);
                self.settle(None);
                self.keeps_rules(GIVEN_UP);
                false
            }
        }
    }

    /// The record that says so is there, and nobody owns the partition.
    fn has_stopped(&mut self, partition: u32) {
        if !self.is_closed(partition) {
            return self.is_wrong(format!("partition {partition} does not say that it stopped"));
        }
        let seats = self.hosts.iter().filter_map(|host| host.seats[partition as usize].as_ref());
        if let Some(role) = seats.map(|seat| seat.owner.role()).find(|role| *role != Role::Following) {
            self.is_wrong(format!("partition {partition} stopped, and somebody is {role:?}"));
        }
    }

    /// A version with the rules fixed, told to claim what stopped.
    fn mend(&mut self) {
        self.fault_injection.panicking_fold = None;
        for oracle in &mut self.oracle {
            oracle.state = oracle.state.clone().fault_injected(self.fault_injection.clone());
        }
        for host in 0..HOSTS {
            self.crash_host(host, Some(0));
            // From its next turn on.
            self.hosts[host].config.claim_stopped = true;
            self.host_begins(host);
        }
    }

    /// Until every other partition is worked on again.
    fn settle(&mut self, but: Option<u32>) {
        let end = self.now + SETTLED_WITHIN_MS;
        let mut missing = self.others_work(but);
        while missing.is_err() && self.wrong.is_empty() && self.now < end {
            self.run_until(self.now + 2_000);
            missing = self.others_work(but);
        }
        self.noted = None;
        if let Err(missing) = missing {
            self.is_wrong(missing);
        }
    }

    /// Every partition but this one has one owner that holds what its journal says, and has read everything. One
    /// whose resume point went back to what is deleted already has stopped, with the error of a lost topic.
    fn others_work(&self, but: Option<u32>) -> Result<(), String> {
        for partition in (0..self.plan.partitions).filter(|partition| Some(*partition) != but) {
            let at = partition as usize;
            let resume = self.oracle[at].state.resume().map_or(0, |resume| resume.offset);
            if resume < self.commands_from[at] {
                continue;
            }
            let seats = self.hosts.iter().filter_map(|host| host.seats[at].as_ref());
            let owners: Vec<_> = seats.filter(|seat| seat.owner.role() == Role::Owning).collect();
            let [seat] = &owners[..] else {
                return Err(format!("{} processes own partition {partition}", owners.len()));
            };
            if seat.commands_read != Some(self.commands[at].len()) || seat.owner.backlog() > 0 {
                return Err(format!("commands of partition {partition} are not read"));
            }
            let Some(state) = seat.owner.state() else {
                return Err(format!("an append to partition {partition} is under way"));
            };
            if *state != self.oracle[at].state {
                return Err(format!("the owner of {partition} holds another state than its journal"));
            }
        }
        Ok(())
    }

    fn others_are_answered(&mut self, partition: u32) {
        // A deletion is decided only when the shard that would have to cancel batches has said so; a move likewise.
        let asks = |command: &Command| {
            matches!(
                command,
                Command::Job(
                    JobCommand::Delete { .. }
                        | JobCommand::Apply { .. }
                        | JobCommand::Commit { .. }
                        | JobCommand::Move { .. }
                ) | Command::Catalogue(
                    CatalogueCommand::MoveUser { .. } | CatalogueCommand::DeleteUser { .. }
                )
            )
        };
        let open = |requested: &&crate::world::Requested| {
            requested.answer.is_none() && requested.partition != partition && !asks(&requested.record.command)
        };
        if let Some(what) =
            self.requested.values().find(open).map(|requested| format!("{:?}", requested.record.command))
        {
            self.is_wrong(format!("no answer from a partition that lost nothing: {what}"));
        }
    }

    /// The checker finds nothing on record, but for what is given up.
    fn keeps_rules(&mut self, given_up: &[Invariant]) {
        let report = self.checked(false);
        let is_given_up = |rule: &str| given_up.iter().any(|given| given.name() == rule);
        for rule in report.counts.keys().filter(|rule| is_given_up(rule)) {
            self.stats.add("given_up", rule);
        }
        let broken = report.violations.iter().filter(|violation| !is_given_up(violation.invariant));
        let broken: Vec<String> = broken.take(3).map(|violation| format!("checker: {violation}")).collect();
        for what in broken {
            self.is_wrong(what);
        }
    }
}
