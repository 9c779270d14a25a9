//! File systems of this host.
//!
//! A look at a dead network mount blocks its thread in the kernel, perhaps for ever, and cannot be taken back.
//! So looks run on threads of their own, as many as the mount's bound, which nobody waits for at the end of the
//! process; and a path whose last look still hangs is not looked at again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use std::{fs, io};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidemill_model::Timestamp;
use tokio::sync::oneshot;

use super::{Backend, Fault, Found, LOOKED_AT_BELOW, Target, of_millisecond, one_line};

/// Looks that wait for a thread; more are refused until one is free again.
const WAITING: usize = 4_096;

/// What a look comes down to: `stat`, or what a test puts in its place.
pub type Stat = dyn Fn(&str) -> io::Result<()> + Send + Sync;

/// File systems of this host, or one of its mounts.
pub struct LocalBackend {
    jobs: Sender<Job>,
    stat: Arc<Stat>,
    hanging: Arc<Mutex<HashMap<Target, Arc<AtomicBool>>>>,
}

struct Job {
    done: Arc<AtomicBool>,
    look: Box<dyn FnOnce() + Send>,
}

impl LocalBackend {
    /// With this many threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self::with_stat(threads, Arc::new(|path| fs::metadata(path).map(drop)))
    }

    /// With another way to look: `Ok` is there, `NotFound` is not.
    #[must_use]
    pub fn with_stat(threads: usize, stat: Arc<Stat>) -> Self {
        let (jobs, queue) = bounded(WAITING);
        for number in 0..threads.max(1) {
            let queue = queue.clone();
            let name = format!("probe-local-{number}");
            if let Err(error) = std::thread::Builder::new().name(name).spawn(move || serve(&queue)) {
                tracing::warn!(%error, number, "a thread that looks at local paths could not be started");
            }
        }
        Self { jobs, stat, hanging: Arc::default() }
    }

    /// Looks that were abandoned and have not come back yet; each holds a thread or a place in the queue.
    #[must_use]
    pub fn hanging(&self) -> usize {
        let mut hanging = self.hanging.lock().unwrap_or_else(PoisonError::into_inner);
        hanging.retain(|_, done| !done.load(Ordering::Acquire));
        hanging.len()
    }
}

/// One thread: until the back end is dropped.
fn serve(queue: &Receiver<Job>) {
    for job in queue {
        (job.look)();
        job.done.store(true, Ordering::Release);
    }
}

/// The newest of a path and, of a directory, what stands right below it.
fn changed_at(path: &str) -> io::Result<SystemTime> {
    let metadata = fs::metadata(path)?;
    let mut newest = metadata.modified()?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)?.take(LOOKED_AT_BELOW).filter_map(Result::ok) {
            // One that was removed meanwhile says nothing.
            newest = entry.metadata().and_then(|entry| entry.modified()).map_or(newest, |at| newest.max(at));
        }
    }
    Ok(newest)
}

/// `None` where nothing is there.
fn found<T>(result: io::Result<T>) -> Result<Option<T>, Fault> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidFilename => Err(Fault::Refused(one_line(&error))),
            _ => Err(Fault::Unavailable(one_line(&error))),
        },
    }
}

/// Notes a look that was abandoned before it came back.
struct Abandoned {
    target: Target,
    done: Arc<AtomicBool>,
    hanging: Arc<Mutex<HashMap<Target, Arc<AtomicBool>>>>,
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if !self.done.load(Ordering::Acquire) {
            let mut hanging = self.hanging.lock().unwrap_or_else(PoisonError::into_inner);
            hanging.insert(self.target.clone(), Arc::clone(&self.done));
        }
    }
}

impl LocalBackend {
    /// Looks on a thread of the mount, unless the last look at the same target still hangs.
    fn begin<T: Send + 'static>(
        &self,
        target: Target,
        look: impl FnOnce() -> Result<T, Fault> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Fault>> {
        let mut hanging = self.hanging.lock().unwrap_or_else(PoisonError::into_inner);
        match hanging.get(&target) {
            Some(done) if !done.load(Ordering::Acquire) => {
                return std::future::ready(Err(Fault::StillHangs)).boxed();
            }
            Some(_) => drop(hanging.remove(&target)),
            None => {}
        }
        drop(hanging);
        let done = Arc::new(AtomicBool::new(false));
        let (answer, receiver) = oneshot::channel();
        let look = Box::new(move || {
            if !answer.is_closed() {
                // Whoever asked may have given up meanwhile.
                let _ = answer.send(look());
            }
        });
        let job = Job { done: Arc::clone(&done), look };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.jobs.try_send(job) {
            let reason = "all threads that look at this mount hang".to_owned();
            return std::future::ready(Err(Fault::Unavailable(reason))).boxed();
        }
        let abandoned = Abandoned { target, done, hanging: Arc::clone(&self.hanging) };
        async move {
            let result = receiver.await;
            abandoned.done.store(true, Ordering::Release);
            result
                .unwrap_or_else(|_| Err(Fault::Unavailable("the thread that looked at it ended".to_owned())))
        }
        .boxed()
    }
}

impl Backend for LocalBackend {
    fn look(&self, target: Target) -> BoxFuture<'static, Result<Found, Fault>> {
        let (stat, path) = (Arc::clone(&self.stat), target.inside.clone());
        self.begin(target, move || {
            found(stat(&path)).map(|found| Found { present: found.is_some(), calls: 1 })
        })
    }

    fn changed_at(&self, inside: &str) -> BoxFuture<'static, Result<Option<Timestamp>, Fault>> {
        let path = inside.to_owned();
        self.begin(Target { inside: path.clone(), mark: false }, move || {
            let newest = found(changed_at(&path))?;
            let since = newest.map(|at| at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
            since.map(|since| of_millisecond(since.as_millis())).transpose()
        })
    }

    fn retries_hung(&self) -> bool {
        false
    }
}
