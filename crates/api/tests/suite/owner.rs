//! An owner that answers as a test says, and keeps its answers by request as the state does.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tidemill_log::partition_of_key;
use tidemill_log::{From, Log, MemoryLog, Readers, Topic, Waker, append_wait};
use tidemill_model::{CommandRecord, Outcome, Reply, RequestId};

/// What becomes of a command; `None`: no answer ever.
pub(crate) type Script = Box<dyn FnMut(&CommandRecord) -> Option<Outcome> + Send>;

/// The decisions stand at this offset of partition 0.
pub(crate) const OFFSET: u64 = 7;

/// The owner of the only partition.
pub(crate) struct Owner {
    seen: Arc<Mutex<Vec<CommandRecord>>>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Owner {
    pub(crate) fn start(log: &MemoryLog, mut script: Script) -> Self {
        let log = log.clone();
        let mut reader = log.reader(Topic::Commands, 0, From::Start).unwrap();
        let waker = reader.waker();
        let seen: Arc<Mutex<Vec<CommandRecord>>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, ended) = (Arc::clone(&seen), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let producer = log.producer().unwrap();
            let mut answers: HashMap<RequestId, Outcome> = HashMap::new();
            while !ended.load(Ordering::SeqCst) {
                for record in reader.poll(100, Duration::from_secs(5)).unwrap() {
                    let command: CommandRecord = serde_json::from_slice(&record.value).unwrap();
                    let request = command.request.clone().unwrap();
                    kept.lock().unwrap().push(command.clone());
                    let outcome = match answers.get(&request) {
                        Some(stored) => stored.clone(),
                        None => match script(&command) {
                            Some(outcome) => outcome,
                            None => continue,
                        },
                    };
                    answers.insert(request.clone(), outcome.clone());
                    let reply = Reply { request, outcome, partition: 0, offset: OFFSET };
                    let to = command.reply_to.unwrap();
                    let partition = partition_of_key(to.as_str(), log.partitions(Topic::Replies));
                    let value = serde_json::to_vec(&reply).unwrap();
                    let key = to.as_str().as_bytes();
                    append_wait(&*producer, Topic::Replies, partition, key, value, Duration::from_secs(5))
                        .unwrap();
                }
            }
        });
        Self { seen, stop, waker, thread: Some(thread) }
    }

    /// How many commands came so far.
    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The commands that came so far.
    pub(crate) fn seen(&self) -> Vec<CommandRecord> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the owner panicked");
        }
    }
}
