//! Which part of a role's work is this process's, as the log suggests it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_log::{Log, Topic};
use tokio::sync::watch;

use crate::Error;

/// How often the log is asked.
const EVERY: Duration = Duration::from_millis(200);

/// A part of the work, in numbers below `count`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// Which are this process's.
    pub mine: BTreeSet<u32>,
    /// Of how many; at least 1, and always the same.
    pub count: u32,
}

impl Parts {
    /// None of the work.
    #[must_use]
    pub fn none() -> Self {
        Self { mine: BTreeSet::new(), count: 1 }
    }
}

/// Follows the suggestion for a role on a thread of its own, until nobody listens.
pub struct Division {
    parts: watch::Receiver<Parts>,
    thread: JoinHandle<()>,
}

impl Division {
    /// `instance` names this process among its peers.
    ///
    /// # Errors
    /// The log does not take the process as a member, or a thread cannot be started.
    pub fn follow(log: &Arc<dyn Log>, role: &'static str, instance: &str) -> Result<Self, Error> {
        let mut membership = log.peers(role, instance).map_err(Error::Open)?;
        let count = log.partitions(Topic::Commands).max(1);
        let (tell, parts) = watch::channel(Parts { mine: BTreeSet::new(), count });
        let learn = move || {
            while !tell.is_closed() {
                let begun_at = Instant::now();
                match membership.suggested(EVERY) {
                    Ok(suggested) => {
                        let mine: BTreeSet<u32> = suggested.into_iter().collect();
                        tell.send_if_modified(|parts| {
                            let is_news = parts.mine != mine;
                            if is_news {
                                tracing::info!(
                                    role,
                                    parts = mine.len(),
                                    of = count,
                                    "takes its part of the work"
                                );
                                parts.mine = mine;
                            }
                            is_news
                        });
                    }
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(error, role, "which part of the work is whose is not known");
                    }
                }
                // Where there is nobody to divide with, the answer comes at once.
                std::thread::sleep(EVERY.saturating_sub(begun_at.elapsed()));
            }
        };
        let thread = std::thread::Builder::new().name(format!("{role}-parts")).spawn(learn);
        Ok(Self { parts, thread: thread.map_err(Error::Thread)? })
    }

    /// What it is at each time.
    #[must_use]
    pub fn parts(&self) -> watch::Receiver<Parts> {
        self.parts.clone()
    }

    /// Waits for the thread, whose listeners have to be gone.
    pub fn end(self) {
        drop(self.parts);
        if self.thread.join().is_err() {
            tracing::error!("the thread that learns which part of the work is whose panicked");
        }
    }
}
