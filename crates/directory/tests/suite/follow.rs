//! The thread that follows, on a log that goes away and comes back.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_directory::{Known, follow};
use tidemill_journal::{Error, Shutdown};
use tidemill_log::{From, LogId, MemoryLog, Reader, Readers, Topic};
use tidemill_model::ShardId;

use crate::fold::{group, journal, key, revoked};
use crate::support::Owner;

const LONG: Duration = Duration::from_secs(30);
/// Longer than it takes, where it comes.
const SHORT: Duration = Duration::from_millis(700);

/// A log that does not say where it ends while it is away.
struct Leaving {
    log: MemoryLog,
    is_away: AtomicBool,
}

impl Readers for Leaving {
    fn log_id(&self) -> &LogId {
        self.log.log_id()
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.log.partitions(topic)
    }

    fn reader(
        &self,
        topic: Topic,
        partition: u32,
        from: From,
    ) -> Result<Box<dyn Reader>, tidemill_log::Error> {
        self.range(topic, partition)?;
        self.log.reader(topic, partition, from)
    }

    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, tidemill_log::Error> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(tidemill_log::Error::Range { topic, partition, source: "the broker is away".into() });
        }
        self.log.range(topic, partition)
    }
}

struct Following {
    known: Known,
    shutdown: Shutdown,
    thread: JoinHandle<Result<(), Error>>,
}

impl Following {
    fn start(log: Arc<dyn Readers>) -> Self {
        let (known, shutdown) = (Known::new(), Shutdown::new());
        let thread = follow(log, known.clone(), &shutdown).unwrap();
        Self { known, shutdown, thread }
    }

    fn stop(self) {
        self.shutdown.request();
        self.thread.join().unwrap().unwrap();
    }

    fn hash_of(&self, app: &str) -> Option<String> {
        self.known.key(app).map(|key| key.hash.to_string())
    }
}

/// API-5: a key is known with its record, and gone with the one that revokes it; another process that begins later knows the same.
#[test]
fn keys_come_and_go_with_their_records() {
    let (memory, log) = journal();
    let mut owner = Owner::claim(&*log, 0);
    let following = Following::start(Arc::new(memory.clone()));
    assert!(following.known.wait_as_of(Instant::now(), LONG) && following.known.is_whole());
    assert_eq!((following.hash_of("etl").as_deref(), following.hash_of("gone")), (Some("02"), None));
    assert_eq!(following.known.group_of_shard(ShardId(9)), None, "a deposed owner wrote it");
    let defined = owner.decide(vec![key("new", "aa"), group(3, "third", 3)]);
    assert!(following.known.wait(defined, LONG));
    assert_eq!(following.hash_of("new").as_deref(), Some("aa"));
    assert_eq!(following.known.group_named("third").map(|group| group.shard), Some(ShardId(3)));
    let ended = owner.decide(vec![revoked("new")]);
    assert!(following.known.wait(ended, LONG) && following.hash_of("new").is_none());
    following.stop();
    let later = Following::start(Arc::new(memory));
    assert!(later.known.wait_as_of(Instant::now(), LONG));
    assert_eq!((later.hash_of("etl").as_deref(), later.hash_of("new")), (Some("02"), None));
    later.stop();
}

/// API-5, OPS-3: while the log is away nothing is said to be as of now; once it is back all that was recorded meanwhile is known,
/// and nothing twice.
#[test]
fn an_outage_of_the_log_makes_it_old_and_then_it_goes_on() {
    let (memory, log) = journal();
    let mut owner = Owner::claim(&*log, 0);
    let leaving = Arc::new(Leaving { log: memory, is_away: AtomicBool::new(true) });
    let following = Following::start(leaving.clone());
    assert!(!following.known.wait_as_of(Instant::now(), SHORT) && !following.known.is_whole());
    leaving.is_away.store(false, Ordering::SeqCst);
    assert!(following.known.wait_as_of(Instant::now(), LONG));
    let revision = following.known.directory().revision();
    leaving.is_away.store(true, Ordering::SeqCst);
    let gone = Instant::now();
    let last = owner.decide(vec![revoked("etl")]);
    assert!(!following.known.wait_as_of(gone, SHORT), "nobody says where the journal ends");
    leaving.is_away.store(false, Ordering::SeqCst);
    assert!(following.known.wait_as_of(gone, LONG) && following.known.reaches(last));
    assert!(following.hash_of("etl").is_none());
    assert_eq!(following.known.directory().revision(), revision);
    following.stop();
}
