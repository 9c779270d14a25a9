//! Looks at paths for the worker, on a thread of its own, so that a name node that hangs holds nothing up but the
//! batches that need it.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use tidemill_model::{ExternalDependencyId, PathCheck, Token};
use tidemill_probe::{Mark, Outcome, Prober, Question};
use tokio::sync::mpsc;

use crate::thread::Thread;
use crate::worker::{Input, LOOK_WITHIN_MS, Looked};
use crate::{Config, Error};

/// The thread that looks.
pub(crate) struct Looks {
    requests: mpsc::UnboundedSender<(Token, Vec<PathCheck>)>,
    thread: Thread,
}

impl Looks {
    /// What it finds goes to `inputs`.
    pub(crate) fn start(config: &Config, inputs: Sender<Input>) -> Result<Self, Error> {
        let prober = Prober::new(config.probe.clone()).map_err(Error::probe)?;
        // Never more than the worker was assigned, which is bounded by its slots.
        let (requests, requested) = mpsc::unbounded_channel();
        let look = serve(prober, requested, inputs);
        Ok(Self { requests, thread: Thread::start_async("look", "the thread that looks at paths", look)? })
    }

    pub(crate) fn look(&self, token: Token, checks: Vec<PathCheck>) {
        if self.requests.send((token, checks)).is_err() {
            tracing::error!(%token, "the thread that looks at paths is gone");
        }
    }

    /// Gives up what is under way.
    pub(crate) fn stop(self) {
        drop(self.requests);
        self.thread.join();
    }
}

async fn serve(
    prober: Prober,
    mut requested: mpsc::UnboundedReceiver<(Token, Vec<PathCheck>)>,
    inputs: Sender<Input>,
) {
    let mut looks = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            request = requested.recv() => match request {
                Some((token, checks)) => {
                    let prober = prober.clone();
                    looks.spawn(async move { (token, bounded(&prober, checks).await) });
                }
                None => return,
            },
            Some(looked) = looks.join_next() => {
                // One that panicked is given back when its time is over.
                let Ok((token, looked)) = looked else { continue };
                if inputs.send(Input::Looked { token, looked }).is_err() {
                    return;
                }
            }
        }
    }
}

async fn bounded(prober: &Prober, checks: Vec<PathCheck>) -> Looked {
    let within = Duration::from_millis(LOOK_WITHIN_MS);
    let looked = tokio::time::timeout(within, all(prober, checks)).await;
    looked.unwrap_or_else(|_| Looked::Unknown(format!("no answer within {} s", LOOK_WITHIN_MS / 1_000)))
}

/// All paths of one batch at once. One that is gone counts for more than one of which nobody knows.
async fn all(prober: &Prober, checks: Vec<PathCheck>) -> Looked {
    let mut asked: Vec<(Question, ExternalDependencyId)> = Vec::with_capacity(checks.len());
    for check in &checks {
        match question(prober, check) {
            Ok(question) => asked.push((question, check.external_dependency)),
            Err(reason) => return Looked::Unknown(reason),
        }
    }
    let (mut gone, mut unknown) = (Vec::new(), None);
    let mut answers = prober.probe(asked.iter().map(|(question, _)| question.clone()));
    while let Some(answer) = answers.next().await {
        match answer.outcome {
            Outcome::Present => {}
            Outcome::Absent => {
                let same = asked.iter().filter(|(question, _)| *question == answer.question);
                gone.extend(same.map(|(_, external_dependency)| *external_dependency));
            }
            Outcome::Failed(failure) => unknown = Some(format!("{}: {}", answer.question, failure.reason)),
            Outcome::Hung { .. } => unknown = Some(format!("{}: no answer", answer.question)),
        }
    }
    match unknown {
        _ if !gone.is_empty() => Looked::Gone(gone),
        Some(reason) => Looked::Unknown(reason),
        None => Looked::There,
    }
}

fn question(prober: &Prober, check: &PathCheck) -> Result<Question, String> {
    let refused = |error: tidemill_model::FieldError| error.to_string();
    let path = prober.path("path", &check.path).map_err(refused)?;
    let mark = check.mark.as_ref().map(|mark: &Arc<str>| Mark::try_from(mark.to_string())).transpose();
    Ok(Question { path, mark: mark.map_err(refused)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(number: i64, path: &std::path::Path, mark: Option<&str>) -> PathCheck {
        let (path, mark) = (path.to_str().unwrap().into(), mark.map(Arc::from));
        PathCheck { external_dependency: ExternalDependencyId(number), path, mark }
    }

    /// DEP-6: real files; one that is gone is named by its external dependency, and a path that cannot be asked about is told.
    #[tokio::test]
    async fn what_is_gone_is_named_and_what_cannot_be_told_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let (data, empty) = (directory.path().join("data"), directory.path().join("empty"));
        std::fs::create_dir(&data).unwrap();
        std::fs::create_dir(&empty).unwrap();
        std::fs::write(data.join("_SUCCESS"), "").unwrap();
        let prober = Prober::new(tidemill_probe::Config::default()).unwrap();
        let marked = |number, path| check(number, path, Some("_SUCCESS"));
        let there = vec![marked(1, &data), check(2, &empty, None)];
        assert_eq!(bounded(&prober, there.clone()).await, Looked::There);
        let gone = [there, vec![marked(3, &empty), check(4, &directory.path().join("none"), None)]].concat();
        let Looked::Gone(mut gone) = bounded(&prober, gone).await else { panic!() };
        gone.sort();
        assert_eq!(gone, [ExternalDependencyId(3), ExternalDependencyId(4)]);
        let Looked::Unknown(why) = bounded(&prober, vec![check(5, "relative".as_ref(), None)]).await else {
            panic!()
        };
        assert!(why.contains("has to begin with"), "{why}");
    }
}
