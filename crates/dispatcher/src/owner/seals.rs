//! Who wrote a report: its worker, or somebody who can append to the topic (ADR 48).
//!
//! ```text
//!  record ──► names an attempt of another shard, or is of a process that knows internal.key and has not its seal ► passed over
//!         ├─► no report ───────────────────────────────────────────────► decided
//!         ├─► of a worker that need not seal yet ── it is told the key ─► decided
//!         ├─► sealed in the life that it names, or else the present one ► decided
//!         └─► anything else ── its worker is told the key ──────────────► passed over
//! ```
//! What is passed over changes nothing and is in no journal: whoever writes it a thousand times fills none.

use std::collections::BTreeMap;

use tidemill_engine::{Draft, Effect, GroupShard, Partition, Sealing};
use tidemill_log::Record;
use tidemill_model::{
    Command, CommandRecord, GroupName, Incarnation, Level, ObservationCommand, SEAL_BYTES, ShardId, Token,
    WorkMessage, WorkerCommand, WorkerId, seal_parts,
};
use tidemill_seal::{GroupSecret, OwnersSecret, SealKey};

use crate::silence::{Sign, Silence};

/// Between two times that one worker is told the key.
const TELL_AGAIN_MS: u64 = 2_000;
/// Workers that are told the key within [`TELLING_MS`]: each may register again for it.
const MOST_TOLD: u32 = 100;
const TELLING_MS: u64 = 500;
/// Between two log lines about refused reports.
const LINE_AGAIN_MS: u64 = 10_000;
/// Workers whose keys and so on are kept; with more, all of it is made again.
const MOST_WORKERS: usize = 100_000;
/// The same of groups' keys.
const MOST_GROUPS: usize = 4_096;

/// Whose report a command is.
struct Report<'a> {
    worker: &'a WorkerId,
    /// In which life, where it says that.
    life: Option<&'a Incarnation>,
    kind: ReportKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReportKind {
    Registration,
    Heartbeat,
    /// A question for the start of an assignment.
    Question(Token),
    Other,
}

/// Why a report was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsealed {
    /// Its worker has not heard the key yet, as far as its owner knows.
    NotYet,
    /// It is not its worker's.
    Foreign(&'static str),
}

type Place = (ShardId, WorkerId);

/// What is known of one worker that seals.
#[derive(Debug, Default)]
struct Known {
    /// Of its life of this name, by this key of its group.
    key: Option<(Incarnation, String, SealKey)>,
    /// When it was told the key last.
    told_ms: Option<u64>,
}

/// What an owner makes of seals.
#[derive(Debug, Default)]
pub(crate) struct Seals {
    secret: Option<OwnersSecret>,
    /// By the public keys of groups.
    groups: BTreeMap<String, Option<GroupSecret>>,
    workers: BTreeMap<Place, Known>,
    /// Who is to be told the key, once the state holds no more than the journal.
    to_tell: BTreeMap<Place, Incarnation>,
    /// Since when, and how many were told since then.
    telling: (u64, u32),
    refused: u64,
    line_ms: Option<u64>,
    /// The same of those whose worker may not know the key yet.
    early_line_ms: Option<u64>,
}

impl Seals {
    /// Without a secret every report counts as sealed: for those who test rules, not attackers.
    pub(super) fn new(secret: Option<OwnersSecret>) -> Self {
        Self { secret, ..Self::default() }
    }

    /// Another ownership begins, which remembers nothing.
    pub(super) fn start(&mut self) {
        let Self { refused, line_ms, early_line_ms, .. } = *self;
        *self = Self { refused, line_ms, early_line_ms, ..Self::new(self.secret.take()) };
    }

