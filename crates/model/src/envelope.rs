//! One journal record: what was decided in one go, and why.

use tidemill_derive::{Levelled, vocabulary};

use crate::BulkId;
use crate::{
    Actor, BatchId, Event, GrantId, GroupId, InstanceId, JobId, Json as _, Level, PulledGrant, ReadError,
    Rejection, RequestId, RerunId, ShardId, TaskId, Timestamp,
};

/// The body of an envelope frame. Epoch, number and chain stand in the frame's header.
///
/// ```text
/// causes   [ command 41 → 2 events ] [ command 42 refused ] [ timer → 1 event ]
/// events   [ e0 e1 ]                                         [ e2 ]
/// ```
#[vocabulary]
pub struct Envelope {
    /// The owner's clock, read once, never before the last envelope's.
    pub now: Timestamp,
    /// The level that stood when it was written; nothing in it is of a higher one. Absent: the first.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub level: Level,
    /// The last command that is done with; absent until there is one.
    pub resume: Option<Resume>,
    /// What was decided, in order; the events of each follow one another in `events`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// The facts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Recorded>,
}

impl Envelope {
    /// Reads the body of a frame, up to a level.
    ///
    /// # Errors
    /// [`ReadError::TooNew`] before anything of a higher level could be misread, also at the record that raises the level.
    pub fn read(body: &[u8], reads: Level) -> Result<Self, ReadError> {
        match Self::from_json(body) {
            Ok(envelope) => envelope.check_level(reads).map(|()| envelope),
            Err(error) => Err(ReadError::of(error, body, reads)),
        }
    }

    /// Whether a process that reads up to this level may go on behind it.
    ///
    /// # Errors
    /// [`ReadError::TooNew`]
    pub fn check_level(&self, reads: Level) -> Result<(), ReadError> {
        let raised = self.events.iter().filter_map(|recorded| recorded.event.raises()).max();
        let level = raised.map_or(self.level, |raised| raised.max(self.level));
        if reads.allows(level) { Ok(()) } else { Err(ReadError::TooNew { level, reads }) }
    }
}

/// The JSON of an envelope in the making. Each part is written as it is decided, so that its length is known before it counts.
#[derive(Debug, Default)]
pub struct EnvelopeJson {
    causes: Vec<u8>,
    events: Vec<u8>,
}

/// As [`Recorded`] is written.
#[derive(serde::Serialize)]
struct RecordedRef<'a> {
    shard: ShardId,
    event: &'a Event,
}

impl EnvelopeJson {
    /// Writes the next cause.
    pub fn cause(&mut self, cause: &Cause) {
        write_part(&mut self.causes, cause);
    }

    /// Writes the next event.
    pub fn event(&mut self, shard: ShardId, event: &Event) {
        write_part(&mut self.events, &RecordedRef { shard, event });
    }

    /// Bytes written so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.causes.len() + self.events.len()
    }

    /// A place that [`back_to`](Self::back_to) goes back to.
    #[must_use]
    pub fn mark(&self) -> (usize, usize) {
        (self.causes.len(), self.events.len())
    }

    /// Takes back what was written behind the mark.
    pub fn back_to(&mut self, (causes, events): (usize, usize)) {
        self.causes.truncate(causes);
        self.events.truncate(events);
    }

    /// The JSON of `envelope`, whose causes and events are the ones that were written.
    #[must_use]
    pub fn finish(self, envelope: &Envelope) -> Vec<u8> {
        let Envelope { now, level, ref resume, .. } = *envelope;
        let head = Envelope { now, level, resume: resume.clone(), causes: Vec::new(), events: Vec::new() };
        let mut json = Vec::with_capacity(256 + self.bytes());
        head.write_json(&mut json);
        for (name, parts) in [("causes", self.causes), ("events", self.events)] {
            if !parts.is_empty() {
                json.pop();
                json.extend_from_slice(format!(",\"{name}\":[").as_bytes());
                json.extend_from_slice(&parts[..parts.len() - 1]);
                json.extend_from_slice(b"]}");
            }
        }
        json
    }
}

fn write_part(to: &mut Vec<u8>, part: &impl serde::Serialize) {
    serde_json::to_writer(&mut *to, part).expect("the vocabulary is plain data with string keys");
    to.push(b',');
}

/// How far the commands of the partition are done.
#[vocabulary(Eq)]
pub struct Resume {
    /// The last command's offset.
    pub offset: u64,
    /// SHA-256 of that record's value, hex: a lost, recreated or restored topic does not match.
    pub hash: String,
}

/// A fact and the shard that it belongs to.
#[vocabulary]
pub struct Recorded {
    /// Whose.
    pub shard: ShardId,
    /// What.
    pub event: Event,
}

/// Why events are in an envelope.
#[vocabulary]
pub struct Cause {
    /// What asked for a decision.
    pub source: Source,
    /// What came of it.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub outcome: Outcome,
    /// How many of the envelope's events.
    #[serde(default)]
    pub events: u32,
}

