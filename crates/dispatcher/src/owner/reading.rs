//! What the owner makes of what it reads: its own records come back, others' are folded, ends are reached.

use tidemill_engine::effects;
use tidemill_log::{AppendError, Hash, Kind, Record, Verdict};
use tidemill_model::Envelope;

use super::{Ends, Output, Owner, Role};
use crate::{Error, Moment};

impl Owner {
    pub(super) fn take_ends(
        &mut self,
        asked: Moment,
        journal: u64,
        commands: u64,
    ) -> Result<Vec<Output>, Error> {
        self.asking = false;
        self.looked_for_silence = false;
        self.journal_goal.get_or_insert(journal);
        self.ends = Some(Ends { asked, commands });
        match &self.check_resume {
            // Reading there would wait for a command that is yet to come.
            Some(resume) if commands <= resume.offset => Err(self.commands_lost(resume.offset)),
            Some(_) | None => Ok(Vec::new()),
        }
    }

    pub(super) fn commands_lost(&self, offset: u64) -> Error {
        Error::CommandsLost { partition: self.start.partition, offset }
    }

    pub(super) fn journal(&mut self, records: Vec<Record>, moment: Moment) -> Result<Vec<Output>, Error> {
        let mut outputs = Vec::new();
        for record in records {
            self.journal_next = record.offset + 1;
            let Verdict::Accepted(header) = self.chain.accept(record.offset, &record.value) else {
                if self.is_own(&record) {
                    let reason = "an own record was void: another owner was faster".to_owned();
                    outputs.push(Output::Restart { back_off: true, reason });
                    return Ok(outputs);
                }
                continue;
            };
            match header.kind {
                Kind::Genesis => self.check_genesis()?,
                Kind::Claim if self.is_own(&record) => {
                    let sent = self.under_way.take().map_or(moment, |own| own.since);
                    outputs.extend(self.begin_owning(&record, sent, moment)?);
                }
                Kind::Claim if self.role != Role::Following => {
                    let by = self.chain.head().and_then(|head| head.owner.as_ref());
                    let by = by.map_or("nobody", |claim| claim.incarnation.as_str());
                    let reason = format!("{by} claimed the partition");
                    outputs.push(Output::Restart { back_off: true, reason });
                    return Ok(outputs);
                }
                Kind::Claim => {}
                Kind::Envelope if self.is_own(&record) => outputs.extend(self.read_back(record.offset)),
                Kind::Envelope => self.fold(&record)?,
                Kind::Resigned if self.is_own(&record) => {
                    self.under_way = None;
                    self.role = Role::Following;
                    outputs.push(Output::Resigned);
                }
                Kind::Resigned | Kind::Stopped => {}
            }
        }
        Ok(outputs)
    }

    pub(super) fn is_own(&self, record: &Record) -> bool {
        self.under_way.as_ref().is_some_and(|own| own.record == record.value)
    }

    pub(super) fn check_genesis(&self) -> Result<(), Error> {
        let count = self.chain.head().map_or(0, |head| head.count);
        if count == self.start.count {
            return Ok(());
        }
        let partition = self.start.partition;
        Err(Error::PartitionCount { partition, journal: count, log: self.start.count })
    }

    pub(super) fn fold(&mut self, record: &Record) -> Result<(), Error> {
        let (partition, offset, reads) = (self.start.partition, record.offset, self.start.config.reads);
        let envelope = record.value.decoded(|body| Envelope::read(body, reads));
        // Somebody in this process may have read it who reads more.
        let envelope = envelope.and_then(|envelope| envelope.check_level(reads).map(|()| envelope));
        let envelope = envelope.map_err(|error| Error::envelope(partition, offset, error))?;
        planted!(TimerFiredAgainAfterTakeover => {
            self.state.apply(&super::planted::not_fired((*envelope).clone()));
            return Ok(());
        });
        self.state.apply(&envelope);
        self.snapshots.see(&envelope);
        Ok(())
    }

