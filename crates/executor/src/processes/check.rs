//! EXE-4: whether the output path of an attempt exists, once none of its processes is left. Until that is known, the
//! attempt runs on as far as the owner is concerned.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use tidemill_model::Token;
use tidemill_probe::{Config, Outcome, Path, Prober, Question};
use tokio::sync::mpsc;

use crate::Error;
use crate::attempt_dir::{AttemptDir, ExitRecord};
use crate::thread::Thread;
use crate::worker::{Input, ProcessEnd};

/// The pauses between two rounds of asking, where nobody knows; each round has tries of its own.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(8), Duration::from_secs(15)];

/// An attempt that has ended by itself, and whose output path is asked for.
struct Check {
    token: Token,
    record: ExitRecord,
    path: String,
}

/// Asks for output paths. Cheap to copy; ends with its last copy.
#[derive(Clone)]
pub(crate) struct Checks(mpsc::UnboundedSender<Check>);

impl Checks {
    /// What is learned goes to `inputs`. The thread that asks ends with the last copy.
    pub(crate) fn start(config: &Config, inputs: Sender<Vec<Input>>) -> Result<(Self, Thread), Error> {
        let prober = Prober::new(config.clone()).map_err(Error::probe)?;
        let (sender, mut checks) = mpsc::unbounded_channel::<Check>();
        let ask_all = async move {
            while let Some(check) = checks.recv().await {
                let (prober, inputs) = (prober.clone(), inputs.clone());
                tokio::spawn(async move {
                    let exists = exists(&prober, &check.path).await;
                    let Check { token, record, path } = check;
                    let end = ProcessEnd::Checked { record, path, exists };
                    // The loop is gone only when the worker stops; its next life asks again.
                    let _ = inputs.send(vec![Input::ProcessEnded { token, end }]);
                });
            }
        };
        Ok((Self(sender), Thread::start_async("check", "the thread that checks output paths", ask_all)?))
    }

    /// How the attempt ended, where that is known without asking; else it is told later.
    pub(super) fn conclude(&self, token: Token, dir: &AttemptDir, end: ProcessEnd) -> Option<ProcessEnd> {
        match end {
            ProcessEnd::Recorded(record) => {
                let path = dir.output_path();
                self.begin(token, record, path).map(ProcessEnd::Recorded)
            }
            end => Some(end),
        }
    }

    /// Asks, where there is something to ask; else gives the record back.
    pub(super) fn begin(&self, token: Token, record: ExitRecord, path: Option<String>) -> Option<ExitRecord> {
        let ended_by_itself = record.kill_cause.is_none() && record.error.is_none();
        let Some(path) = path.filter(|_| ended_by_itself) else { return Some(record) };
        let refused = self.0.send(Check { token, record, path }).err();
        refused.map(|refused| refused.0.record)
    }
}

/// The error says why nobody knows.
async fn exists(prober: &Prober, written: &str) -> Result<bool, Arc<str>> {
    let path: Path = prober.path("success_check.output_path", written).map_err(|error| error.to_string())?;
    let mut pauses = PAUSES.into_iter();
    loop {
        let why = match prober.ask(Question { path: path.clone(), mark: None }).await {
            Outcome::Present => return Ok(true),
            Outcome::Absent => return Ok(false),
            Outcome::Failed(failure) => failure.reason,
            Outcome::Hung { tries } => format!("no answer in {tries} tries"),
        };
        match pauses.next() {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(why.into()),
        }
    }
}