    /// Whether a command may be decided, as far as its seal goes; whether it has a seal, where it may.
    pub(super) fn check(
        &mut self,
        draft: &Draft<'_>,
        (command, record): (&CommandRecord, &Record),
        (silence, boot_ms): (&mut Silence, u64),
    ) -> Result<bool, Unsealed> {
        let Some(secret) = &self.secret else { return Ok(false) };
        if draft.state().level().allows(Level::SEALED_REPORTS) {
            check_of_cluster(secret, command)?;
        }
        let Some(group) = draft.state().group(command.shard) else { return Ok(false) };
        let Some(report) = report(&command.command) else { return Ok(false) };
        let Some(sealing) = group.sealing(report.worker) else { return Ok(false) };
        let place = (command.shard, report.worker.clone());
        let present = report.life.is_none_or(|life| life == sealing.incarnation);
        match report.kind {
            // The engine says that it is not the present life; but it lives, if that is so.
            ReportKind::Heartbeat if !present => {
                let (Some(life), Some(worker_key)) = (report.life, sealing.worker_key) else {
                    return Ok(false);
                };
                let (body, seal) = seal_parts(&record.value);
                let is_sealed = |seal| self.is_sealed(&place, (life, worker_key), &sealing, (body, seal));
                return Ok(seal.is_some_and(is_sealed));
            }
            ReportKind::Registration
                if report.life.is_some_and(|life| group.has_ended(report.worker, life)) =>
            {
                return Err(Unsealed::Foreign("it registers a life that has ended"));
            }
            // The group has signed it.
            ReportKind::Registration if !present => return Ok(false),
            ReportKind::Registration if sealing.worker_key.is_none() => return Ok(false),
            ReportKind::Registration
            | ReportKind::Heartbeat
            | ReportKind::Question(_)
            | ReportKind::Other => {}
        }
        let Some(worker_key) = sealing.worker_key else {
            if report.kind == ReportKind::Heartbeat && group.level().allows(Level::SEALED_REPORTS) {
                self.to_tell.insert(place, sealing.incarnation.clone());
            }
            return Ok(false);
        };
        let (body, seal) = seal_parts(&record.value);
        let life = (report.life.unwrap_or(sealing.incarnation), worker_key);
        if seal.is_some_and(|seal| self.is_sealed(&place, life, &sealing, (body, seal))) {
            let is_new = silence.is_new_sign(Sign::of(command.shard, &command.command).as_ref());
            return if is_new {
                Ok(true)
            } else {
                Err(Unsealed::Foreign("it is a repeat of an old sign of life"))
            };
        }
        let life = (place.0, place.1.clone(), life.0.clone());
        let knows_key = silence.has_sealed(&life);
        match report.kind {
            ReportKind::Heartbeat | ReportKind::Registration if !knows_key => silence.may_live(life, boot_ms),
            // What its worker may have acted on is not taken for never asked; its worker says what holds.
            ReportKind::Question(token) if !knows_key && seal.is_some() => {
                silence.doubt_right(place.0, token)
            }
            ReportKind::Heartbeat
            | ReportKind::Registration
            | ReportKind::Question(_)
            | ReportKind::Other => {}
        }
        self.to_tell.insert(place, sealing.incarnation.clone());
        match seal {
            // A worker sends its first heartbeat, and that it has taken attempts over, before it receives the key.
            None if !knows_key => Err(Unsealed::NotYet),
            None => Err(Unsealed::Foreign("it is not sealed")),
            Some(_) => {
                Err(Unsealed::Foreign("it is sealed by somebody else, in another life, or for another owner"))
            }
        }
    }

    /// Forgets the workers that the state does not know any more.
    pub(super) fn forget(&mut self, partition: &Partition) {
        let knows = |(shard, worker): &Place| {
            partition.group(*shard).is_some_and(|group| group.life_of(worker).is_some())
        };
        self.workers.retain(|place, _| knows(place));
    }

    fn worker(&mut self, place: &Place) -> &mut Known {
        if self.workers.len() >= MOST_WORKERS && !self.workers.contains_key(place) {
            self.workers.clear();
        }
        self.workers.entry(place.clone()).or_default()
    }

