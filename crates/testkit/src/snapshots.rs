//! Snapshots: owners name records, somebody takes snapshots of them, and the store loses, damages and mixes them up. Whoever begins
//! with one has to have what a fold from the first record gives.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_archive::{Listing, Object, Store};
use tidemill_dispatcher::NamedSnapshot;
use tidemill_log::{
    Chain, Error as LogError, From, Head, Kind, LogId, Reader, Readers, Record, Relay, Source, Topic, Waker,
};
use tidemill_model::{Envelope, Level};
use tidemill_snapshots::{
    Encoded, Error, Fold, Mark, Refusal, Sight, Snapshot, SnapshotName, Snapshots, Taken, Until, restore,
    take, verify,
};

use crate::happening::{Happening, OwnerStep};
use crate::host::text_of;
use crate::plan::Mode;
use crate::rng::Rng;
use crate::world::World;

/// Where they are, and how they are reached.
pub(crate) struct Kept {
    store: Arc<MemoryStore>,
    snapshots: Snapshots,
}

/// What is in memory. Nothing here is shared between threads; the port asks for it.
#[derive(Default)]
struct MemoryStore(Mutex<BTreeMap<String, Vec<u8>>>);

impl MemoryStore {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn list(&self, name: &str) -> Result<Listing, Source> {
        let below = format!("{name}/");
        let objects = self.objects();
        let of = |(name, bytes): (&String, &Vec<u8>)| {
            Some(Object { name: name.strip_prefix(&below)?.to_owned(), bytes: bytes.len() as u64 })
        };
        Ok(Listing { objects: objects.iter().filter_map(of).collect(), directories: Vec::new() })
    }

    fn read(&self, name: &str, _: Range<u64>) -> Result<Option<Vec<u8>>, Source> {
        Ok(self.objects().get(name).cloned())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Source> {
        self.objects().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), Source> {
        self.objects().remove(name);
        Ok(())
    }
}

/// The journals as they are now.
struct View {
    log_id: LogId,
    journals: Vec<Vec<Record>>,
}

impl Readers for View {
    fn log_id(&self) -> &LogId {
        &self.log_id
    }

    fn partitions(&self, _: Topic) -> u32 {
        self.journals.len() as u32
    }

    fn reader(&self, _: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, LogError> {
        let records = self.journals[partition as usize].clone();
        let next = match from {
            From::Offset(offset) => offset as usize,
            From::Start | From::End => 0,
        };
        Ok(Box::new(OneReader { records, next }))
    }

    fn range(&self, _: Topic, partition: u32) -> Result<Range<u64>, LogError> {
        Ok(0..self.journals[partition as usize].len() as u64)
    }
}

struct OneReader {
    records: Vec<Record>,
    next: usize,
}

impl Reader for OneReader {
    fn poll(&mut self, max_records: usize, _: Duration) -> Result<Vec<Record>, LogError> {
        let end = self.records.len().min(self.next + max_records);
        let records = self.records[self.next.min(end)..end].to_vec();
        self.next = end;
        Ok(records)
    }

    fn waker(&self) -> Waker {
        Relay::new().waker()
    }
}

fn refused(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Missing => "missing",
        Refusal::Store(_) => "store",
        Refusal::Damaged(_) => "damaged",
        Refusal::OtherForm(_) => "other_form",
        Refusal::Foreign { .. } => "foreign",
        Refusal::OtherRecord(_) => "other_record",
        Refusal::NotNamed => "not_named",
        Refusal::Unreadable(_) => "unreadable",
    }
}

fn log_id() -> LogId {
    LogId::try_from("simulated".to_owned()).expect("small letters")
}

impl World {
    /// In half of all histories; not where the fold itself is to fail.
    pub(crate) fn has_snapshots(&self) -> bool {
        self.plan.mode != Mode::FailingFold && Rng::new(self.plan.seed, "snapshots", 0).chance(50)
    }

    pub(crate) fn snapshots_begin(&mut self) {
        if !self.has_snapshots() {
            return;
        }
        let store = Arc::new(MemoryStore::default());
        let snapshots = Snapshots::new(Arc::clone(&store) as Arc<dyn Store>, log_id()).asked_once();
        let snapshots = snapshots.fault_injected(self.fault_injection.clone());
        self.snapshots = Some(Kept { store, snapshots });
        self.at(3_000, Happening::SnapshotDue);
    }

    fn view(&self) -> View {
        View { log_id: log_id(), journals: self.journal.clone() }
    }