    /// An own envelope is in the journal: what it means outside may happen now.
    pub(super) fn read_back(&mut self, offset: u64) -> Vec<Output> {
        let Some(own) = self.under_way.take() else { return Vec::new() };
        let Some(envelope) = own.envelope else { return Vec::new() };
        self.snapshots.see(&envelope);
        self.uncovered = 0;
        self.uncovered_since = None;
        let mut acts = own.notices;
        acts.extend(self.seals.with_keys(&self.state, effects(&self.state, &envelope, offset)));
        acts.extend(self.outbox_sender.collect(&self.state));
        acts.into_iter().map(Output::Act).collect()
    }

    pub(super) fn begin_owning(
        &mut self,
        claim: &Record,
        sent: Moment,
        moment: Moment,
    ) -> Result<Vec<Output>, Error> {
        // The claim counts, so whoever must not work can still hand the partition over.
        self.role = Role::Owning;
        let off_ms = off_between(claim.timestamp_ms, sent, moment);
        if off_ms.unsigned_abs() > self.start.config.max_clock_step_ms {
            let (partition, against) = (self.start.partition, "the log's time of its claim");
            return Err(Error::Clock { partition, off_ms, against });
        }
        // Counted from when the claim was sent: the time of its append says nothing of a step after that.
        self.clock_base_ms = Some(sent.off_boot_ms());
        self.check_clock(moment)?;
        self.silence.start(moment.boot_ms);
        self.seals.start();
        self.ends = None;
        self.read = self.state.resume().cloned();
        let from = self.read.as_ref().map_or(0, |read| read.offset);
        self.check_resume = self.read.clone();
        self.decided_next = from;
        let mut outputs = vec![Output::ReadCommands(from), Output::AskEnds];
        self.asking = true;
        outputs.extend(self.say_again());
        Ok(outputs)
    }

    pub(super) fn commands(&mut self, records: Vec<Record>) -> Result<Vec<Output>, Error> {
        if self.role != Role::Owning {
            return Ok(Vec::new());
        }
        for record in records {
            if let Some(resume) = self.check_resume.take() {
                if record.offset != resume.offset || Hash::of(&record.value).to_string() != resume.hash {
                    return Err(self.commands_lost(resume.offset));
                }
                self.decided_next = record.offset + 1;
                continue;
            }
            planted!(CommandSkippedAtTakeover => if self.ends.is_none() && record.offset == self.decided_next { continue });
            self.pending.push_back(record);
        }
        Ok(Vec::new())
    }

    pub(super) fn appended(
        &mut self,
        result: Result<u64, AppendError>,
        moment: Moment,
    ) -> Result<Vec<Output>, Error> {
        let partition = self.start.partition;
        match result {
            Ok(_) => Ok(Vec::new()),
            Err(AppendError::Full) => {
                if let Some(under_way) = &mut self.under_way {
                    under_way.full_since = Some(moment.boot_ms);
                }
                Ok(Vec::new())
            }
            Err(AppendError::Refused(reason)) => Ok(vec![Output::Restart { back_off: true, reason }]),
            Err(AppendError::Unknown(reason)) => Ok(vec![Output::Restart { back_off: false, reason }]),
            Err(source @ AppendError::TooLarge) => {
                // It is certainly not in the log, so that the partition stops can still be told there.
                self.under_way = None;
                Err(Error::Append { partition, source })
            }
        }
    }
}

/// By how much the log's time of a record lies outside of the time in which it was appended and read back.
fn off_between(logged_ms: i64, sent: Moment, read: Moment) -> i64 {
    let (sent_ms, read_ms) = (sent.wall.as_millisecond(), read.wall.as_millisecond());
    match logged_ms {
        early if early < sent_ms => sent_ms - early,
        late if late > read_ms => read_ms - late,
        _ => 0,
    }
}
