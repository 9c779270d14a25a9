//! Many questions at once, to as many authorities as they name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_model::{FieldError, Timestamp};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::backend::{BuiltIn, Fault, Opener};
use crate::lane::Lane;
use crate::mounts::Mounts;
use crate::{
    Answer, Authority, Config, Counts, Failure, FailureKind, Kind, Outcome, Path, Question, Statistics, pass,
};

/// Answers that wait for whoever asked.
const ANSWERS: usize = 1_024;

/// Asks whether paths exist. Clones share connections and bounds.
#[derive(Clone)]
pub struct Prober(Arc<Inner>);

struct Inner {
    config: Arc<Config>,
    opener: Box<dyn Opener>,
    lanes: Mutex<Lanes>,
}

#[derive(Default)]
struct Lanes {
    open: BTreeMap<Authority, Arc<Lane>>,
    /// Counts of those that made room, and of questions that no authority was opened for.
    retired: BTreeMap<Kind, Counts>,
}

impl Prober {
    /// A prober with the back ends that are compiled in. Nothing is connected yet.
    ///
    /// # Errors
    /// A field of the configuration that is outside its range.
    pub fn new(config: Config) -> Result<Self, FieldError> {
        let opener = BuiltIn::new(Arc::new(config.clone()));
        Self::with_opener(config, opener)
    }

    /// A prober with back ends of the caller's.
    ///
    /// # Errors
    /// A field of the configuration that is outside its range.
    pub fn with_opener(config: Config, opener: impl Opener) -> Result<Self, FieldError> {
        config.check()?;
        let (config, opener) = (Arc::new(config), Box::new(opener));
        Ok(Self(Arc::new(Inner { config, opener, lanes: Mutex::default() })))
    }

    /// A path as written in `field`, where `hdfs:///…` means the configured name node.
    ///
    /// # Errors
    /// The field, the value and the rule that it breaks.
    pub fn path(&self, field: &str, written: &str) -> Result<Path, FieldError> {
        self.0.config.path(field, written)
    }

    /// Asks all of these at once. Each distinct question is asked once and answered once, in any order, within
    /// a time that is bounded by timeouts and tries; what fails or hangs holds up its own authority at most.
    ///
    /// Dropping the answers abandons what is under way.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn probe(&self, questions: impl IntoIterator<Item = Question>) -> Answers {
        let (sender, receiver) = mpsc::channel(ANSWERS);
        let mut tasks = JoinSet::new();
        let distinct: BTreeSet<Question> = questions.into_iter().collect();
        for (authority, questions) in by_authority(distinct) {
            match self.lane(&authority) {
                Ok(lane) => drop(tasks.spawn(pass::run(lane, questions, sender.clone()))),
                Err(failure) => {
                    let mut lanes = self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                    lanes.retired.entry(authority.kind()).or_default().failed += questions.len() as u64;
                    drop(tasks.spawn(fail(questions, failure, sender.clone())));
                }
            }
        }
        Answers { receiver, tasks }
    }

    /// Asks one question.
    pub async fn ask(&self, question: Question) -> Outcome {
        let answer = self.probe([question]).next().await;
        answer.expect("every question is answered").outcome
    }

    /// When what has this path last changed: the thing itself or, of a directory, the newest of it and what stands right below it,
    /// of which the first thousand are looked at. `None`: nothing is there. By the clock of whoever keeps it, to the second at
    /// worst.
    ///
    /// # Errors
    /// Why nobody knows, for people.
    pub async fn changed_at(&self, path: &Path) -> Result<Option<Timestamp>, String> {
        let authority = match path.authority() {
            Authority::Local(_) => Authority::Local(Mounts::read().of(path.inside())),
            remote @ (Authority::Hdfs(_) | Authority::S3(_)) => remote,
        };
        let lane = self.lane(&authority).map_err(|failure| failure.reason)?;
        lane.changed_at(path.inside()).await.map_err(|outcome| match outcome {
            Outcome::Failed(failure) => failure.reason,
            Outcome::Hung { tries } => format!("no answer in {tries} tries"),
            Outcome::Present | Outcome::Absent => "it was answered, and not with a time".to_owned(),
        })
    }

    /// What was asked so far, and how it went.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let lanes = self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statistics = Statistics { authorities: BTreeMap::new(), kinds: lanes.retired.clone() };
        for (authority, lane) in &lanes.open {
            statistics.add(authority, lane.counters.read());
        }
        statistics
    }

    fn lane(&self, authority: &Authority) -> Result<Arc<Lane>, Failure> {
        let mut lanes = self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.open.get(authority) {
            return Ok(Arc::clone(lane));
        }
        if lanes.open.len() >= self.0.config.max_authorities && !lanes.make_room() {
            let reason = format!("{} authorities are being asked at once", lanes.open.len());
            return Err(Failure { kind: FailureKind::Unavailable, reason, tries: 0 });
        }
        let backend = self.0.opener.open(authority).map_err(|fault| {
            let kind = match fault {
                Fault::Refused(_) => FailureKind::Refused,
                Fault::Unavailable(_) | Fault::StillHangs => FailureKind::Unavailable,
            };
            Failure { kind, reason: fault.to_string(), tries: 0 }
        })?;
        let lane = Arc::new(Lane::new(authority.clone(), backend, &self.0.config));
        lanes.open.insert(authority.clone(), Arc::clone(&lane));
        Ok(lane)
    }
}

impl Lanes {
    /// Closes the one that rested longest. Says whether one rests.
    fn make_room(&mut self) -> bool {
        let resting = self.open.values().filter(|lane| Arc::strong_count(lane) == 1);
        let longest = resting.filter_map(|lane| Some((lane.idle_for_ms()?, lane.authority.clone()))).max();
        let Some((_, authority)) = longest else { return false };
        if let Some(lane) = self.open.remove(&authority) {
            self.retired.entry(authority.kind()).or_default().add(&lane.counters.read());
        }
        true
    }
}

fn by_authority(questions: BTreeSet<Question>) -> BTreeMap<Authority, Vec<Question>> {
    let mut mounts = None;
    let mut authorities: BTreeMap<Authority, Vec<Question>> = BTreeMap::new();
    for question in questions {
        let authority = match question.authority() {
            Authority::Local(_) => {
                Authority::Local(mounts.get_or_insert_with(Mounts::read).of(question.path.inside()))
            }
            remote @ (Authority::Hdfs(_) | Authority::S3(_)) => remote,
        };
        authorities.entry(authority).or_default().push(question);
    }
    authorities
}

async fn fail(questions: Vec<Question>, failure: Failure, answers: mpsc::Sender<Answer>) {
    for question in questions {
        let answer = Answer { question, outcome: Outcome::Failed(failure.clone()) };
        if answers.send(answer).await.is_err() {
            return;
        }
    }
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prober").field("config", &self.0.config).finish_non_exhaustive()
    }
}

/// Answers as they come. They have to be taken: some thousand of them wait, then the asking does.
#[derive(Debug)]
pub struct Answers {
    receiver: mpsc::Receiver<Answer>,
    tasks: JoinSet<()>,
}

impl Answers {
    /// The next answer; none when every question was answered. Safe to drop and call again.
    ///
    /// # Panics
    /// Where a back end did.
    pub async fn next(&mut self) -> Option<Answer> {
        if let Some(answer) = self.receiver.recv().await {
            return Some(answer);
        }
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        }
        None
    }

    /// All answers.
    ///
    /// # Panics
    /// Where a back end did.
    pub async fn all(mut self) -> Vec<Answer> {
        let mut all = Vec::new();
        while let Some(answer) = self.next().await {
            all.push(answer);
        }
        all
    }
}
