//! EXE-4: whether the output path of an attempt exists, once none of its processes is left; ZMB-1: of one that would be lost,
//! whether it is newer than the attempt. Until that is known, the attempt runs on as far as the owner is concerned.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use tidemill_model::{Timestamp, Token};
use tidemill_probe::{Config, Outcome, Path, Prober, Question};
use tokio::sync::mpsc;

use crate::Error;
use crate::attempt_dir::{AttemptDir, ExitRecord};
use crate::shim::KillCause;
use crate::thread::Thread;
use crate::values;
use crate::worker::{Input, ProcessEnd};

/// The pauses between two rounds of asking, where nobody knows; each round has tries of its own.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(8), Duration::from_secs(15)];

/// An attempt whose output path is asked for.
struct Check {
    token: Token,
    path: String,
    of: Asked,
}

/// What is asked of it.
enum Asked {
    /// Whether it exists: the attempt has ended by itself.
    Exists(ExitRecord),
    /// When it changed last: the attempt would be lost.
    Changed { record: Option<ExitRecord>, values: Result<BTreeMap<String, String>, String>, since: Timestamp },
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
                    let token = check.token;
                    let end = ask(&prober, check).await;
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
            ProcessEnd::Recorded(record) => self.begin(token, dir, record, dir.output_path()),
            ProcessEnd::Vanished => match dir.output_path() {
                Some(path) => self.judge(token, dir, None, path),
                None => Some(ProcessEnd::Vanished),
            },
            end => Some(end),
        }
    }

    /// Asks, where there is something to ask; else gives the end back.
    pub(super) fn begin(
        &self,
        token: Token,
        dir: &AttemptDir,
        record: ExitRecord,
        path: Option<String>,
    ) -> Option<ProcessEnd> {
        let Some(path) = path else { return Some(ProcessEnd::Recorded(record)) };
        match (record.kill_cause, &record.error) {
            (None, None) => self.ask(Check { token, path, of: Asked::Exists(record) }),
            (Some(KillCause::Lease | KillCause::WorkerGone), _) => self.judge(token, dir, Some(record), path),
            (_, _) => Some(ProcessEnd::Recorded(record)),
        }
    }

    /// ZMB-1: what would be lost may have done its work.
    fn judge(
        &self,
        token: Token,
        dir: &AttemptDir,
        record: Option<ExitRecord>,
        path: String,
    ) -> Option<ProcessEnd> {
        match dir.output_path_noted_at() {
            Ok(since) => {
                let values = values::read(&dir.values());
                self.ask(Check { token, path, of: Asked::Changed { record, values, since } })
            }
            Err(error) => {
                tracing::warn!(%token, %error, "when an attempt began is not known, so its output proves nothing");
                Some(as_it_is(record))
            }
        }
    }

    fn ask(&self, check: Check) -> Option<ProcessEnd> {
        let refused = self.0.send(check).err()?;
        Some(match refused.0.of {
            Asked::Exists(record) => ProcessEnd::Recorded(record),
            Asked::Changed { record, .. } => as_it_is(record),
        })
    }
}

fn as_it_is(record: Option<ExitRecord>) -> ProcessEnd {
    record.map_or(ProcessEnd::Vanished, ProcessEnd::Recorded)
}

async fn ask(prober: &Prober, Check { path, of, .. }: Check) -> ProcessEnd {
    match of {
        Asked::Exists(record) => {
            let exists = exists(prober, &path).await;
            ProcessEnd::Checked { record, path, exists }
        }
        Asked::Changed { record, values, since } => {
            let changed_at = changed_at(prober, &path).await;
            ProcessEnd::Judged { record, path, values, since, changed_at }
        }
    }
}

/// The error says why nobody knows.
async fn exists(prober: &Prober, written: &str) -> Result<bool, Arc<str>> {
    let path = parsed(prober, written)?;
    tried(|| async {
        match prober.ask(Question { path: path.clone(), mark: None }).await {
            Outcome::Present => Ok(true),
            Outcome::Absent => Ok(false),
            Outcome::Failed(failure) => Err(failure.reason),
            Outcome::Hung { tries } => Err(format!("no answer in {tries} tries")),
        }
    })
    .await
}

/// The same.
async fn changed_at(prober: &Prober, written: &str) -> Result<Option<Timestamp>, Arc<str>> {
    let path = parsed(prober, written)?;
    tried(|| prober.changed_at(&path)).await
}

fn parsed(prober: &Prober, written: &str) -> Result<Path, Arc<str>> {
    prober.path("success_check.output_path", written).map_err(|error| error.to_string().into())
}

async fn tried<T, F: Future<Output = Result<T, String>>>(ask: impl Fn() -> F) -> Result<T, Arc<str>> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let why = match ask().await {
            Ok(known) => return Ok(known),
            Err(why) => why,
        };
        match pauses.next() {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(why.into()),
        }
    }
}