/// What asked for a decision.
#[vocabulary]
pub enum Source {
    /// A record of the commands topic.
    Command {
        /// Where.
        offset: u64,
        /// The sender's id for it.
        request: Option<RequestId>,
        /// Who waits for the outcome.
        reply_to: Option<InstanceId>,
        /// Who asked.
        actor: Actor,
    },
    /// Time passed, or room was made.
    Timer,
    /// The owner saw something by its own monotonic clock.
    Observed,
}

/// What came of a command.
#[vocabulary(Default)]
pub enum Outcome {
    /// Done, and nothing to say about it.
    #[default]
    Done,
    /// Done; the sender gets this.
    Answered(Answer),
    /// Nothing changed.
    Refused(Rejection),
    /// The same request was decided before; the sender gets the stored answer.
    Repeated,
    /// It is decided when other shards have answered; the sender hears then.
    Deferred,
}

impl Outcome {
    /// The level since which it may be written (rule 13).
    #[must_use]
    pub const fn level(&self) -> Level {
        match self {
            Self::Answered(answer) => answer.level(),
            Self::Refused(rejection) => rejection.level(),
            Self::Done | Self::Repeated | Self::Deferred => Level::FIRST,
        }
    }
}

/// What a sender learns from an accepted command.
#[vocabulary(Levelled)]
pub enum Answer {
    /// Nothing beyond that it is done.
    Done,
    /// The group's number and shard.
    Group {
        /// Its number.
        group: GroupId,
        /// Its shard.
        shard: ShardId,
    },
    /// A job and its first batch.
    Submitted {
        /// The job.
        job: JobId,
        /// Its batch; absent for a job with a schedule or parents.
        batch: Option<BatchId>,
    },
    /// A calendar is there.
    Calendar {
        /// Its version.
        version: u32,
    },
    /// A pool is there.
    Pool {
        /// Its version.
        version: u32,
    },
    /// A template is there.
    Template {
        /// Its version.
        version: u32,
    },
    /// A task that clients pull is there.
    Task {
        /// Which.
        task: TaskId,
        /// Its version.
        version: u32,
    },
    /// To a pull: what the user has now.
    Pulled(Box<PulledGrant>),
    /// To a pull: nothing (PUL-6).
    NothingDue {
        /// When the next occurrence begins for the user, as far as is known now; absent: none as far as the group's
        /// window reaches.
        next_at: Option<Timestamp>,
    },
    /// A grant is completed, now or before with the same result.
    Completed {
        /// Which.
        grant: GrantId,
    },
    /// A batch was made.
    Generated {
        /// Which.
        batch: BatchId,
        /// Its job is disabled; the batch runs nevertheless.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        disabled: bool,
    },
    /// An operation on many batches or jobs has begun.
    Bulk {
        /// Which.
        bulk: BulkId,
    },
    /// A rerun or cold start is being planned.
    Rerun {
        /// Which.
        rerun: RerunId,
        /// The named jobs that are disabled; they are rerun nevertheless.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        disabled: Vec<JobId>,
        /// Jobs downstream that the plan leaves out, because the key does not reach their groups.
        #[serde(default, skip_serializing_if = "crate::is_default")]
        jobs_left_out: u32,
    },
    /// To a process that registers: the level that stands.
    Level {
        /// Which.
        level: Level,
    },
    /// What `apply` did, and what it would have people know.
    Applied {
        /// Job by job, in the order given, unchanged ones too.
        changes: Vec<JobChange>,
        /// For people.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
}

/// What `apply` did to one job.
#[vocabulary]
pub struct JobChange {
    /// Which.
    pub job: JobId,
    /// As `group/name`.
    pub name: String,
    /// What was done.
    pub change: JobChangeKind,
    /// Its version now.
    pub version: u32,
    /// The fields that differ, for a change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// What `apply` did to a job.
#[vocabulary(Copy, Eq)]
pub enum JobChangeKind {
    /// New.
    Added,
    /// Another version.
    Changed,
    /// As it was.
    Unchanged,
    /// Gone.
    Deleted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PartitionEvent;

    /// What is written part by part is what the whole would be; what was taken back is gone.
    #[test]
    fn parts_are_the_whole() {
        let event = |number| Event::from(PartitionEvent::MessageReceived { from: ShardId(2), number });
        let cause = |events| Cause { source: Source::Timer, outcome: Outcome::Done, events };
        let resume = Some(Resume { offset: 7, hash: "h".to_owned() });
        let now = Timestamp::UNIX_EPOCH;
        for (count, level) in [(0, Level::FIRST), (0, Level::new(2)), (1, Level::new(2)), (3, Level::FIRST)] {
            let (resume, causes, events) = (resume.clone(), Vec::new(), Vec::new());
            let mut whole = Envelope { now, level, resume, causes, events };
            let mut parts = EnvelopeJson::default();
            for number in 0..count {
                let (mark, bytes) = (parts.mark(), parts.bytes());
                parts.cause(&cause(9));
                parts.event(ShardId(3), &event(9));
                parts.back_to(mark);
                assert_eq!(parts.bytes(), bytes);
                parts.cause(&cause(1));
                parts.event(ShardId(1), &event(number));
                whole.causes.push(cause(1));
                whole.events.push(Recorded { shard: ShardId(1), event: event(number) });
            }
            assert_eq!(String::from_utf8(parts.finish(&whole)).unwrap(), whole.to_json());
        }
    }
}