    fn is_sealed(
        &mut self,
        place: &Place,
        (life, worker_key): (&Incarnation, &str),
        sealing: &Sealing<'_>,
        (body, seal): (&[u8], &[u8; SEAL_BYTES]),
    ) -> bool {
        let known = self.workers.get(place).and_then(|known| known.key.as_ref());
        if let Some((_, _, key)) = known.filter(|(of, by, _)| of == life && by == worker_key) {
            return key.has_sealed(body, seal);
        }
        let Some(key) = self.make(&place.1, life, (sealing.group, worker_key)) else { return false };
        let is_sealed = key.has_sealed(body, seal);
        if life == sealing.incarnation {
            self.worker(place).key = Some((life.clone(), worker_key.to_owned(), key));
        }
        is_sealed
    }

    fn make(
        &mut self,
        worker: &WorkerId,
        life: &Incarnation,
        (group, worker_key): (&GroupName, &str),
    ) -> Option<SealKey> {
        let secret = self.secret.as_ref()?;
        if !self.groups.contains_key(worker_key) {
            if self.groups.len() >= MOST_GROUPS {
                self.groups.clear();
            }
            self.groups.insert(worker_key.to_owned(), secret.with_group(worker_key));
        }
        Some(self.groups.get(worker_key)?.as_ref()?.life(group, worker, life))
    }

    /// Counts a report that was passed over, and says so now and then.
    pub(super) fn refuse(&mut self, partition: u32, offset: u64, why: Unsealed, boot_ms: u64) {
        self.refused += 1;
        let line_ms = match why {
            Unsealed::Foreign(_) => &mut self.line_ms,
            Unsealed::NotYet => &mut self.early_line_ms,
        };
        if line_ms.is_some_and(|at| boot_ms.saturating_sub(at) < LINE_AGAIN_MS) {
            return;
        }
        *line_ms = Some(boot_ms);
        let refused = self.refused;
        match why {
            Unsealed::Foreign(reason) => tracing::warn!(
                partition,
                offset,
                refused,
                reason,
                "a report that is not its worker's was passed over"
            ),
            Unsealed::NotYet => tracing::info!(
                partition,
                offset,
                refused,
                "a report without a seal was passed over; its worker says it again once it knows the key"
            ),
        }
    }

    /// How many reports were passed over.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// What workers are to be told of the key, within bounds. The state must hold what the journal holds: below its level
    /// nothing of this is said.
    pub(super) fn tell(&mut self, partition: &Partition, boot_ms: u64) -> Vec<Effect> {
        if self.to_tell.is_empty() {
            return Vec::new();
        }
        if boot_ms.saturating_sub(self.telling.0) >= TELLING_MS {
            self.telling = (boot_ms, 0);
        }
        let mut effects = Vec::new();
        for (place, life) in std::mem::take(&mut self.to_tell) {
            let is_present = |group: &GroupShard| group.life_of(&place.1) == Some(&life);
            let group = partition.group(place.0).filter(|group| group.level().allows(Level::SEALED_REPORTS));
            let told_ms = self.workers.get(&place).and_then(|known| known.told_ms);
            let is_soon = told_ms.is_some_and(|at| boot_ms.saturating_sub(at) < TELL_AGAIN_MS);
            // Who is left out speaks again.
            if !group.is_some_and(is_present) || is_soon || self.telling.1 >= MOST_TOLD {
                continue;
            }
            self.telling.1 += 1;
            self.worker(&place).told_ms = Some(boot_ms);
            effects.extend(self.key_for(&place.1, life));
        }
        effects
    }

    fn key_for(&self, worker: &WorkerId, incarnation: Incarnation) -> Option<Effect> {
        let key = self.secret.as_ref()?.public().hex();
        Some(Effect::Work { worker: worker.clone(), message: WorkMessage::SealReports { incarnation, key } })
    }

