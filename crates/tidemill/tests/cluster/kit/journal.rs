//! The journal, read as every reader has to: through the chain.

use std::time::Duration;

use tidemill_log::{Chain, Claim, From, Head, Header, KafkaLog, Kind, Reader, Readers, Topic, Verdict};
use tidemill_model::{Envelope, Event};

/// What a record is.
pub(crate) enum What {
    Claim(Claim),
    Envelope(Box<Envelope>),
    /// The owner has left.
    Resigned,
    /// Genesis or stopped.
    Mark,
    /// It does not count.
    Void,
}

/// All that was read of one partition.
pub(crate) struct Part {
    partition: u32,
    reader: Box<dyn Reader>,
    chain: Chain,
    next: u64,
    pub(crate) entries: Vec<What>,
}

/// All partitions of a journal.
pub(crate) struct Journal {
    log: KafkaLog,
    parts: Vec<Part>,
}

impl Journal {
    pub(crate) fn open(log: KafkaLog) -> Self {
        let parts = (0..log.partitions(Topic::Journal)).map(|partition| Part {
            partition,
            reader: log.reader(Topic::Journal, partition, From::Start).unwrap(),
            chain: Chain::new(),
            next: 0,
            entries: Vec::new(),
        });
        let parts = parts.collect();
        Self { log, parts }
    }

    /// Reads up to where the journal ends now.
    pub(crate) fn catch_up(&mut self) -> &[Part] {
        for part in &mut self.parts {
            let end = self.log.range(Topic::Journal, part.partition).unwrap().end;
            while part.next < end {
                for record in part.reader.poll(1_000, Duration::from_secs(10)).unwrap() {
                    part.next = record.offset + 1;
                    let what = what(part.chain.accept(record.offset, &record.value), &record.value.body());
                    part.entries.push(what);
                }
            }
        }
        &self.parts
    }

    /// Where the partition stands now.
    pub(crate) fn head(&mut self, partition: u32) -> Head {
        let part = &self.catch_up()[partition as usize];
        part.chain.head().expect("a journal has a genesis").clone()
    }

    /// Where each owner answers, partition by partition; none where nobody owns it.
    pub(crate) fn owners(&mut self) -> Vec<Option<String>> {
        let heads = self.catch_up().iter().map(|part| part.chain.head());
        let owner = |head: &Head| head.owner.clone().filter(|_| !head.resigned && !head.stopped);
        heads.map(|head| head.and_then(owner).map(|claim| claim.address)).collect()
    }

    /// Records that do not count, partition by partition.
    pub(crate) fn voids(&mut self) -> Vec<u64> {
        self.catch_up().iter().map(|part| part.chain.void_count()).collect()
    }

    /// Every fact, partition by partition, in order.
    pub(crate) fn events(&mut self) -> impl Iterator<Item = &Event> {
        self.catch_up()
            .iter()
            .flat_map(|part| &part.entries)
            .flat_map(|entry| match entry {
                What::Envelope(envelope) => envelope.events.as_slice(),
                What::Claim(_) | What::Resigned | What::Mark | What::Void => &[],
            })
            .map(|recorded| &recorded.event)
    }
}

fn what(verdict: Verdict, body: &[u8]) -> What {
    let Verdict::Accepted(Header { kind, .. }) = verdict else { return What::Void };
    match kind {
        Kind::Claim => What::Claim(serde_json::from_slice(body).unwrap()),
        Kind::Envelope => What::Envelope(Box::new(serde_json::from_slice(body).unwrap())),
        Kind::Resigned => What::Resigned,
        Kind::Genesis | Kind::Stopped => What::Mark,
    }
}
