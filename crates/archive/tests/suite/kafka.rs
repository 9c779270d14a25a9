//! A log on Kafka with an archive, against the broker that `TIDEMILL_TEST_KAFKA` names.

use std::sync::Arc;

use tidemill_archive::{Archive, ArchivedLog, Bounds, Error, Store, When, origin};
use tidemill_log::{Error as LogError, From, KafkaConfig, KafkaLog, Log, LogId, Readers, Topic};

use crate::kit::{ALL, Step, World, read_all, take, write};

/// Topics of one test. They are left behind, small, on a broker that tests start.
fn topics() -> KafkaConfig {
    let brokers = std::env::var("TIDEMILL_TEST_KAFKA").expect(
        "TIDEMILL_TEST_KAFKA names no broker (host:port): start one with `deploy/dev/services start kafka`",
    );
    let config = KafkaConfig {
        prefix: format!("test-{}", LogId::random()),
        partitions: 2,
        single_broker: true,
        ..KafkaConfig::new(brokers)
    };
    KafkaLog::create_topics(&config).unwrap();
    config
}

fn open(config: &KafkaConfig, store: &Arc<dyn Store>) -> Result<KafkaLog, LogError> {
    KafkaLog::open_archived(config, &|first| {
        origin(store, first).map_err(|error| LogError::Archive { partition: 0, source: error.into() })
    })
}

/// EVT-6: void records and claims too, from every offset, whatever left the topic. Nothing leaves it that nobody asked for. The
/// log is opened again though its genesis is in the archive alone, and without the archive it is refused by name.
#[test]
fn journal_on_kafka_is_read_as_before_and_opened_without_its_genesis() {
    let config = topics();
    let log: Arc<dyn Log> = Arc::new(KafkaLog::open(&config).unwrap());
    let steps = [
        Step::Claim,
        Step::Envelope(10),
        Step::Garbage(7),
        Step::Envelope(30_000),
        Step::Stale,
        Step::Claim,
        Step::Envelope(70),
        Step::Resign,
        Step::Garbage(1),
    ];
    write(&*log, 0, &steps);
    write(&*log, 1, &steps[..4]);
    let world = World::over(Arc::clone(&log));
    let before = [0, 1].map(|partition| read_all(&*log, partition));
    let bounds = Bounds { segment_bytes: 200, ..ALL };
    world.cycle(Bounds { releases: false, ..bounds }, When::Now).unwrap();
    assert_eq!(log.range(Topic::Journal, 0).unwrap().start, 0, "only copied");
    let mut behind = world.through().reader(Topic::Journal, 0, From::Start).unwrap();
    assert_eq!(take(behind.as_mut(), 1), before[0][..1]);
    world.cycle(bounds, When::Now).unwrap();
    for partition in [0, 1] {
        let all = &before[usize::try_from(partition).unwrap()];
        assert_eq!(log.range(Topic::Journal, partition).unwrap().start, all.len() as u64 - 1);
        for from in 0..=all.len() {
            let through = world.through();
            let mut reader = through.reader(Topic::Journal, partition, From::Offset(from as u64)).unwrap();
            assert_eq!(take(reader.as_mut(), all.len() - from), all[from..]);
        }
    }
    assert_eq!(take(behind.as_mut(), before[0].len() - 1), before[0][1..]);

    let refused = KafkaLog::open(&config).err();
    assert!(matches!(refused, Some(LogError::JournalBeginsLater { partition: 0, .. })), "{refused:?}");
    let store: Arc<dyn Store> = world.store.clone();
    let again = open(&config, &store).unwrap();
    assert_eq!(again.log_id(), log.log_id());
    let archive = Arc::new(Archive::new(Arc::clone(&store), again.log_id().clone()));
    let through = ArchivedLog::new(Arc::new(again), Some(archive)).unwrap();
    assert_eq!(read_all(&through, 0), before[0]);
    write(&through, 0, &[Step::Claim, Step::Envelope(3)]);
    assert_eq!(read_all(&world.through(), 0).len(), before[0].len() + 2);

    // Which log it is would be a guess where there are two.
    let other = crate::kit::journal(&[]);
    write(&*other.log, 0, &steps);
    let partition_of_other = World::over(Arc::clone(&other.log));
    partition_of_other.cycle(Bounds { releases: false, ..bounds }, When::Now).unwrap();
    let mut objects = world.store.objects.lock().unwrap();
    objects.extend(partition_of_other.store.objects.lock().unwrap().clone());
    drop(objects);
    let error = origin(&store, 3).unwrap_err();
    assert!(matches!(&error, Error::WhichLog { .. }), "{error}");
    assert!(error.to_string().contains(other.log.log_id().as_str()), "{error}");
    let none: Arc<dyn Store> = Arc::new(crate::kit::MemoryStore::default());
    assert!(matches!(origin(&none, 3), Err(Error::WhichLog { .. })));
}
