//! Which question is taken and sent next, without clock and I/O.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidemill_model::{BatchId, QualityQuestion, ShardId};

use crate::Parts;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// This process asks about the batches of these parts.
    Parts(Parts),
    /// These are all shards there are.
    Shards(Vec<ShardId>),
    /// All questions of a shard that nobody has taken, asked for by [`Output::Look`].
    Wanted(ShardId, Vec<QualityQuestion>),
    /// A shard's owner did not say.
    Unknown(ShardId),
    /// What became of an [`Output::Take`].
    Taken(QualityQuestion, Taken),
    /// An [`Output::Send`] is over, whatever came of it.
    Sent(QualityQuestion),
}

/// What became of taking a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is ours to send.
    Ours,
    /// It is another's, or nobody wants to know any more.
    Refused,
    /// It may or may not be ours. It is not sent: the owner asks again in time.
    Unknown,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Ask the shard's owner for all its questions.
    Look(ShardId),
    /// Take this question, by a command.
    Take(QualityQuestion),
    /// Send it to the service.
    Send(QualityQuestion),
}

#[derive(Debug, Default)]
struct Shard {
    look_at_ms: u64,
    looking: bool,
}

/// The number of a question: about which batch, and how often it was asked.
type Number = (BatchId, u32);

/// What is under way. Nothing of it has to survive.
#[derive(Debug)]
pub struct Role {
    poll_interval_ms: u64,
    max_in_flight: usize,
    shards: BTreeMap<ShardId, Shard>,
    parts: Parts,
    queue: VecDeque<QualityQuestion>,
    under_way: BTreeSet<Number>,
    /// Dealt with, and perhaps still named by an owner that was asked before.
    done: BTreeMap<ShardId, BTreeSet<Number>>,
}

impl Role {
    /// One that knows of nothing yet.
    #[must_use]
    pub fn new(config: &super::Config) -> Self {
        Self {
            poll_interval_ms: config.poll_interval_ms,
            max_in_flight: config.max_in_flight,
            shards: BTreeMap::new(),
            parts: Parts::none(),
            queue: VecDeque::new(),
            under_way: BTreeSet::new(),
            done: BTreeMap::new(),
        }
    }

    /// Takes what happened; what to do now, and when there is more to do if nothing happens until then.
    pub fn step(&mut self, now_ms: u64, inputs: impl IntoIterator<Item = Input>) -> (Vec<Output>, u64) {
        let mut outputs = Vec::new();
        for input in inputs {
            self.take(now_ms, input, &mut outputs);
        }
        while self.under_way.len() < self.max_in_flight
            && let Some(ask) = self.queue.pop_front()
        {
            if self.under_way.insert(number(&ask)) {
                outputs.push(Output::Take(ask));
            }
        }
        let mut wake_at_ms = now_ms + self.poll_interval_ms;
        for (id, shard) in &mut self.shards {
            if shard.looking {
                continue;
            }
            if shard.look_at_ms <= now_ms {
                shard.looking = true;
                outputs.push(Output::Look(*id));
            } else {
                wake_at_ms = wake_at_ms.min(shard.look_at_ms);
            }
        }
        (outputs, wake_at_ms)
    }

    fn take(&mut self, now_ms: u64, input: Input, outputs: &mut Vec<Output>) {
        match input {
            Input::Parts(parts) => self.parts = parts,
            Input::Shards(shards) => {
                self.shards.retain(|shard, _| shards.contains(shard));
                for shard in shards {
                    let new = || Shard { look_at_ms: now_ms, looking: false };
                    self.shards.entry(shard).or_insert_with(new);
                }
            }
            Input::Wanted(shard, asks) => self.wanted(now_ms, shard, asks),
            Input::Unknown(shard) => self.looked(now_ms, shard),
            Input::Taken(ask, Taken::Ours) => outputs.push(Output::Send(ask)),
            Input::Taken(ask, Taken::Refused | Taken::Unknown) | Input::Sent(ask) => self.end(&ask),
        }
    }

    fn looked(&mut self, now_ms: u64, shard: ShardId) {
        if let Some(shard) = self.shards.get_mut(&shard) {
            *shard = Shard { look_at_ms: now_ms + self.poll_interval_ms, looking: false };
        }
    }

    fn wanted(&mut self, now_ms: u64, shard: ShardId, asks: Vec<QualityQuestion>) {
        self.looked(now_ms, shard);
        let named: BTreeSet<Number> = asks.iter().map(number).collect();
        let done = self.done.entry(shard).or_default();
        done.retain(|number| named.contains(number));
        self.queue.retain(|ask| ask.batch.shard() != shard);
        let Parts { mine, count } = &self.parts;
        let is_mine = |batch: BatchId| mine.contains(&part(batch, *count));
        let new = asks.into_iter().filter(|ask| {
            let number = number(ask);
            is_mine(ask.batch) && !done.contains(&number) && !self.under_way.contains(&number)
        });
        self.queue.extend(new);
    }

    fn end(&mut self, ask: &QualityQuestion) {
        self.under_way.remove(&number(ask));
        self.done.entry(ask.batch.shard()).or_default().insert(number(ask));
    }
}

fn number(ask: &QualityQuestion) -> Number {
    (ask.batch, ask.number)
}

/// Spreads batches over so many parts; ids of one shard have the same low bits.
fn part(batch: BatchId, count: u32) -> u32 {
    let mixed = batch.0.unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    u32::try_from(mixed % u64::from(count)).expect("it is below a number of 32 bits")
}