    /// Before the answer to a registration goes the key that its worker seals with from then on.
    pub(super) fn with_keys(&self, partition: &Partition, effects: Vec<Effect>) -> Vec<Effect> {
        if self.secret.is_none() {
            return effects;
        }
        let mut all = Vec::with_capacity(effects.len());
        for effect in effects {
            if let Effect::Work { worker, message: WorkMessage::Registered { incarnation, shard, .. } } =
                &effect
            {
                let sealing = partition.group(*shard).and_then(|group| group.sealing(worker));
                if sealing.is_some_and(|sealing| sealing.worker_key.is_some()) {
                    all.extend(self.key_for(worker, incarnation.clone()));
                }
            }
            all.push(effect);
        }
        all
    }
}

/// What holds of every worker's report, and of what processes of the cluster say.
fn check_of_cluster(secret: &OwnersSecret, record: &CommandRecord) -> Result<(), Unsealed> {
    // An owner that does not know an attempt has its worker end it: only the owner of its shard may say so.
    if attempt_of(&record.command).is_some_and(|token| token.shard() != record.shard) {
        return Err(Unsealed::Foreign("it names an attempt of another shard"));
    }
    match secret.has_sealed(record) {
        Some(false) => Err(Unsealed::Foreign("no interface or prober of this cluster has sealed it")),
        Some(true) | None => Ok(()),
    }
}

/// The attempt that a report names.
fn attempt_of(command: &Command) -> Option<Token> {
    match command {
        Command::Worker(
            WorkerCommand::RejectAssignment { token, .. }
            | WorkerCommand::ReportStarted { token, .. }
            | WorkerCommand::ReportFinished { token, .. }
            | WorkerCommand::ReportUserCode { token, .. },
        )
        | Command::Observation(ObservationCommand::RecheckFailed { token, .. }) => Some(*token),
        Command::Worker(WorkerCommand::RequestStart(request)) => Some(request.token),
        _ => None,
    }
}

/// Which worker's report a command is, if it is one.
fn report(command: &Command) -> Option<Report<'_>> {
    let of = |worker, life, kind| Some(Report { worker, life, kind });
    match command {
        Command::Worker(command) => match command {
            WorkerCommand::Register(registration) => {
                of(&registration.worker, Some(&registration.incarnation), ReportKind::Registration)
            }
            WorkerCommand::Heartbeat(heartbeat) => {
                of(&heartbeat.worker, Some(&heartbeat.incarnation), ReportKind::Heartbeat)
            }
            WorkerCommand::RequestStart(request) => {
                of(&request.worker, Some(&request.incarnation), ReportKind::Question(request.token))
            }
            WorkerCommand::RejectAssignment { worker, .. }
            | WorkerCommand::ReportStarted { worker, .. }
            | WorkerCommand::ReportFinished { worker, .. } => of(worker, None, ReportKind::Other),
            // Of people, of programs, and of owners alone.
            WorkerCommand::Drain { .. }
            | WorkerCommand::Resume { .. }
            | WorkerCommand::DrainHost { .. }
            | WorkerCommand::ResumeHost { .. }
            | WorkerCommand::VouchEnded { .. }
            | WorkerCommand::EndStray { .. }
            | WorkerCommand::ReportUserCode { .. }
            | WorkerCommand::DeclareLost { .. }
            | WorkerCommand::ExpireLease { .. }
            | WorkerCommand::WarnOfLease { .. }
            | WorkerCommand::EndStartRight { .. } => None,
        },
        Command::Observation(ObservationCommand::RecheckFailed { worker, .. }) => {
            of(worker, None, ReportKind::Other)
        }
        Command::Catalogue(_)
        | Command::Directory(_)
        | Command::Credential(_)
        | Command::Access(_)
        | Command::Job(_)
        | Command::Rerun(_)
        | Command::Bulk(_)
        | Command::Level(_)
        | Command::Task(_)
        | Command::Batch(_)
        | Command::Observation(_)
        | Command::Shard(_) => None,
    }
}
