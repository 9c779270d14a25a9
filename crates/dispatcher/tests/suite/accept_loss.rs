//! Rule 5: when a loss is accepted, and when it is not.

use std::sync::Arc;
use std::time::Duration;

use tidemill_dispatcher::{AcceptLossError, Loss, accept_loss};
use tidemill_log::{
    Chain, Error, From, Head, Kind, Log, LogId, Membership, MemoryLog, Producer, Reader, Readers, Record,
    Topic, Usage, Waker, append_wait,
};
use tidemill_model::{Envelope, Event, Level, PartitionEvent, Resume, Timestamp};

const PATIENCE: Duration = Duration::from_secs(30);

struct Cluster {
    log: Arc<dyn Log>,
}

impl Cluster {
    /// A log with an owner that has done nothing.
    fn new() -> Self {
        let cluster = Self { log: Arc::new(MemoryLog::new(1)) };
        cluster.claim("a");
        cluster
    }

    /// A log whose owner was done with command 5 when the topic was lost.
    fn lost() -> Self {
        let cluster = Self::new();
        cluster.done_with(5, "gone");
        cluster
    }

    fn append(&self, topic: Topic, value: Vec<u8>) -> u64 {
        append_wait(&*self.log.producer().unwrap(), topic, 0, b"", value, PATIENCE).unwrap()
    }

    fn claim(&self, owner: &str) {
        self.append(Topic::Journal, self.head().claim(owner, "host:1").unwrap());
    }

    fn write(&self, kind: Kind, body: Vec<u8>) {
        self.append(Topic::Journal, self.head().tip().next(kind, body).unwrap().0);
    }

    fn done_with(&self, offset: u64, hash: &str) {
        let resume = Some(Resume { offset, hash: hash.to_owned() });
        let envelope = Envelope {
            now: Timestamp::UNIX_EPOCH,
            level: Level::FIRST,
            resume,
            causes: Vec::new(),
            events: Vec::new(),
        };
        self.write(Kind::Envelope, serde_json::to_vec(&envelope).unwrap());
    }

    fn journal(&self) -> (Head, Vec<Envelope>) {
        let end = self.log.range(Topic::Journal, 0).unwrap().end;
        let mut reader = self.log.reader(Topic::Journal, 0, From::Start).unwrap();
        let (mut chain, mut envelopes, mut next) = (Chain::new(), Vec::new(), 0);
        while next < end {
            for record in reader.poll(100, PATIENCE).unwrap() {
                next = record.offset + 1;
                let header = chain.accept(record.offset, &record.value).accepted();
                if header.is_some_and(|header| header.kind == Kind::Envelope) {
                    envelopes.push(serde_json::from_slice::<Envelope>(&record.value.body()).unwrap());
                }
            }
        }
        (chain.head().unwrap().clone(), envelopes)
    }

    fn head(&self) -> Head {
        self.journal().0
    }

    fn accept(&self, is_alive: &dyn Fn(&str) -> bool) -> Result<u64, AcceptLossError> {
        let [by, reason, incarnation] = ["me", "restored", "accept-loss-1"].map(str::to_owned);
        let loss = Loss { partition: 0, by, reason, incarnation };
        accept_loss(&self.log, &loss, is_alive).map(|accepted| accepted.resumed_at)
    }
}

#[test]
fn accepted_loss_is_on_record_and_leaves_no_owner() {
    let cluster = Cluster::lost();
    for submit_request in ["undecided", "too"] {
        cluster.append(Topic::Commands, submit_request.into());
    }
    assert_eq!(cluster.accept(&|_| false).unwrap(), 2);
    let (head, envelopes) = cluster.journal();
    assert!(head.resigned && head.epoch == 2, "{head:?}");
    let last = envelopes.last().unwrap();
    assert_eq!(last.resume.as_ref().unwrap().offset, 2);
    assert!(last.now > Timestamp::UNIX_EPOCH);
    let Event::Partition(PartitionEvent::CommandLossAccepted { by, reason, done, kept_from, resumed_at }) =
        &last.events[0].event
    else {
        panic!("{last:?}")
    };
    assert_eq!((&**by, &**reason, *done, *kept_from, *resumed_at), ("me", "restored", 5, 0, 2));
    let again = cluster.accept(&|_| false);
    assert!(matches!(again, Err(AcceptLossError::NothingLost { offset: 2, .. })), "{again:?}");
}

