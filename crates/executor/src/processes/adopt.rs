//! EXE-10: attempts of an earlier life of the worker: those that run on are taken over, of the others it is learned how they
//! ended.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use tidemill_model::{JobType, Token};

use super::reap_orphan::{Life, Remains};
use super::table::{Running, Unwatched};
use super::{Checks, Job, Shared, notes};
use crate::data_dir::DataDir;
use crate::limits::Tree;
use crate::thread::Thread;
use crate::worker::{Input, ProcessEnd};
use crate::{Error, TypeConfig, environment, shim};

/// Between two rounds. A shim listens once it notices that its worker is gone.
const AGAIN: Duration = Duration::from_millis(20);
/// The same after a while: it has no room, or is stopped.
const LATER: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(5);

/// What was found in the directory of attempts.
#[derive(Default)]
pub(crate) struct Earlier {
    /// For the worker to begin with.
    pub(crate) found: Vec<Input>,
    /// Whose shims live.
    pub(crate) live: Vec<Token>,
}

/// The attempts of an earlier life.
pub(crate) fn find_earlier(
    data: &DataDir,
    types: &BTreeMap<JobType, TypeConfig>,
    checks: &Checks,
    groups: &Tree,
) -> Result<Earlier, Error> {
    let mut earlier = Earlier::default();
    let tokens = data.attempts.all_open()?.into_iter().chain(without_directory(data));
    for token in tokens.collect::<BTreeSet<_>>() {
        let (dir, worker, groups) = (data.attempts.open(token), data.worker.clone(), groups.clone());
        let remains = Remains { dir, worker, token, groups };
        let mut reported = None;
        let end = match remains.dir.try_lock() {
            Ok(None) => {
                earlier.live.push(token);
                None
            }
            Ok(Some(lock)) => match remains.learn_end_under(Ok(lock), Life::Earlier) {
                Some(end) => {
                    notes::add_end(&remains.dir, &end);
                    reported =
                        matches!(end, ProcessEnd::Vanished).then(|| remains.reported_work(types)).flatten();
                    checks.conclude(token, &remains.dir, end)
                }
                None => {
                    earlier.live.push(token);
                    None
                }
            },
            Err(error) if is_gone(&error) => {
                let end = remains.learn_end_under(Err(error), Life::Earlier);
                earlier.live.extend(end.is_none().then_some(token));
                end
            }
            // Whether its shim lives cannot be told yet: it is asked again.
            Err(error) => {
                tracing::warn!(%token, %error, "cannot look at an attempt of the worker's earlier life");
                earlier.live.push(token);
                None
            }
        };
        let of = if end.is_none() { remains.dir.noted_run(token) } else { None };
        earlier.found.push(Input::Found { token, of, end });
        earlier.found.extend(reported);
    }
    Ok(earlier)
}

/// EXE-8: attempts that run, and whose directory somebody has moved or removed: the owner hears of each that it is lost, and may start
/// another one.
fn without_directory(data: &DataDir) -> impl Iterator<Item = Token> {
    let marked = shim::marked_below_shims(&environment::mark(&data.worker), environment::TOKEN_MARK);
    let tokens = marked.into_iter().filter_map(|token| token.parse::<Token>().ok());
    tokens.filter(|token| data.attempts.find(*token).is_none())
}

/// Takes over the attempts whose shims live. Orders to them are kept until they hear.
pub(super) fn start(shared: Arc<Shared>, live: Vec<Token>, jobs: Sender<Job>) -> Result<Thread, Error> {
    live.iter().for_each(|token| shared.table.begin(*token));
    let adopt = move || {
        let (all, begun_at, mut left) = (live.len(), Instant::now(), live);
        while !left.is_empty() && !shared.table.is_closed() {
            left.retain(|token| !shared.adopt(*token, &jobs));
            if !left.is_empty() {
                std::thread::sleep(if begun_at.elapsed() < SOON { AGAIN } else { LATER });
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
        let socket = match dir.connect_to_shim() {
            Ok(socket) => socket,
            Err(_) => {
                let is_over = match dir.try_lock() {
                    Ok(lock) => lock.is_some(),
                    Err(error) => is_gone(&error),
                };
                if is_over {
                    self.table.remove(token);
                    let _ = jobs.send(Job::ReapOrphan { token, life: Life::Earlier });
                }
                return is_over;
            }
        };
        let running = Running::new(socket, dir.output_path());
        match self.watch(token, running) {
            Ok(()) => {
                notes::add(&dir, notes::now(), &[notes::TAKEN_OVER.to_owned()]);
                true
            }
            Err((_, Unwatched::NotWanted)) => true,
            // Its shim listens again.
            Err((_, Unwatched::Failed)) => false,
        }
    }
}

/// Whether nothing is where a directory was: a job of the worker's own account can remove it, or put something in its place.
fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}
