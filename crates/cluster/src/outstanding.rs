//! The rules of waiting: what is appended when, who is told what, and what is refused. No clock, no thread,
//! no I/O: every call is given the time and gives back what is to be done.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_log::AppendError;
use tidemill_model::{Reply, RequestId};

use crate::{Config, SubmitError};

/// What is to be done.
#[derive(Debug, PartialEq)]
pub enum Output<W> {
    /// Append this command, and tell [`Outstanding::appended`] what became of it.
    Append {
        /// Of the commands topic.
        partition: u32,
        /// The shard, as text.
        key: Vec<u8>,
        /// The record.
        value: Arc<[u8]>,
        /// Which request it is.
        request: RequestId,
        /// Counts the requests: an id that is sent again after it ended is another one.
        number: u64,
    },
    /// Tell this waiter.
    Tell {
        /// Who waits.
        waiter: W,
        /// The outcome.
        result: Box<Result<Reply, SubmitError>>,
    },
}

/// How much waits, for status pages and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Requests without an outcome.
    pub in_flight: usize,
    /// Their bytes.
    pub in_flight_bytes: usize,
    /// How long the oldest has waited, milliseconds.
    pub oldest_ms: u64,
}

struct Pending<W> {
    number: u64,
    waiters: Vec<(W, Instant)>,
    partition: u32,
    key: Vec<u8>,
    value: Arc<[u8]>,
    since: Instant,
    again_at: Instant,
    /// Appends whose outcome is not known yet.
    under_way: u32,
    /// Whether an append is, or may be, in the log.
    may_be_there: bool,
}

impl<W> Pending<W> {
    fn due_at(&self) -> Option<Instant> {
        let deadlines = self.waiters.iter().map(|(_, deadline)| *deadline);
        deadlines.chain((self.under_way == 0).then_some(self.again_at)).min()
    }
}

/// Requests that wait for their outcome. `W` is a waiter: whatever the caller wants back.
pub struct Outstanding<W> {
    config: Config,
    requests: HashMap<RequestId, Pending<W>>,
    /// Per partition, in order of age; entries whose request has its outcome are dropped lazily.
    by_age: BTreeMap<u32, VecDeque<(u64, RequestId)>>,
    bytes: usize,
    numbers: u64,
    /// Nothing is due before; may be early, never late.
    due_at: Option<Instant>,
}

impl<W> Outstanding<W> {
    /// Nothing waits yet.
    pub fn new(config: Config) -> Self {
        Self { config, requests: HashMap::new(), by_age: BTreeMap::new(), bytes: 0, numbers: 0, due_at: None }
    }

    /// A new request, to `partition` with `key` and `value`. A request that waits already gets one waiter more,
    /// and is not appended again for it.
    pub fn submit(
        &mut self,
        now: Instant,
        request: RequestId,
        command: (u32, Vec<u8>, Vec<u8>),
        waiter: W,
        timeout: Option<Duration>,
    ) -> Output<W> {
        let (partition, key, value) = command;
        let deadline = now + timeout.unwrap_or(self.config.deadline());
        if let Err(error) = self.has_room(now, partition, value.len()) {
            return Output::Tell { waiter, result: Box::new(Err(error)) };
        }
        let value: Arc<[u8]> = value.into();
        self.numbers += 1;
        self.bytes += value.len();
        self.by_age.entry(partition).or_default().push_back((self.numbers, request.clone()));
        let pending = Pending {
            number: self.numbers,
            waiters: vec![(waiter, deadline)],
            partition,
            key: key.clone(),
            value: Arc::clone(&value),
            since: now,
            again_at: now + self.config.append_again(),
            under_way: 1,
            may_be_there: false,
        };
        self.requests.insert(request.clone(), pending);
        self.due_by(deadline.min(now + self.config.append_again()));
        Output::Append { partition, key, value, request, number: self.numbers }
    }

    /// Adds a waiter to a request that waits already; gives it back where there is no such request.
    ///
    /// # Errors
    /// There is no such request: the waiter.
    pub fn join(
        &mut self,
        now: Instant,
        request: &RequestId,
        waiter: W,
        timeout: Option<Duration>,
    ) -> Result<(), W> {
        let deadline = now + timeout.unwrap_or(self.config.deadline());
        match self.requests.get_mut(request) {
            Some(pending) => {
                pending.waiters.push((waiter, deadline));
                self.due_by(deadline);
                Ok(())
            }
            None => Err(waiter),
        }
    }

    /// What became of an append.
    pub fn appended(
        &mut self,
        request: &RequestId,
        number: u64,
        result: Result<u64, AppendError>,
    ) -> Vec<Output<W>> {
        let pending = self.requests.get_mut(request).filter(|pending| pending.number == number);
        let Some(pending) = pending else { return Vec::new() };
        pending.under_way -= 1;
        let error = match result {
            Ok(_) | Err(AppendError::Unknown(_)) => {
                pending.may_be_there = true;
                let again_at = pending.again_at;
                self.due_by(again_at);
                return Vec::new();
            }
            Err(AppendError::TooLarge) => SubmitError::TooLarge { bytes: pending.value.len() },
            Err(error @ (AppendError::Refused(_) | AppendError::Full)) => {
                SubmitError::Unavailable { reason: error.to_string() }
            }
        };
        if pending.may_be_there || pending.under_way > 0 {
            let again_at = pending.again_at;
            self.due_by(again_at);
            return Vec::new();
        }
        self.end(request, &Err(error))
    }

