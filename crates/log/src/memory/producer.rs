//! A producer of the memory log: a queue, and a thread that empties it.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::{Append, Fault, Late, Shared};
use crate::in_flight::{InFlight, Pending};
use crate::lane::Lane;
use crate::port::Done;
use crate::signal::lock;
use crate::{AppendError, Error, Producer, Topic};

struct Queued {
    lane: Arc<Lane>,
    key: Vec<u8>,
    value: Vec<u8>,
    pending: Pending,
}

pub(crate) struct MemoryProducer {
    shared: Arc<Shared>,
    in_flight: Arc<InFlight>,
    queue: mpsc::Sender<Queued>,
}

impl MemoryProducer {
    /// The thread ends when the producer is dropped and its queue is empty.
    pub(crate) fn start(shared: &Arc<Shared>, number: u64) -> Result<Self, Error> {
        let (queue, queued) = mpsc::channel();
        let log = Arc::clone(shared);
        thread::Builder::new()
            .name(format!("memory-log-{number}"))
            .spawn(move || queued.into_iter().for_each(|queued| land(&log, number, queued)))
            .map_err(|error| Error::open("start a producer's thread", error))?;
        Ok(Self { shared: Arc::clone(shared), in_flight: InFlight::new(shared.queue), queue })
    }
}

impl Producer for MemoryProducer {
    fn append(&self, topic: Topic, partition: u32, key: &[u8], value: Vec<u8>, done: Done) {
        if topic.is_too_large(key, &value) {
            return done(Err(AppendError::TooLarge));
        }
        let lane = match self.shared.lane(topic, partition) {
            Ok(lane) => Arc::clone(lane),
            Err(error) => return done(Err(AppendError::Refused(error.to_string()))),
        };
        if let Some(pending) = self.in_flight.enter(key.len() + value.len(), done) {
            // Where the thread is gone, the record comes back and its drop tells that the outcome is unknown.
            let _ = self.queue.send(Queued { lane, key: key.to_vec(), value, pending });
        }
    }

    fn flush(&self, timeout: Duration) -> Result<(), Error> {
        self.in_flight.flush(timeout)
    }
}

fn land(log: &Shared, producer: u64, queued: Queued) {
    let Queued { lane, key, value, pending } = queued;
    let append = Append { producer, topic: lane.topic, partition: lane.partition, key: &key, value: &value };
    let unknown = Err(AppendError::Unknown("a fault was asked for".to_owned()));
    let store = |key, value: Vec<u8>| lane.push(log.now_ms(), key, value.into());
    match log.fault(&append) {
        Fault::None => pending.finish(Ok(store(key, value))),
        Fault::Delay(gate) => {
            gate.pass();
            pending.finish(Ok(store(key, value)));
        }
        Fault::DropUnknown => pending.finish(unknown),
        Fault::LandUnknown => {
            store(key, value);
            pending.finish(unknown);
        }
        Fault::LandLate => {
            lock(&log.late).push(Late { lane, key, value });
            pending.finish(unknown);
        }
    }
}
