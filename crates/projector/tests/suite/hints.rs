//! Hints are kept honest: what a keeper promises with each beat, whatever becomes of the back end (PUL-6, PUL-9).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::{Owner, log};
use serde_json::{Value, json};
use tidemill_journal::Shutdown;
use tidemill_log::{Log, MemoryLog, Readers, Topic};
use tidemill_projector::{Error, Report, keep_hints, verify_hints};
use tidemill_store::hints::{Hint, HintFuture, HintPage, Hints, Life, Look, MemoryHints, Place, Turn};

const PATIENCE: Duration = Duration::from_secs(30);
/// A task acknowledged so long ago is offered by every poll.
const SECOND: Duration = Duration::from_secs(1);
const SHARD: u16 = 1;

struct Kept {
    hints: Arc<MemoryHints>,
    log: Arc<dyn Log>,
    memory: MemoryLog,
    owner: Owner,
    runtime: tokio::runtime::Runtime,
    shutdown: Shutdown,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Kept {
    fn new() -> Self {
        let (memory, log) = log(2);
        let owner = Owner::claim(&*log, 1);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (hints, shutdown) = (Arc::new(MemoryHints::new()), Shutdown::new());
        let mut this = Self { hints, log, memory, owner, runtime, shutdown, thread: None };
        this.start();
        this
    }

    fn start(&mut self) {
        self.shutdown = Shutdown::new();
        let (log, hints, told) =
            (Arc::clone(&self.log), self.hints.clone() as Arc<dyn Hints>, self.shutdown.clone());
        self.thread = Some(std::thread::spawn(move || keep_hints(&log, &hints, &told)));
    }

    fn stop(&mut self) {
        self.shutdown.request();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }

    fn look(&self, user: &str) -> Look {
        self.runtime.block_on(self.hints.look(&place(user))).unwrap()
    }

    fn until(&self, user: &str, what: &str, is_so: impl Fn(&Look) -> bool) -> Look {
        let begun_at = Instant::now();
        loop {
            let look = self.look(user);
            if is_so(&look) {
                return look;
            }
            assert!(begun_at.elapsed() < PATIENCE, "{what}: {look:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A hint that counts, as an owner that has nothing would give it now.
    fn prepared(&mut self, user: &str) -> Life {
        let life = self.until(user, "a life holds", |look| look.life.is_some()).life.unwrap();
        let offset = self.owner.decide(Vec::new());
        let hint = Hint { life: life.clone(), offset, until_ms: i64::MAX, begins: false };
        self.runtime.block_on(self.hints.keep(&place(user), &hint, PATIENCE)).unwrap();
        life
    }

    fn counts(&self, user: &str) -> bool {
        self.look(user).counting(0).is_some()
    }

    /// What became of it, a second after `since`.
    fn ends_within_a_second(&self, user: &str, since: Instant, what: &str) {
        loop {
            // Before it is looked at: this thread may stand still for a while at any place.
            let is_late = since.elapsed() >= SECOND;
            if !self.counts(user) {
                return;
            }
            assert!(!is_late, "{what}: {:?}", self.look(user));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.shutdown.request();
        if let Some(thread) = self.thread.take() {
            // A failure is told by the test that looks at it.
            drop(thread.join());
        }
    }
}

fn place(user: &str) -> Place {
    Place { partition: 1, shard: SHARD, user: user.into() }
}

fn created(executor: Value) -> Value {
    let spec = json!({"executor": executor, "when": {"once": {"start": "2026-03-01T10:00:00.000Z"}}});
    json!({"task": {"created": {"task": 4097, "spec": spec}}})
}

fn grant(kind: &str, user: &str) -> Value {
    let mut grant = json!({"grant": 4097, "task": 4097, "start": "2026-03-01T10:00:00.000Z", "user": user});
    let more = match kind {
        "granted" => json!({"version": 1}),
        "completed" => json!({"result": "ok"}),
        "grant_returned" => json!({"by": {"app": "test"}}),
        _ => json!({}),
    };
    grant.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"task": {kind: grant}})
}

/// PUL-9, E5: whatever may make something due ends the hints that say otherwise, those of whom it concerns, within a
/// second; the others stay.
#[test]
fn facts_end_the_hints_of_those_whom_they_concern() {
    let mut kept = Kept::new();
    let group = created(json!({"group": "demo"}));
    for (fact, ends_ann, ends_bob) in [
        (group, true, true),
        (created(json!({"user": "ann"})), true, false),
        (grant("granted", "ann"), true, false),
        (grant("completed", "ann"), true, false),
        (grant("grant_returned", "ann"), true, true),
        (grant("grant_expired", "ann"), true, true),
        (json!({"replication": {"users_replicated": {"users": ["ann"]}}}), true, false),
        (json!({"transfer": {"user_detached": {"user": "ann"}}}), true, false),
        (json!({"transfer": {"user_attached": {"user": "ann"}}}), true, false),
        (json!({"task": {"deleted": {"task": 4097}}}), false, false),
    ] {
        let life = kept.prepared("ann");
        kept.prepared("bob");
        let what = fact.to_string();
        let offset = kept.owner.decide(vec![(SHARD, fact)]);
        let since = Instant::now();
        for (user, ends) in [("ann", ends_ann), ("bob", ends_bob)] {
            if ends {
                kept.ends_within_a_second(user, since, &what);
                let marked = kept.until(user, &what, |look| {
                    look.life.is_some() && look.group_mark.max(look.user_mark) >= Some(offset)
                });
                assert_eq!(marked.life, Some(life.clone()), "it is the mark that ends it: {what}");
            }
        }
        // Folded, and still there.
        kept.owner.decide(vec![(SHARD, grant("granted", "zoe"))]);
        let begun_at = Instant::now();
        while kept.look("zoe").user_mark < Some(offset + 1) {
            assert!(begun_at.elapsed() < PATIENCE);
        }
        for (user, ends) in [("ann", ends_ann), ("bob", ends_bob)] {
            let counts = kept.until(user, "a life holds", |look| look.life.is_some()).counting(0).is_some();
            assert_eq!(counts, !ends, "{user}: {what}");
        }
    }
}

/// PUL-9: facts of another shard of the same partition end nothing here.
#[test]
fn other_groups_keep_their_hints() {
    let mut kept = Kept::new();
    kept.prepared("ann");
    kept.owner.decide(vec![(SHARD + 2, created(json!({"group": "other"})))]);
    kept.owner.decide(vec![(SHARD, grant("granted", "zoe"))]);
    kept.until("zoe", "it is folded", |look| look.user_mark.is_some());
    assert!(kept.until("ann", "a life holds", |look| look.life.is_some()).counting(0).is_some());
}

/// PUL-8: a back end that is emptied at any moment, between a fact and its mark too: no hint from before it counts a
/// second after a fact, and then a new life begins.
#[test]
fn emptied_back_end_never_lets_an_older_hint_count() {
    let mut kept = Kept::new();
    for round in 0..12_u64 {
        let before = kept.prepared("ann");
        let stale = kept.look("ann").hint.unwrap();
        kept.owner.decide(vec![(SHARD, created(json!({"group": "demo"})))]);
        let since = Instant::now();
        std::thread::sleep(Duration::from_millis(round * 3));
        kept.hints.flush();
        // An answer from before it arrives late.
        kept.runtime.block_on(kept.hints.keep(&place("ann"), &stale, PATIENCE)).unwrap();
        kept.ends_within_a_second("ann", since, "emptied");
        let after = kept.until("ann", "a life holds again", |look| look.life.is_some());
        assert_ne!(after.life, Some(before), "marks were lost");
        assert!(!kept.counts("ann"));
    }
}

/// Another keeper of the same partition: one of them works, the other waits; when the first is gone, the second goes on
/// with a life of its own.
#[test]
fn second_keeper_waits_for_its_turn() {
    let mut kept = Kept::new();
    let first = kept.prepared("ann");
    kept.stop();
    kept.until("ann", "the life ends", |look| look.life.is_none());
    let (mine, hints) = (Life::draw(), kept.hints.clone());
    assert!(hints.begin(1, &mine).unwrap());
    let turn = |number: u64, holds_ms: i64| {
        let until = hints.clock_ms().unwrap() + holds_ms;
        hints
            .turn(&Turn {
                partition: 1,
                life: &mine,
                confirmed: number - 1,
                number,
                marks: &[],
                holds_until_ms: Some(until),
            })
            .unwrap()
    };
    // As long as nothing here can take, however often it is interrupted.
    const LONG_MS: i64 = 600_000;
    assert!(turn(1, LONG_MS));
    kept.start();
    let begun_at = Instant::now();
    for number in 2.. {
        if begun_at.elapsed() > SECOND {
            assert!(turn(number, 0));
            break;
        }
        assert!(turn(number, LONG_MS), "the other one broke in");
        assert_eq!(kept.look("ann").life, Some(mine.clone()));
        std::thread::sleep(Duration::from_millis(20));
    }
    let last =
        kept.until("ann", "the other goes on", |look| look.life.is_some() && look.life != Some(mine.clone()));
    assert_ne!(last.life, Some(first));
    assert!(!kept.counts("ann"));
}

/// A record that this version does not understand ends every hint; what comes after it is kept as ever.
#[test]
fn record_that_is_not_understood_ends_every_hint() {
    let mut kept = Kept::new();
    let before = kept.prepared("ann");
    kept.owner.write(br#"{"now":"2026-03-01T10:00:00.000Z","causes":[],"events":[{"shard":1,"event":{"from_the_future":{}}}]}"#.to_vec());
    kept.ends_within_a_second("ann", Instant::now(), "not understood");
    let after = kept.until("ann", "a life holds again", |look| look.life.is_some());
    assert_ne!(after.life, Some(before));
    assert!(kept.memory.range(Topic::Journal, 1).unwrap().end > 0);
}

/// Counts what the keeper does.
struct Counted {
    inner: MemoryHints,
    asked: AtomicUsize,
    begun: AtomicUsize,
}

impl Hints for Counted {
    fn look(&self, place: &Place) -> HintFuture<'_, Look> {
        self.inner.look(place)
    }
    fn keep(&self, place: &Place, hint: &Hint, kept_for: Duration) -> HintFuture<'_, ()> {
        self.inner.keep(place, hint, kept_for)
    }
    fn page(&self, partition: u32, from: Option<u64>) -> Result<HintPage, tidemill_store::Error> {
        self.inner.page(partition, from)
    }
    fn forget(&self, partition: u32) -> Result<u64, tidemill_store::Error> {
        self.inner.forget(partition)
    }
    fn wanted(&self, partition: u32) -> Result<bool, tidemill_store::Error> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.inner.wanted(partition)
    }
    fn clock_ms(&self) -> Result<i64, tidemill_store::Error> {
        self.inner.clock_ms()
    }
    fn begin(&self, partition: u32, life: &Life) -> Result<bool, tidemill_store::Error> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.inner.begin(partition, life)
    }
    fn turn(&self, turn: &Turn<'_>) -> Result<bool, tidemill_store::Error> {
        self.inner.turn(turn)
    }
}

