//! File systems of this host.
//!
//! A look at a dead network mount blocks its thread in the kernel, perhaps for ever, and cannot be taken back.
//! So looks run on threads of their own, as many as the mount's bound, which nobody waits for at the end of the
//! process; and a path whose last look still hangs is not looked at again.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::{Backend, Fault, Found, Target, one_line};

/// Looks that wait for a thread; more are refused until one is free again.
const WAITING: usize = 4_096;

/// What a look comes down to: `stat`, or what a test puts in its place.
pub type Stat = dyn Fn(&str) -> io::Result<()> + Send + Sync;

/// File systems of this host, or one of its mounts.
pub struct LocalBackend {
    jobs: Sender<Job>,
    hanging: Arc<Mutex<HashMap<Target, Arc<AtomicBool>>>>,
}

struct Job {
    target: Target,
    done: Arc<AtomicBool>,
    answer: oneshot::Sender<Result<Found, Fault>>,
}

impl LocalBackend {
    /// With this many threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self::with_stat(threads, Arc::new(|path| std::fs::metadata(path).map(drop)))
    }

    /// With another way to look: `Ok` is there, `NotFound` is not.
    #[must_use]
    pub fn with_stat(threads: usize, stat: Arc<Stat>) -> Self {
        let (jobs, queue) = bounded(WAITING);
        for number in 0..threads.max(1) {
            let (queue, stat) = (queue.clone(), Arc::clone(&stat));
            let name = format!("probe-local-{number}");
            if let Err(error) = std::thread::Builder::new().name(name).spawn(move || serve(&queue, &*stat)) {
                tracing::warn!(%error, number, "a thread that looks at local paths could not be started");
            }
        }
        Self { jobs, hanging: Arc::default() }
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
fn serve(queue: &Receiver<Job>, stat: &Stat) {
    for job in queue {
        if !job.answer.is_closed() {
            let found = outcome(stat(&job.target.inside));
            // Whoever asked may have given up meanwhile.
            let _ = job.answer.send(found);
        }
        job.done.store(true, Ordering::Release);
    }
}

fn outcome(result: io::Result<()>) -> Result<Found, Fault> {
    match result {
        Ok(()) => Ok(Found { present: true, calls: 1 }),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(Found { present: false, calls: 1 }),
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

impl Backend for LocalBackend {
    fn look(&self, target: Target) -> BoxFuture<'static, Result<Found, Fault>> {
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
        let job = Job { target: target.clone(), done: Arc::clone(&done), answer };
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

    fn retries_hung(&self) -> bool {
        false
    }
}
