//! What a dispatcher does on every log.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_dispatcher::{Dispatcher, Error};
use tidemill_log::{AppendError, Chain, Frame, From, Hash, Kind, Log, Tip, Topic, Verdict, append_wait};
use tidemill_model::{
    Answer, Command, GroupSettings, InstanceId, Level, LevelCommand, Outcome, Process, Rejection, RequestId,
    ShardCommand, ShardId,
};

use super::PATIENCE;
use super::client::{Client, submission};
use super::cluster::{Cluster, dispatcher, patient_dispatcher};
use super::journal::History;
use super::trick::TrickLog;
use super::worker::{Memory, Worker};

/// The tests of one back end.
macro_rules! suite {
    ($make:expr) => {
        $crate::kit::suite::suite! { $make;
            batches_live_through_the_log_and_stop_hands_over
            rights_are_given_where_the_log_keeps_what_it_acknowledged
            restart_in_the_middle_does_nothing_twice
            zombie_owner_changes_nothing
            strangers_records_are_void_and_the_owner_goes_on
            poison_is_set_aside_with_its_raw_record
            owner_whose_clock_is_off_leaves_the_group
        }
    };
    ($make:expr; $($name:ident)*) => {
        $(#[test] fn $name() { $crate::kit::suite::$name($make); })*
    };
}
pub(crate) use suite;

fn journal_of(log: &Arc<dyn Log>, shard: ShardId) -> u32 {
    shard.partition(log.partitions(Topic::Journal))
}

fn until_finished(log: &Arc<dyn Log>, shard: ShardId, count: usize) -> History {
    let what = format!("{count} batches are finished");
    History::until(log, journal_of(log, shard), &what, |history| history.finished() >= count)
}

fn status_of(dispatcher: &Dispatcher, partition: u32) -> tidemill_dispatcher::PartitionStatus {
    let all = dispatcher.live().status();
    all.into_iter().find(|status| status.partition == partition).expect("its partition answers")
}

/// DSP-5: assigned, granted, started, finished, all over the log. A stop ends with a handover on record.
pub fn batches_live_through_the_log_and_stop_hands_over(cluster: Cluster) {
    let log = cluster.log();
    let owner = dispatcher(Arc::clone(&log), "a");
    let mut client = Client::new(&log);
    let shard = client.define_group("demo", GroupSettings::default());
    let memory = Arc::new(Memory::default());
    let worker = Worker::start(&log, shard, "w1", 16, &memory);
    let requests: Vec<RequestId> = (0..100).map(|n| client.submit(shard, &format!("j{n}"))).collect();
    for request in &requests {
        let reply = client.reply(request);
        assert!(matches!(reply.outcome, Outcome::Answered(Answer::Submitted { .. })), "{reply:?}");
    }
    until_finished(&log, shard, 100);
    drop(worker);
    owner.stop().unwrap();
    let history = History::now(&log, journal_of(&log, shard));
    history.assert_nothing_twice();
    for kind in ["batch.generated", "batch.assigned", "start.granted", "attempt.started", "attempt.finished"]
    {
        assert_eq!(history.count(kind), 100, "{kind}");
    }
    assert_eq!(history.chain.void_count(), 0);
    assert_eq!(history.kinds.last(), Some(&Kind::Resigned));
    let runs = memory.runs.lock().unwrap();
    assert_eq!(runs.len(), 100, "each was granted under one token");
}

/// DSP-5, rule 8: from level 2 on assignments carry the right to start, unless the log may lose what it acknowledged; every
/// start is on record all the same.
pub fn rights_are_given_where_the_log_keeps_what_it_acknowledged(cluster: Cluster) {
    let log = cluster.log();
    let owner = dispatcher(Arc::clone(&log), "a");
    let mut client = Client::new(&log);
    let shard = client.define_group("demo", GroupSettings::default());
    let process = Process {
        id: InstanceId::new("p"),
        host: "h".to_owned(),
        roles: vec!["dispatcher".to_owned()],
        version: "1".to_owned(),
        reads: Level::new(2),
        expire_after_ms: 600_000,
    };
    let register = LevelCommand::RegisterProcess { process: Box::new(process), number: 1 };
    let reply = client.ask(ShardId::CATALOGUE, Command::Level(register));
    assert!(matches!(reply.outcome, Outcome::Answered(Answer::Level { .. })), "{reply:?}");
    let raised = |history: &History| history.count("level.replicated") > 0;
    History::until(&log, journal_of(&log, shard), "the group has the level", raised);
    let memory = Arc::new(Memory::default());
    let worker = Worker::start(&log, shard, "w1", 4, &memory);
    let of_worker = |history: &History| history.count("worker.registered") > 0;
    History::until(&log, journal_of(&log, shard), "the worker is known", of_worker);
    // Its heartbeats leave no record: the first batches may find none.
    let (began, mut batches) = (Instant::now(), 0);
    let is_given = || History::now(&log, journal_of(&log, shard)).count("batch.assigned_with_right") > 0;
    while batches < 30 || (log.keeps_acknowledged() && !is_given() && began.elapsed() < PATIENCE) {
        client.submit(shard, &format!("j{batches}"));
        batches += 1;
        until_finished(&log, shard, batches);
        thread::sleep(Duration::from_millis(10));
    }
    drop(worker);
    owner.stop().unwrap();
    let history = History::now(&log, journal_of(&log, shard));
    history.assert_nothing_twice();
    let with_right = history.count("batch.assigned_with_right");
    assert_eq!(with_right > 0, log.keeps_acknowledged(), "{with_right} of {batches}");
    assert_eq!(with_right + history.count("batch.assigned"), batches);
    for kind in ["start.granted", "attempt.started", "attempt.finished"] {
        assert_eq!(history.count(kind), batches, "{kind}");
    }
}

/// DSP-5, A2: an owner that goes without a word leaves all it needs in the log.
pub fn restart_in_the_middle_does_nothing_twice(mut cluster: Cluster) {
    let log = cluster.log();
    let trick = TrickLog::all(&log);
    let owner = dispatcher(Arc::new(trick.clone()), "a");
    let mut client = Client::new(&log);
    let shard = client.define_group("demo", GroupSettings::default());
    let memory = Arc::new(Memory::default());
    *memory.deaf_after.lock().unwrap() = Some(150);
    let worker = Worker::start(&log, shard, "w1", 8, &memory);
    let requests: Vec<RequestId> = (0..300).map(|n| client.submit(shard, &format!("j{n}"))).collect();
    let first = client.reply(&requests[0]);
    until_finished(&log, shard, 50);
    trick.cut();
    owner.stop().unwrap();
    drop((trick, worker, client));
    let before = History::now(&log, journal_of(&log, shard));
    assert_eq!(before.head().epoch, 1);
    assert!(!before.head().resigned && before.finished() < 300, "it went in the middle, without a word");

    drop(log);
    cluster.reopen();
    let log = cluster.log();
    *memory.deaf_after.lock().unwrap() = None;
    let owner = dispatcher(Arc::clone(&log), "b");
    let _worker = Worker::start(&log, shard, "w1", 8, &memory);
    until_finished(&log, shard, 300);
    let mut client = Client::new(&log);
    client.send(shard, &requests[0], submission("j0"));
    let repeated = client.reply(&requests[0]);
    assert_eq!(repeated.outcome, first.outcome, "a repeat gets the stored answer");
    owner.stop().unwrap();
    let history = History::now(&log, journal_of(&log, shard));
    history.assert_nothing_twice();
    assert_eq!((history.finished(), history.count("batch.generated")), (300, 300));
    assert_eq!(history.records[..before.records.len()], before.records[..], "history is never rewritten");
    assert_eq!(memory.runs.lock().unwrap().len(), 300, "no batch ran under a second token");
}

/// A3: an owner stops between decision and append, another takes over, and then the first one's record
/// lands, with a second one that it had pipelined behind it.
pub fn zombie_owner_changes_nothing(cluster: Cluster) {
    let log = cluster.log();
    let (a, b) = (TrickLog::all(&log), TrickLog::new(&log, Vec::new()));
    let zombie = patient_dispatcher(Arc::new(a.clone()), "zombie");
    let mut client = Client::new(&log);
    let shard = client.define_group("demo", GroupSettings::default());
    let partition = journal_of(&log, shard);
    let memory = Arc::new(Memory::default());
    let _worker = Worker::start(&log, shard, "w1", 8, &memory);
    let early = client.submit(shard, "early");
    client.reply(&early);
    let before = until_finished(&log, shard, 1);

    a.hold();
    let contested = client.submit(shard, "contested");
    let held = a.wait_held(partition);
    let heir = dispatcher(Arc::new(b.clone()), "heir");
    b.suggest((0..log.partitions(Topic::Journal)).collect());
    let answered = client.reply(&contested);
    assert!(matches!(answered.outcome, Outcome::Answered(Answer::Submitted { .. })), "{answered:?}");
    let taken_over = until_finished(&log, shard, 2);
    assert_eq!(taken_over.head().owner.as_ref().unwrap().incarnation, "heir");

    let outcomes = a.let_go();
    let frame = Frame::decode(&held).unwrap();
    let tip = Tip { epoch: frame.epoch, seq: frame.seq, hash: Hash::of(&held) };
    let (second, _) = tip.next(Kind::Envelope, frame.body).unwrap();
    let stranger = log.producer().unwrap();
    let second = append_wait(stranger.as_ref(), Topic::Journal, partition, b"", second, PATIENCE);
    for outcome in outcomes.iter().chain([&second]) {
        let refused = matches!(outcome, Err(AppendError::Refused(_)));
        assert!(if cluster.stores_void { outcome.is_ok() } else { refused }, "{outcome:?}");
    }

    let late = client.submit(shard, "late");
    let late = client.reply(&late);
    let fresh = until_finished(&log, shard, 3);
    fresh.assert_nothing_twice();
    assert!(fresh.envelopes.iter().any(|(offset, _)| *offset == late.offset));
    let mut resumed = Chain::resume(before.head().clone());
    let behind = fresh.records.iter().filter(|record| record.offset > before.head().offset);
    let counted =
        behind.filter(|record| matches!(resumed.accept(record.offset, &record.value), Verdict::Accepted(_)));
    assert_eq!(counted.count() + before.kinds.len(), fresh.kinds.len());
    assert_eq!(resumed.head(), fresh.chain.head(), "a resumed reader judges as a fresh one");
    let void_records = status_of(&heir, partition).void_records;
    if cluster.stores_void {
        assert!(void_records >= 2 && fresh.chain.void_count() >= 2, "{void_records}");
    } else {
        assert_eq!((void_records, fresh.chain.void_count()), (0, 0));
    }
    heir.stop().unwrap();
    zombie.stop().unwrap();
}

/// Void records stop nobody.
pub fn strangers_records_are_void_and_the_owner_goes_on(cluster: Cluster) {
    let log = cluster.log();
    let owner = dispatcher(Arc::clone(&log), "a");
    let mut client = Client::new(&log);
    let shard = client.define_group("demo", GroupSettings::default());
    let partition = journal_of(&log, shard);
    let head = History::now(&log, partition).head().clone();
    let foreign = Tip { epoch: head.epoch + 5, ..head.tip() }.next(Kind::Envelope, b"{}".to_vec()).unwrap().0;
    let unlinked = Tip { hash: Hash::ZERO, ..head.tip() }.next(Kind::Resigned, Vec::new()).unwrap().0;
    let stranger = log.producer().unwrap();
    for record in [b"garbage".to_vec(), Vec::new(), foreign, unlinked] {
        let outcome = append_wait(stranger.as_ref(), Topic::Journal, partition, b"", record, PATIENCE);
        assert_eq!(outcome.is_ok(), cluster.stores_void, "{outcome:?}");
    }
    let reply = client.ask(shard, submission("after"));
    let status = status_of(&owner, partition);
    assert!(status.owning && status.epoch == head.epoch, "{status:?}");
    assert_eq!(status.void_records, if cluster.stores_void { 4 } else { 0 });
    let history = History::now(&log, partition);
    assert!(history.envelopes.iter().any(|(offset, _)| *offset == reply.offset));
    owner.stop().unwrap();
}

/// Rule 12: what cannot be decided or decoded is set aside, alone, with raw record and reason.
pub fn poison_is_set_aside_with_its_raw_record(cluster: Cluster) {
    let log = cluster.log();
    let owner = dispatcher(Arc::clone(&log), "a");
    let mut client = Client::new(&log);
    let shard = client.define_group("demo", GroupSettings::default());
    let partition = journal_of(&log, shard);
    let letters = partition % log.partitions(Topic::DeadLetters);
    let mut reader = log.reader(Topic::DeadLetters, letters, From::Start).unwrap();

    let request = client.fresh_request();
    let planted = client.send(shard, &request, Command::Shard(ShardCommand::PlantedPanic {}));
    let garbled = client.send_raw(shard, b"{\"not\": a command".to_vec());
    let binary = client.send_raw(shard, vec![0xff, 0x00]);
    let reply = client.reply(&request);
    let Outcome::Refused(Rejection::DeadLettered { reason }) = reply.outcome else { panic!("{reply:?}") };
    assert_eq!(reason, "planted");
    let reply = client.ask(shard, submission("after"));
    assert!(matches!(reply.outcome, Outcome::Answered(Answer::Submitted { .. })), "{reply:?}");

    let mut found: Vec<serde_json::Value> = Vec::new();
    let end = std::time::Instant::now() + PATIENCE;
    while found.len() < 3 {
        assert!(std::time::Instant::now() < end, "three letters within {PATIENCE:?}: {found:?}");
        let records = reader.poll(10, Duration::from_millis(200)).unwrap();
        found.extend(records.iter().map(|record| serde_json::from_slice(&record.value).unwrap()));
    }
    let offsets: Vec<u64> = found.iter().map(|letter| letter["offset"].as_u64().unwrap()).collect();
    assert_eq!(offsets, [planted, garbled, binary]);
    assert_eq!(found[0]["reason"], "planted");
    let raw: serde_json::Value = serde_json::from_str(found[0]["record"].as_str().unwrap()).unwrap();
    assert_eq!(raw["request"], request.as_str());
    assert_eq!((&found[1]["record"], &found[2]["record"]), (&"{\"not\": a command".into(), &"ff00".into()));
    assert_eq!(History::now(&log, partition).count("command.dead_lettered"), 3);
    owner.stop().unwrap();
}

/// Rule 10: an owner whose clock is off does not work, says so, and leaves, so that others take over at once.
pub fn owner_whose_clock_is_off_leaves_the_group(cluster: Cluster) {
    let log = cluster.log();
    let view = TrickLog::all(&log);
    view.be_ahead(60_000);
    let off = dispatcher(Arc::new(view.clone()), "off");
    view.wait_left();
    let error = off.stop().unwrap_err();
    assert!(matches!(error, Error::Clock { .. }), "{error}");
    // It waits for ever before it takes a partition from an owner that is only silent.
    let right = patient_dispatcher(Arc::clone(&log), "right");
    let mut client = Client::new(&log);
    let shard = client.define_group("demo", GroupSettings::default());
    let outcome = client.ask(shard, submission("after"));
    assert!(matches!(outcome.outcome, Outcome::Answered(Answer::Submitted { .. })), "{outcome:?}");
    right.stop().unwrap();
}