/// PUL-9: while nobody looks the keeper rests, and no life holds; a look wakes it, in its partition alone.
#[test]
fn keeper_rests_until_somebody_looks() {
    let (_, log) = log(2);
    let hints = Arc::new(Counted {
        inner: MemoryHints::new(),
        asked: AtomicUsize::new(0),
        begun: AtomicUsize::new(0),
    });
    let shutdown = Shutdown::new();
    let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        let shared = hints.clone() as Arc<dyn Hints>;
        let kept = scope.spawn(|| keep_hints(&log, &{ shared }, &shutdown));
        let begun_at = Instant::now();
        while of(&hints.asked) < 8 {
            assert!(begun_at.elapsed() < PATIENCE, "nobody asks whether hints are wanted");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(of(&hints.begun), 0, "nobody wants hints");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let look = || runtime.block_on(hints.look(&place("ann"))).unwrap();
        assert_eq!(look().life, None);
        let looked_at = Instant::now();
        while look().life.is_none() {
            assert!(looked_at.elapsed() < PATIENCE, "it does not wake");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(of(&hints.begun), 1, "the other partition rests");
        shutdown.request();
        kept.join().unwrap().unwrap();
    });
}

/// EVT-2: a hint that counts and denies what the journal gives to its user is named; one that is true, one that a mark
/// or another life has ended, and one that is newer than the journal are not.
#[test]
fn verify_names_hints_that_mislead() {
    let mut kept = Kept::new();
    let start =
        tidemill_model::Timestamp::from(jiff::Timestamp::now()) + jiff::SignedDuration::from_secs(3_600);
    let once = |executor: Value| {
        let spec = json!({"executor": executor, "when": {"once": {"start": start}}});
        (SHARD, json!({"task": {"created": {"task": 4097, "spec": spec}}}))
    };
    kept.owner.now_ms = jiff::Timestamp::now().as_millisecond();
    let life = kept.until("ann", "a life holds", |look| look.life.is_some()).life.unwrap();
    let group = json!({"replication": {"group_replicated": {"group": 1, "name": "demo", "worker_key": "aa", "settings": {}}}});
    let users = json!({"replication": {"users_replicated": {"users": ["ann", "bob", "cid", "dan"]}}});
    let first = kept.owner.decide(vec![(SHARD, group), (SHARD, users), once(json!({"group": "demo"}))]);
    let offset = kept.owner.decide(Vec::new());
    let keep = |user: &str, life: &Life, offset: u64, until: tidemill_model::Timestamp| {
        let hint = Hint { life: life.clone(), offset, until_ms: until.as_millisecond(), begins: true };
        kept.runtime.block_on(kept.hints.keep(&place(user), &hint, PATIENCE)).unwrap();
    };
    let later = start + jiff::SignedDuration::from_secs(1);
    keep("ann", &life, offset, start);
    keep("bob", &life, first, later);
    keep("cid", &Life::draw(), offset, later);
    keep("dan", &life, offset + 1, later);
    keep("elsewhere", &life, offset, later);
    kept.until("bob", "it is marked", |look| look.group_mark.is_some() || look.user_mark.is_some());
    // How many are judged depends on whether a life holds at this very moment.
    let report = || {
        let begun_at = Instant::now();
        loop {
            kept.look("ann");
            let mut report = Report::default();
            let told = verify_hints(&*kept.log, &*kept.hints, &Shutdown::new(), &mut report, &mut |_, _| {});
            told.unwrap();
            if report.hints > 0 {
                return report;
            }
            assert!(begun_at.elapsed() < PATIENCE, "no hint counts");
        }
    };
    let clean = report();
    assert!(clean.is_clean() && (clean.hints, clean.other_hints) == (2, 3), "{clean:#?}");
    keep("ann", &life, offset, later);
    let wrong = report();
    let told: Vec<_> = wrong.differences.iter().map(|it| (it.table, it.key.as_str())).collect();
    assert_eq!((told, wrong.difference_count), (vec![("hints", "1, \"ann\"")], 1));
    assert_eq!(wrong.differences[0].expected, Some(format!("something from {start} on")));
    assert_eq!(wrong.differences[0].found, Some(format!("nothing before {later}")));
}
