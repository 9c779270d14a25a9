//! Asks where partitions end, for readers that have nothing to read. A reader does not ask with its own client: librdkafka closes
//! a connection when a request times out, even while it is being made, so no connection to a slow broker would last.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::connection::{ANSWER, number};
use super::context::{Asking, Listens as _, serve};
use super::watch::End;
use crate::Error;
use crate::signal::Signal;

/// Questions within this time go to the broker as one.
pub(super) const GATHER: Duration = Duration::from_millis(50);

/// One thread asks for all readers of a log. Each has one question under way at most.
pub(crate) struct Ends(Sender<Question>);

struct Question {
    name: String,
    partition: u32,
    answer: SyncSender<End>,
    /// Wakes the reader that asked.
    signal: Arc<Signal>,
}

impl Ends {
    pub(crate) fn start(client: Arc<BaseConsumer<Asking>>) -> Result<Self, Error> {
        let (sender, questions) = channel();
        thread::Builder::new()
            .name("kafka-ends".to_owned())
            .spawn(move || answer(&client, &questions))
            .map_err(|error| Error::open("start the thread that asks where partitions end", error))?;
        Ok(Self(sender))
    }

    /// The receiver is disconnected where the broker gave no answer.
    pub(crate) fn ask(&self, name: &str, partition: u32, signal: &Arc<Signal>) -> Receiver<End> {
        let (answer, receiver) = sync_channel(1);
        let (name, signal) = (name.to_owned(), Arc::clone(signal));
        if self.0.send(Question { name, partition, answer, signal }).is_err() {
            tracing::error!(
                "the thread that asks Kafka for ends is gone: a client that fetches no more stays unnoticed"
            );
        }
        receiver
    }
}

/// Until nobody is left who could ask.
fn answer(client: &BaseConsumer<Asking>, questions: &Receiver<Question>) {
    while let Ok(first) = questions.recv() {
        thread::sleep(GATHER);
        let mut asked: BTreeMap<(String, u32), Vec<Question>> = BTreeMap::new();
        for question in iter::once(first).chain(questions.try_iter()) {
            asked.entry((question.name.clone(), question.partition)).or_default().push(question);
        }
        serve(client, |_| ());
        let since = Instant::now();
        match ends(client, asked.keys()) {
            Ok(ends) => {
                let took = since.elapsed();
                for ((_, questions), offset) in asked.into_iter().zip(ends) {
                    for question in questions {
                        offset.and_then(|offset| question.answer.send(End { offset, took }).ok());
                        question.signal.news();
                    }
                }
            }
            Err(error) => client.context().said().note(&error),
        }
    }
}

/// The ends of these partitions in their order. If the broker does not answer for one of them in time, none has an answer, and the
/// readers ask again.
fn ends<'a>(
    client: &BaseConsumer<Asking>,
    partitions: impl Iterator<Item = &'a (String, u32)>,
) -> KafkaResult<Vec<Option<u64>>> {
    let mut asked = TopicPartitionList::new();
    for (name, partition) in partitions {
        asked.add_partition_offset(name, number(*partition), Offset::End)?;
    }
    let told = client.offsets_for_times(asked, ANSWER)?;
    let end = |offset| match offset {
        Offset::Offset(end) => u64::try_from(end).ok(),
        _ => None,
    };
    Ok(told.elements().iter().map(|told| told.error().ok().and_then(|()| end(told.offset()))).collect())
}