    /// The fold from the first record up to and without this one.
    fn folded(&self, partition: u32, end: u64) -> Fold {
        let count = self.plan.partitions;
        let fold = Fold::beginning(partition, count);
        let mut fold = Fold { state: fold.state.fault_injected(self.fault_injection.clone()), ..fold };
        for record in &self.journal[partition as usize][..end as usize] {
            fold.take(record, Level::MAX).expect("an owner wrote it");
        }
        fold
    }

    fn random(&self, what: &str) -> Rng {
        Rng::new(self.plan.seed, what, self.now)
    }

    pub(crate) fn snapshot_due(&mut self) {
        if self.healed {
            return;
        }
        let mut rng = self.random("snapshot");
        self.after(rng.range(300, 4_000), Happening::SnapshotDue);
        let partition = rng.below(self.plan.partitions as usize) as u32;
        if rng.chance(30) {
            self.snapshot_of_void(partition, &mut rng);
        }
        let now = self.now;
        for host in 0..self.hosts.len() {
            let known = &mut self.hosts[host];
            let Some(seat) = known.seats[partition as usize].as_mut().filter(|_| now >= known.paused_until)
            else {
                continue;
            };
            if let Some(mark) = seat.owner.mark() {
                let turn = seat.turn;
                let wait = rng.range(1, 3_000);
                return self.after(wait, Happening::SnapshotTaken { host, partition, turn, mark });
            }
        }
    }

    pub(crate) fn snapshot_taken(&mut self, host: usize, partition: u32, turn: u64, mark: Mark) {
        let mut rng = self.random("snapshot taken");
        if let Some(taken) = self.take(partition, mark, rng.chance(50)) {
            let held = self.folded(partition, mark.offset + 1);
            if Snapshot::of(&held).map(|of| of.digest) != Some(taken.digest) {
                self.is_wrong(format!("{} is not the fold up to its record", taken.name));
            }
            let hop = rng.range(1, 12);
            let what = OwnerStep::Snapshot(Box::new(taken));
            self.after(hop, Happening::Owner { host, partition, turn, what });
        }
        match rng.below(8) {
            0 => self.damage(partition, &mut rng),
            1 => self.mix_up(partition, &mut rng),
            2 => self.snapshot_of_void(partition, &mut rng),
            3 => self.lose_snapshot(partition),
            _ => {}
        }
    }

    fn take(&mut self, partition: u32, mark: Mark, compare: bool) -> Option<Taken> {
        let kept = self.snapshots.as_ref()?;
        let view = self.view();
        let (log, snapshots, reads) = (&view as &dyn Readers, &kept.snapshots, Level::new(2));
        let sight = Sight { log, snapshots, partition, reads, is_stopped: &|| false };
        let attempt = || {
            let taken = take(&sight, mark, compare)?;
            if compare {
                verify(&sight, &taken.name, mark.offset)?;
            }
            Ok(taken)
        };
        match catch_unwind(AssertUnwindSafe(attempt)) {
            Ok(Ok(taken)) => {
                self.stats.add("snapshot", "taken");
                Some(taken)
            }
            Ok(Err(error @ Error::Differs { .. })) => {
                self.is_wrong(format!("{error}, so it is not the fold up to its record"));
                None
            }
            // The end of the journal was lost meanwhile.
            Ok(Err(_)) => {
                self.stats.add("snapshot", "not_taken");
                None
            }
            Err(panic) => {
                self.is_wrong(format!("a panic: {}", text_of(&*panic)));
                None
            }
        }
    }

    fn newest(&self, partition: u32) -> Option<SnapshotName> {
        let listed = self.snapshots.as_ref()?.snapshots.list(partition).ok()?;
        listed.into_iter().map(|(name, _)| name).next()
    }

    fn put(&mut self, name: &str, bytes: &[u8]) {
        if let Some(kept) = &self.snapshots {
            kept.store.objects().insert(name.to_owned(), bytes.to_vec());
        }
    }

    /// A disk that loses the end of a file, or changes a byte of it.
    fn damage(&mut self, partition: u32, rng: &mut Rng) {
        let Some(name) = self.newest(partition).map(|name| name.to_string()) else { return };
        let bytes = self.snapshots.as_ref().and_then(|kept| kept.store.objects().get(&name).cloned());
        let Some(mut bytes) = bytes.filter(|bytes| !bytes.is_empty()) else { return };
        let at = rng.below(bytes.len());
        if rng.chance(50) {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << rng.below(8);
        }
        self.stats.add("snapshot", "damaged");
        self.put(&name, &bytes);
    }

