//! A log through which one owner can be made to fall silent at the worst moment.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tidemill_log::{
    AppendError, Done, Error, From, Log, LogId, Membership, Producer, Reader, Readers, Record, Topic, Usage,
    Waker, append_wait,
};

use super::PATIENCE;

/// What befalls the appends that go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Through,
    /// Those to a journal wait until they are let go.
    Hold,
    /// None arrive, and their outcome is unknown.
    Cut,
}

struct Held {
    producer: Arc<dyn Producer>,
    partition: u32,
    key: Vec<u8>,
    value: Vec<u8>,
    done: Done,
}

struct State {
    mode: Mode,
    held: Vec<Held>,
    suggested: Vec<u32>,
    /// By how much the log's clock seems ahead, milliseconds.
    ahead_ms: i64,
    /// The process was a member, and is none any more.
    left: bool,
}

/// The log as one process sees it. A clone is the same view.
#[derive(Clone)]
pub struct TrickLog {
    inner: Arc<dyn Log>,
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl TrickLog {
    pub fn new(inner: &Arc<dyn Log>, suggested: Vec<u32>) -> Self {
        let state = State { mode: Mode::Through, held: Vec::new(), suggested, ahead_ms: 0, left: false };
        Self { inner: Arc::clone(inner), shared: Arc::new((Mutex::new(state), Condvar::new())) }
    }

    pub fn all(inner: &Arc<dyn Log>) -> Self {
        Self::new(inner, (0..inner.partitions(Topic::Journal)).collect())
    }

    /// From now on these partitions are suggested to the process.
    pub fn suggest(&self, partitions: Vec<u32>) {
        self.shared.0.lock().unwrap().suggested = partitions;
    }

    /// The process's clock is this much behind the log's.
    pub fn be_ahead(&self, ms: i64) {
        self.shared.0.lock().unwrap().ahead_ms = ms;
    }

    /// Waits until the process is no member of the group any more.
    pub fn wait_left(&self) {
        let (state, changed) = &*self.shared;
        let guard = state.lock().unwrap();
        let (guard, _) = changed.wait_timeout_while(guard, PATIENCE, |state| !state.left).unwrap();
        assert!(guard.left, "it leaves the group within the patience");
    }

    /// The process stops between decision and append.
    pub fn hold(&self) {
        self.shared.0.lock().unwrap().mode = Mode::Hold;
    }

    /// The process is cut off.
    pub fn cut(&self) {
        self.shared.0.lock().unwrap().mode = Mode::Cut;
    }

    /// Waits for a held append to this journal, and gives its record.
    pub fn wait_held(&self, partition: u32) -> Vec<u8> {
        let (state, changed) = &*self.shared;
        let find = |state: &State| {
            state.held.iter().find(|held| held.partition == partition).map(|h| h.value.clone())
        };
        let guard = state.lock().unwrap();
        let (guard, _) = changed.wait_timeout_while(guard, PATIENCE, |state| find(state).is_none()).unwrap();
        find(&guard).expect("an append is held within the patience")
    }

    /// Lets go what is held, in order, and gives what became of it.
    pub fn let_go(&self) -> Vec<Result<u64, AppendError>> {
        let held = {
            let mut state = self.shared.0.lock().unwrap();
            state.mode = Mode::Through;
            std::mem::take(&mut state.held)
        };
        let land = |Held { producer, partition, key, value, done }| {
            let result = append_wait(producer.as_ref(), Topic::Journal, partition, &key, value, PATIENCE);
            done(result.clone());
            result
        };
        held.into_iter().map(land).collect()
    }
}

impl Readers for TrickLog {
    fn log_id(&self) -> &LogId {
        self.inner.log_id()
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.inner.partitions(topic)
    }

    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error> {
        let inner = self.inner.reader(topic, partition, from)?;
        Ok(Box::new(TrickReader { inner, shared: Arc::clone(&self.shared) }))
    }

    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        self.inner.range(topic, partition)
    }
}

impl Log for TrickLog {
    fn producer(&self) -> Result<Arc<dyn Producer>, Error> {
        let inner = self.inner.producer()?;
        Ok(Arc::new(TrickProducer { inner, shared: Arc::clone(&self.shared) }))
    }

    fn membership(&self, _: &str) -> Result<Box<dyn Membership>, Error> {
        Ok(Box::new(Suggested(Arc::clone(&self.shared))))
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.inner.usage()
    }
}

struct TrickProducer {
    inner: Arc<dyn Producer>,
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Producer for TrickProducer {
    fn append(&self, topic: Topic, partition: u32, key: &[u8], value: Vec<u8>, done: Done) {
        let mut state = self.shared.0.lock().unwrap();
        match state.mode {
            Mode::Hold if topic == Topic::Journal => {
                let producer = Arc::clone(&self.inner);
                state.held.push(Held { producer, partition, key: key.to_vec(), value, done });
                self.shared.1.notify_all();
            }
            Mode::Cut => {
                drop(state);
                done(Err(AppendError::Unknown("cut off".to_owned())));
            }
            Mode::Through | Mode::Hold => {
                drop(state);
                self.inner.append(topic, partition, key, value, done);
            }
        }
    }
    fn flush(&self, timeout: Duration) -> Result<(), Error> {
        self.inner.flush(timeout)
    }
}

struct TrickReader {
    inner: Box<dyn Reader>,
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Reader for TrickReader {
    fn poll(&mut self, max_records: usize, timeout: Duration) -> Result<Vec<Record>, Error> {
        let mut records = self.inner.poll(max_records, timeout)?;
        let state = self.shared.0.lock().unwrap();
        records.iter_mut().for_each(|record| record.timestamp_ms += state.ahead_ms);
        if state.mode == Mode::Cut {
            Err(Error::Poisoned { reason: "cut off".to_owned() })
        } else {
            Ok(records)
        }
    }
    fn waker(&self) -> Waker {
        self.inner.waker()
    }
}

struct Suggested(Arc<(Mutex<State>, Condvar)>);

impl Drop for Suggested {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().left = true;
        self.0.1.notify_all();
    }
}

impl Membership for Suggested {
    fn suggested(&mut self, _: Duration) -> Result<Vec<u32>, Error> {
        Ok(self.0.0.lock().unwrap().suggested.clone())
    }
}
