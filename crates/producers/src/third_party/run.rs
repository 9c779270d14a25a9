//! The loop from the topic to the catalogue.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use tidemill_cluster::{SubmitError, SubmitRequest};
use tidemill_log::{Intake, Producer, Taken, Topic, append_wait};
use tidemill_model::{
    Actor, CatalogueCommand, Command, Outcome, RequestId, ShardId, ThirdPartyReport, text_or_hex,
};

use super::Config;
use crate::{Error, Outside};

/// The role's name in what it requests.
const ROLE: &str = "third-party";
/// Reports under way at once.
const AT_ONCE: usize = 100;
/// How long one waits for records; then it is looked whether to stop.
const WAIT: Duration = Duration::from_millis(200);
/// Before what was not decided is sent again.
const AGAIN: Duration = Duration::from_secs(1);
/// A dead letter is in the log within this, or is written again.
const LETTER: Duration = Duration::from_secs(10);

/// Running. Dropped, it is told to stop.
#[derive(Debug)]
pub struct ThirdParties {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to read the topic; none where none is configured.
///
/// # Errors
/// The configuration is outside its ranges, the log has no topics of others, or a thread cannot be had.
pub fn start(config: &Config, outside: Outside) -> Result<Option<ThirdParties>, Error> {
    config.check().map_err(|error| Error::ThirdParty(error.to_string()))?;
    let Some(topic) = config.topic.clone() else { return Ok(None) };
    let stop = Arc::new(AtomicBool::new(false));
    let reading = Reading {
        intake: outside.log.intake(&topic, &outside.instance).map_err(Error::Open)?,
        letters: outside.log.producer().map_err(Error::Open)?,
        topic,
        outside,
        stop: Arc::clone(&stop),
    };
    let run = move || reading.run();
    let thread = std::thread::Builder::new().name(ROLE.to_owned()).spawn(run).map_err(Error::Thread)?;
    Ok(Some(ThirdParties { stop, thread: Some(thread) }))
}

impl ThirdParties {
    /// Whether it has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Takes nothing more, and ends.
    ///
    /// # Errors
    /// It panicked.
    pub fn stop(mut self) -> Result<(), Error> {
        self.stop.store(true, Ordering::SeqCst);
        let thread = self.thread.take();
        thread.map_or(Ok(()), |thread| thread.join().map_err(|_| Error::Panicked(ROLE)))
    }
}

impl Drop for ThirdParties {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

struct Reading {
    topic: String,
    intake: Box<dyn Intake>,
    letters: Arc<dyn Producer>,
    outside: Outside,
    stop: Arc<AtomicBool>,
}

/// What is written to `dead-letters`.
#[derive(Serialize)]
struct Letter<'a> {
    topic: &'a str,
    partition: u32,
    offset: u64,
    reason: &'a str,
    record: String,
}

impl Reading {
    fn run(mut self) {
        while !self.stops() {
            match self.intake.poll(AT_ONCE, WAIT) {
                Ok(taken) => self.deal_with(&taken),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(
                        error,
                        topic = self.topic,
                        "reports of third parties are not read any more"
                    );
                    return;
                }
            }
        }
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// In runs in which each code stands once, so that nothing overtakes.
    fn deal_with(&mut self, taken: &[Taken]) {
        let read: Vec<_> = taken.iter().map(|it| (it, serde_json::from_slice(&it.value))).collect();
        let mut run: Vec<(&Taken, ThirdPartyReport)> = Vec::new();
        let mut codes: HashSet<Arc<str>> = HashSet::new();
        for (taken, report) in read {
            match report {
                Err(error) => {
                    if !self.set_aside(taken, &error.to_string()) {
                        return;
                    }
                }
                Ok(ThirdPartyReport { code, logical_time, ready }) => {
                    if !codes.insert(Arc::clone(&code)) {
                        if !self.send(std::mem::take(&mut run)) {
                            return;
                        }
                        codes = HashSet::from([Arc::clone(&code)]);
                    }
                    run.push((taken, ThirdPartyReport { code, logical_time, ready }));
                }
            }
        }
        if self.send(run) {
            self.done(taken);
        }
    }