    /// An owner's reply.
    pub fn replied(&mut self, reply: Reply) -> Vec<Output<W>> {
        let request = reply.request.clone();
        self.end(&request, &Ok(reply))
    }

    /// Time passed: what has waited long enough is appended again, who has waited long enough is told.
    pub fn tick(&mut self, now: Instant) -> Vec<Output<W>> {
        if self.due_at.is_none_or(|due| due > now) {
            return Vec::new();
        }
        let mut outputs = Vec::new();
        let mut over = Vec::new();
        for (request, pending) in &mut self.requests {
            let waited_ms = millis(now.saturating_duration_since(pending.since));
            for (waiter, _) in pending.waiters.extract_if(.., |(_, deadline)| *deadline <= now) {
                outputs
                    .push(Output::Tell { waiter, result: Box::new(Err(SubmitError::Unknown { waited_ms })) });
            }
            if pending.waiters.is_empty() {
                over.push(request.clone());
            } else if pending.again_at <= now && pending.under_way == 0 {
                pending.again_at = now + self.config.append_again();
                pending.under_way += 1;
                outputs.push(Output::Append {
                    partition: pending.partition,
                    key: pending.key.clone(),
                    value: Arc::clone(&pending.value),
                    request: request.clone(),
                    number: pending.number,
                });
            }
        }
        for request in over {
            self.remove(&request);
        }
        self.due_at = self.requests.values().filter_map(Pending::due_at).min();
        outputs
    }

    /// The program ends: everyone who waits is told.
    pub fn stop(&mut self) -> Vec<Output<W>> {
        let requests: Vec<_> = self.requests.keys().cloned().collect();
        requests.iter().flat_map(|request| self.end(request, &Err(SubmitError::Stopped))).collect()
    }

    /// When [`Outstanding::tick`] is next due, or a little before; `None`: nothing waits.
    pub fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// How much waits.
    pub fn load(&mut self, now: Instant) -> Load {
        let partitions: Vec<_> = self.by_age.keys().copied().collect();
        let oldest = partitions.into_iter().filter_map(|partition| self.oldest(partition)).min();
        let oldest_ms = oldest.map_or(0, |since| millis(now.saturating_duration_since(since)));
        Load { in_flight: self.requests.len(), in_flight_bytes: self.bytes, oldest_ms }
    }

    fn due_by(&mut self, at: Instant) {
        self.due_at = Some(self.due_at.map_or(at, |due| due.min(at)));
    }

    fn has_room(&mut self, now: Instant, partition: u32, bytes: usize) -> Result<(), SubmitError> {
        let overloaded = |reason, retry_after_s| Err(SubmitError::Overloaded { reason, retry_after_s });
        let age =
            self.oldest(partition).map(|since| now.saturating_duration_since(since)).unwrap_or_default();
        if age > self.config.max_lag() {
            let reason = format!(
                "the oldest command to partition {partition} has waited {} ms, the bound is {} ms",
                millis(age),
                self.config.max_lag_ms
            );
            return overloaded(reason, age.as_secs().clamp(1, 30));
        }
        if self.requests.len() >= self.config.max_in_flight {
            let reason = format!("{} commands wait for their outcome, the bound", self.config.max_in_flight);
            return overloaded(reason, age.as_secs().clamp(1, 30));
        }
        if self.bytes > 0 && self.bytes + bytes > self.config.max_in_flight_bytes {
            let bound = self.config.max_in_flight_bytes;
            return overloaded(
                format!("commands that wait for their outcome take {bound} bytes, the bound"),
                1,
            );
        }
        Ok(())
    }

    /// Since when the oldest request to the partition waits.
    fn oldest(&mut self, partition: u32) -> Option<Instant> {
        let queue = self.by_age.get_mut(&partition)?;
        while let Some((number, request)) = queue.front() {
            match self.requests.get(request) {
                Some(pending) if pending.number == *number => return Some(pending.since),
                Some(_) | None => queue.pop_front(),
            };
        }
        None
    }

    fn end(&mut self, request: &RequestId, result: &Result<Reply, SubmitError>) -> Vec<Output<W>> {
        let Some(pending) = self.remove(request) else { return Vec::new() };
        let tell = |(waiter, _)| Output::Tell { waiter, result: Box::new(result.clone()) };
        pending.waiters.into_iter().map(tell).collect()
    }

    fn remove(&mut self, request: &RequestId) -> Option<Pending<W>> {
        let pending = self.requests.remove(request)?;
        self.bytes -= pending.value.len();
        // The front of the queue goes as soon as it is done, so that the queue is as long as what waits.
        self.oldest(pending.partition);
        Some(pending)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
