use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::{Log as _, MemoryLog, append_wait};

/// Counts the readers of the log beneath, all and those that are open at once. On Kafka each is a consumer.
struct Counting {
    log: MemoryLog,
    open: Arc<AtomicUsize>,
    most: AtomicUsize,
    made: AtomicUsize,
    /// Every reader that is open at this moment fails from now on.
    failing: Arc<AtomicUsize>,
}

struct Counted {
    reader: Box<dyn Reader>,
    open: Arc<AtomicUsize>,
    number: usize,
    failing: Arc<AtomicUsize>,
}

impl Reader for Counted {
    fn poll(&mut self, max_records: usize, timeout: Duration) -> Result<Vec<Record>, Error> {
        if self.number <= self.failing.load(Ordering::Relaxed) {
            let (topic, partition) = (Topic::Journal, 0);
            return Err(Error::Read { topic, partition, source: "the client failed".into() });
        }
        self.reader.poll(max_records, timeout)
    }

    fn waker(&self) -> Waker {
        self.reader.waker()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Readers for Counting {
    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error> {
        let reader = self.log.reader(topic, partition, from)?;
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(open, Ordering::Relaxed);
        let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        let (open, failing) = (Arc::clone(&self.open), Arc::clone(&self.failing));
        Ok(Box::new(Counted { reader, open, number, failing }))
    }

    fn log_id(&self) -> &LogId {
        self.log.log_id()
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.log.partitions(topic)
    }

    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        self.log.range(topic, partition)
    }
}

fn shared() -> (SharedJournals, Arc<Counting>) {
    let counting = Arc::new(Counting {
        log: MemoryLog::new(1),
        open: Arc::default(),
        most: AtomicUsize::new(0),
        made: AtomicUsize::new(0),
        failing: Arc::default(),
    });
    (SharedJournals::new(Arc::clone(&counting) as Arc<dyn Readers>), counting)
}

fn append(log: &MemoryLog, records: usize, bytes: usize) {
    let producer = log.producer().unwrap();
    for _ in 0..records {
        let value = vec![b'x'; bytes];
        append_wait(&*producer, Topic::Journal, 0, b"", value, Duration::from_secs(5)).unwrap();
    }
}

/// Reads until this offset, a few records at once, as a client that takes its time.
fn read(reader: &mut dyn Reader, upto: u64) -> Vec<u64> {
    let mut offsets = Vec::new();
    while offsets.last().is_none_or(|last| last + 1 < upto) {
        let records = reader.poll(7, Duration::ZERO).unwrap();
        offsets.extend(records.iter().map(|record| record.offset));
    }
    offsets
}

/// OPS-7: each reader gets every record once and in order, from wherever it begins, and the log beneath has few readers
/// however many there are.
#[test]
fn many_readers_cost_the_log_few() {
    let (shared, counting) = shared();
    append(&counting.log, 50, 10);
    let end = counting.range(Topic::Journal, 0).unwrap().end;
    let mut readers: Vec<_> = (0..20_u64)
        .map(|index| {
            let from = if index % 2 == 0 { From::Start } else { From::Offset(end - index) };
            shared.reader(Topic::Journal, 0, from).unwrap()
        })
        .collect();
    for (index, reader) in readers.iter_mut().enumerate() {
        let first = if index % 2 == 0 { 0 } else { end - index as u64 };
        assert_eq!(read(&mut **reader, end), (first..end).collect::<Vec<_>>());
        assert_eq!(reader.poll(7, Duration::ZERO).unwrap(), []);
    }
    append(&counting.log, 30, 10);
    for reader in &mut readers {
        assert_eq!(read(&mut **reader, end + 30), (end..end + 30).collect::<Vec<_>>());
    }
    assert!(counting.most.load(Ordering::Relaxed) <= 1 + MOST_BACK);
    drop(readers);
    assert_eq!(counting.open.load(Ordering::Relaxed), 0, "nobody reads, so nothing is kept");
}

/// OPS-7: those who follow the end of one partition have one reader of the log between them, and so one Kafka consumer.
#[test]
fn those_who_follow_the_end_share_one_reader() {
    let (shared, counting) = shared();
    append(&counting.log, 5, 10);
    let end = counting.range(Topic::Journal, 0).unwrap().end;
    let mut readers: Vec<_> = (0..20).map(|_| shared.reader(Topic::Journal, 0, From::End).unwrap()).collect();
    for reader in &mut readers {
        assert_eq!(reader.poll(7, Duration::ZERO).unwrap(), []);
    }
    append(&counting.log, 30, 10);
    for reader in &mut readers {
        assert_eq!(read(&mut **reader, end + 30), (end..end + 30).collect::<Vec<_>>());
    }
    assert_eq!(counting.made.load(Ordering::Relaxed), 1);
}

/// A reader that fails is told to whoever polls, and rebuilt at the next poll: at the end as further back, and nothing is
/// left out or given twice.
#[test]
fn shared_reader_that_fails_is_made_anew() {
    let (shared, counting) = shared();
    append(&counting.log, 20, 10);
    let end = counting.range(Topic::Journal, 0).unwrap().end;
    let mut follows = shared.reader(Topic::Journal, 0, From::End).unwrap();
    let mut behind = shared.reader(Topic::Journal, 0, From::Start).unwrap();
    assert_eq!(follows.poll(7, Duration::ZERO).unwrap(), []);
    let first = behind.poll(7, Duration::ZERO).unwrap().len() as u64;
    assert_eq!(counting.open.load(Ordering::Relaxed), 2);
    counting.failing.store(counting.made.load(Ordering::Relaxed), Ordering::Relaxed);
    append(&counting.log, 10, 10);
    for (reader, upto, next) in [(&mut follows, end + 10, end), (&mut behind, end + 10, first)] {
        assert!(matches!(reader.poll(7, Duration::ZERO), Err(Error::Read { .. })));
        assert_eq!(read(&mut **reader, upto), (next..upto).collect::<Vec<_>>());
    }
    assert!(counting.open.load(Ordering::Relaxed) <= 1 + MOST_BACK, "those that failed are closed");
}

/// OPS-7: however many readers of one user are behind, another user's gets half of what there is.
#[test]
fn readers_of_one_user_leave_others_their_share() {
    let (shared, counting) = shared();
    append(&counting.log, 20_000, 1);
    let end = shared.range(Topic::Journal, 0).unwrap().end;
    let open = |user: &str| shared.of(&Arc::from(user)).reader(Topic::Journal, 0, From::Start).unwrap();
    let mut greedy: Vec<_> = (0..8).map(|_| open("greedy")).collect();
    let (mut other, mut own, mut others) = (open("other"), 0, 0);
    while own < end {
        for reader in &mut greedy {
            others += reader.poll(1, Duration::ZERO).unwrap().len() as u64;
        }
        own += other.poll(1, Duration::ZERO).unwrap().len() as u64;
    }
    assert!(others < 3 * own, "{others} records for one user, and {own} for the other");
}

/// Who falls behind what is kept of the end reads on further back, and comes to the end again.
#[test]
fn slow_reader_falls_back_and_catches_up() {
    let (shared, counting) = shared();
    let mut quick = shared.reader(Topic::Journal, 0, From::Start).unwrap();
    let mut slow = shared.reader(Topic::Journal, 0, From::Start).unwrap();
    let first = slow.poll(1, Duration::ZERO).unwrap().len() as u64;
    append(&counting.log, 3 * 16, KEPT_BYTES / 16);
    let end = shared.range(Topic::Journal, 0).unwrap().end;
    assert_eq!(read(&mut *quick, end).last(), Some(&(end - 1)));
    assert_eq!(read(&mut *slow, end), (first..end).collect::<Vec<_>>());
    append(&counting.log, 1, 1);
    assert_eq!(read(&mut *slow, end + 1), [end]);
}

#[test]
fn offset_that_is_not_there_is_refused() {
    let (shared, _) = shared();
    let end = shared.range(Topic::Journal, 0).unwrap().end;
    for (offset, is_there) in [(end, true), (end + 1, false)] {
        assert_eq!(shared.reader(Topic::Journal, 0, From::Offset(offset)).is_ok(), is_there);
    }
}