    /// Somebody copies the file of another partition there.
    fn mix_up(&mut self, partition: u32, rng: &mut Rng) {
        let other = rng.below(self.plan.partitions as usize) as u32;
        let Some(of_other) = self.newest(other).filter(|_| other != partition) else { return };
        let bytes =
            self.snapshots.as_ref().and_then(|kept| kept.store.objects().get(&of_other.to_string()).cloned());
        let end = self.journal[partition as usize].len() as u64;
        let name = SnapshotName { partition, offset: of_other.offset.min(end), ..of_other };
        self.stats.add("snapshot", "foreign");
        self.put(&name.to_string(), &bytes.unwrap_or_default());
    }

    fn lose_snapshot(&mut self, partition: u32) {
        let Some(name) = self.newest(partition) else { return };
        self.stats.add("snapshot", "lost");
        if let Some(kept) = &self.snapshots {
            kept.store.objects().remove(&name.to_string());
        }
    }

    /// The state of somebody who took a record for accepted that is void: a snapshot of it is whole, and has a right hash.
    /// Owners hear of it as of any other.
    fn snapshot_of_void(&mut self, partition: u32, rng: &mut Rng) {
        let void = self.void_envelopes(partition);
        let Some((offset, envelope)) = rng.pick(&void).cloned() else { return };
        let mut fold = self.folded(partition, offset);
        let Some(head) = fold.chain.head().cloned() else { return };
        let record = &self.journal[partition as usize][offset as usize];
        let Ok(header) = record.value.header().copied() else { return };
        let (hash, epoch, seq) = (record.value.hash(), header.epoch, header.seq);
        fold.chain = Chain::resume(Head { offset, hash, epoch, seq, ..head });
        fold.next = offset + 1;
        if catch_unwind(AssertUnwindSafe(|| fold.apply(&envelope))).is_err() {
            return;
        }
        let Some(Encoded { name, digest, bytes, file }) = Snapshot::of(&fold) else { return };
        self.stats.add("snapshot", "of_void");
        self.put(&name.to_string(), &file);
        let taken = Taken { mark: Mark { offset, epoch, seq, hash }, name, digest, bytes };
        for host in 0..self.hosts.len() {
            let Some(turn) = self.hosts[host].seats[partition as usize].as_ref().map(|seat| seat.turn) else {
                continue;
            };
            let what = OwnerStep::Snapshot(Box::new(taken.clone()));
            self.after(1, Happening::Owner { host, partition, turn, what });
        }
    }

    fn void_envelopes(&self, partition: u32) -> Vec<(u64, Arc<Envelope>)> {
        let mut chain = Chain::new();
        let mut void = Vec::new();
        for record in &self.journal[partition as usize] {
            let is_void = chain.accept(record.offset, &record.value).accepted().is_none();
            let is_envelope = record.value.header().is_ok_and(|header| header.kind == Kind::Envelope);
            if is_void && is_envelope && chain.head().is_some() {
                let envelope = record.value.decoded(|body| Envelope::read(body, Level::MAX));
                void.extend(envelope.ok().map(|envelope| (record.offset, envelope)));
            }
        }
        void
    }

    /// What an owner begins with.
    pub(crate) fn begun(&mut self, host: usize, partition: u32) -> (Fold, Option<NamedSnapshot>) {
        let Some(kept) = &self.snapshots else {
            return (self.folded(partition, 0), None);
        };
        let reads = self.hosts[host].config.reads;
        let (view, snapshots) = (self.view(), kept.snapshots.clone());
        let restored = restore(&view, Some(&snapshots), partition, reads, Until::Named);
        for (_, refusal) in &restored.refused {
            self.stats.add("snapshot_refused", refused(refusal));
        }
        let (fold, begun) = (restored.fold, restored.begun);
        let Some(begun) = begun else { return (fold, None) };
        self.stats.add("snapshot", "begun_with");
        self.tell(|| format!("host {host} begins p{partition} with {}", begun.name));
        let whole = self.folded(partition, fold.next);
        if whole.state != fold.state || whole.chain.head() != fold.chain.head() {
            self.is_wrong(format!("host {host} begins with another state than the fold: {}", begun.name));
        }
        (fold, Some(NamedSnapshot::from(&begun)))
    }
}