#[test]
fn nothing_is_accepted_where_no_command_was_ever_done_with() {
    let refused = Cluster::new().accept(&|_| false);
    assert!(matches!(refused, Err(AcceptLossError::NothingDone { .. })), "{refused:?}");
}

#[test]
fn living_owner_is_asked_for_unless_it_has_left() {
    let cluster = Cluster::lost();
    let refused = cluster.accept(&|address| address == "host:1");
    assert!(matches!(refused, Err(AcceptLossError::OwnerLives { .. })), "{refused:?}");
    assert_eq!(cluster.log.range(Topic::Commands, 0).unwrap(), 0..0, "nothing was written");
    cluster.write(Kind::Resigned, Vec::new());
    assert_eq!(cluster.accept(&|_| true).unwrap(), 0);
}

/// Whoever writes in between makes claim, envelope and farewell void together.
#[test]
fn nothing_is_accepted_where_another_owner_is_faster() {
    type Meanwhile = fn(&Cluster);
    let meanwhile: [Meanwhile; 2] = [|cluster| cluster.claim("b"), |cluster| cluster.done_with(6, "later")];
    for meanwhile in meanwhile {
        let cluster = Cluster::lost();
        let refused = cluster.accept(&|_| {
            meanwhile(&cluster);
            false
        });
        assert!(matches!(refused, Err(AcceptLossError::Outrun { .. })), "{refused:?}");
        let (head, envelopes) = cluster.journal();
        assert!(!head.resigned);
        assert!(envelopes.iter().all(|envelope| envelope.events.is_empty()), "{envelopes:?}");
    }
}

/// A broker that gives no commands in time, whatever its ends say.
struct Silent(Arc<dyn Log>);

struct SilentReader(Box<dyn Reader>);

impl Reader for SilentReader {
    fn poll(&mut self, _: usize, _: Duration) -> Result<Vec<Record>, Error> {
        Ok(Vec::new())
    }

    fn waker(&self) -> Waker {
        self.0.waker()
    }
}

impl Readers for Silent {
    fn log_id(&self) -> &LogId {
        self.0.log_id()
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.0.partitions(topic)
    }

    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error> {
        let reader = self.0.reader(topic, partition, from)?;
        Ok(if topic == Topic::Commands { Box::new(SilentReader(reader)) } else { reader })
    }

    fn range(&self, topic: Topic, partition: u32) -> Result<std::ops::Range<u64>, Error> {
        self.0.range(topic, partition)
    }
}

impl Log for Silent {
    fn producer(&self) -> Result<Arc<dyn Producer>, Error> {
        self.0.producer()
    }

    fn membership(&self, member: &str) -> Result<Box<dyn Membership>, Error> {
        self.0.membership(member)
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.0.usage()
    }
}

/// What a log does not give is not lost: what is undecided there must not be given up.
#[test]
fn nothing_is_accepted_where_the_log_does_not_answer() {
    let mut cluster = Cluster::new();
    cluster.append(Topic::Commands, b"done".to_vec());
    cluster.append(Topic::Commands, b"undecided".to_vec());
    cluster.done_with(0, &tidemill_log::Hash::of(b"done").to_string());
    cluster.log = Arc::new(Silent(Arc::clone(&cluster.log)));
    let refused = cluster.accept(&|_| false);
    assert!(matches!(refused, Err(AcceptLossError::Owner(_))), "{refused:?}");
    assert_eq!(cluster.log.range(Topic::Commands, 0).unwrap(), 0..2, "nothing was written");
}