    /// Sends all of these until all are decided. Whether they are: else this process ends.
    fn send(&self, mut run: Vec<(&Taken, ThirdPartyReport)>) -> bool {
        while !run.is_empty() {
            let outcomes = self.submit(&run);
            let mut left = Vec::new();
            for ((taken, report), outcome) in run.into_iter().zip(outcomes) {
                match outcome {
                    Ok(Outcome::Refused(rejection)) => {
                        if !self.set_aside(taken, &rejection.to_string()) {
                            return false;
                        }
                    }
                    Ok(Outcome::Done | Outcome::Answered(_) | Outcome::Repeated | Outcome::Deferred) => {}
                    // As large as it is, it always will be.
                    Err(error @ SubmitError::TooLarge { .. }) => {
                        if !self.set_aside(taken, &error.to_string()) {
                            return false;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(code = %report.code, %error, "a third party's report is not decided yet");
                        left.push((taken, report));
                    }
                }
            }
            run = left;
            if !run.is_empty() && !self.pause() {
                return false;
            }
        }
        true
    }

    /// All at once; what became of each.
    fn submit(&self, run: &[(&Taken, ThirdPartyReport)]) -> Vec<Result<Outcome, SubmitError>> {
        let (tell, told) = mpsc::channel();
        for (number, (taken, report)) in run.iter().enumerate() {
            let tell = tell.clone();
            self.outside.submitter.submit_with(self.submit_request(taken, report), None, move |result| {
                // The receiver is there until all have been told.
                let _ = tell.send((number, result.map(|reply| reply.outcome)));
            });
        }
        drop(tell);
        let mut outcomes = vec![Err(SubmitError::Stopped); run.len()];
        for (number, outcome) in told {
            outcomes[number] = outcome;
        }
        outcomes
    }

    /// The record, not the reading of it, is the request.
    fn submit_request(&self, taken: &Taken, report: &ThirdPartyReport) -> SubmitRequest {
        let id = format!("{ROLE}-{}-{}-{}", self.topic, taken.partition, taken.offset);
        SubmitRequest {
            shard: ShardId::CATALOGUE,
            request: RequestId::new(id),
            actor: Actor { app: ROLE.into(), user: None },
            command: Command::Catalogue(CatalogueCommand::ReportThirdParty(report.clone())),
        }
    }

    /// Writes a dead letter, until it is written. Whether it is: else this process ends.
    fn set_aside(&self, taken: &Taken, reason: &str) -> bool {
        let Taken { partition, offset, value } = taken;
        let (partition, offset) = (*partition, *offset);
        tracing::warn!(topic = self.topic, partition, offset, reason, "a third party's report is set aside");
        let record = text_or_hex(value);
        let letter = Letter { topic: &self.topic, partition, offset, reason, record };
        let letter = serde_json::to_vec(&letter).expect("a letter is plain data with string keys");
        let at = tidemill_log::partition_of_key(&self.topic, self.outside.log.partitions(Topic::DeadLetters));
        let key = self.topic.as_bytes();
        loop {
            let written = append_wait(&*self.letters, Topic::DeadLetters, at, key, letter.clone(), LETTER);
            match written {
                Ok(_) => return true,
                Err(error) => {
                    tracing::warn!(%error, "a dead letter may not have been written; written again")
                }
            }
            if !self.pause() {
                return false;
            }
        }
    }

    /// Waits a while. Whether to go on.
    fn pause(&self) -> bool {
        let mut waited = Duration::ZERO;
        while waited < AGAIN && !self.stops() {
            std::thread::sleep(WAIT);
            waited += WAIT;
        }
        !self.stops()
    }

    fn done(&mut self, taken: &[Taken]) {
        let mut below: BTreeMap<u32, u64> = BTreeMap::new();
        for taken in taken {
            below.insert(taken.partition, taken.offset + 1);
        }
        for (partition, below) in below {
            if let Err(error) = self.intake.done(partition, below) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, partition, "these reports are read again by whoever reads on");
            }
        }
    }
}
