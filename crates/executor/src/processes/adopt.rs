//! EXE-10: attempts of an earlier life of the worker: those that run on are taken over, of the others it is learned how they
//! ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use tidemill_model::Token;

use super::reap_orphan::{Life, Remains};
use super::table::{Running, Unwatched};
use super::{Checks, Job, Shared};
use crate::Error;
use crate::data_dir::DataDir;
use crate::thread::Thread;
use crate::worker::Input;

/// Between two rounds. A shim opens its door when it notices that its worker is gone.
const AGAIN: Duration = Duration::from_millis(20);

/// What was found in the directory of attempts.
#[derive(Default)]
pub(crate) struct Earlier {
    /// For the worker to begin with.
    pub(crate) found: Vec<Input>,
    /// Whose shims live.
    pub(crate) live: Vec<Token>,
}

/// The attempts of an earlier life.
pub(crate) fn find_earlier(data: &DataDir, checks: &Checks) -> Result<Earlier, Error> {
    let mut earlier = Earlier::default();
    for token in data.attempts.all_open()? {
        let remains = Remains { dir: data.attempts.open(token), worker: data.worker.clone(), token };
        let is_live = remains.dir.try_lock().is_ok_and(|lock| lock.is_none());
        let end = match is_live {
            true => {
                earlier.live.push(token);
                None
            }
            false => checks.conclude(token, &remains.dir, remains.learn_end(Life::Earlier)),
        };
        earlier.found.push(Input::Found { token, end });
    }
    Ok(earlier)
}

/// Takes over the attempts whose shims live. Orders to them are kept until they hear.
pub(super) fn start(shared: Arc<Shared>, live: Vec<Token>, jobs: Sender<Job>) -> Result<Thread, Error> {
    live.iter().for_each(|token| shared.table.begin(*token));
    let adopt = move || {
        let (all, mut left) = (live.len(), live);
        while !left.is_empty() && !shared.table.is_closed() {
            left.retain(|token| !shared.adopt(*token, &jobs));
            if !left.is_empty() {
                std::thread::sleep(AGAIN);
            }
        }
        if all > 0 {
            tracing::info!(all, left = left.len(), "attempts of the worker's earlier life are taken over");
        }
    };
    Thread::start("adopt", "the thread that takes over attempts", adopt)
}

impl Shared {
    /// Whether there is nothing left to try.
    fn adopt(&self, token: Token, jobs: &Sender<Job>) -> bool {
        let dir = self.setup.attempts.open(token);
        let socket = match dir.knock() {
            Ok(socket) => socket,
            Err(error) => {
                let is_gone = dir.try_lock().is_ok_and(|lock| lock.is_some());
                if is_gone {
                    self.table.remove(token);
                    let _ = jobs.send(Job::ReapOrphan { token, life: Life::Earlier });
                } else if error.kind() != io::ErrorKind::NotFound {
                    tracing::debug!(%token, %error, "a shim is not reached yet");
                }
                return is_gone;
            }
        };
        let running = Running { socket, said: Vec::new(), output_path: dir.output_path() };
        match self.watch(token, running) {
            Ok(()) | Err((_, Unwatched::NotWanted)) => {}
            Err((running, Unwatched::Failed)) => self.end_unwatched(token, running),
        }
        true
    }
}
