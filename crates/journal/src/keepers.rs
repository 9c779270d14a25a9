//! Threads that keep sessions going: one for each partition of a role, or of a sink.

use std::io;
use std::thread::{self, JoinHandle};

use crate::{Session, Shutdown, keep};

/// Threads of one role, each of which keeps a session going ([`keep`]). They stop by one request, or each by an error
/// that beginning anew does not fix; the others go on then.
pub struct Keepers<E> {
    shutdown: Shutdown,
    threads: Vec<JoinHandle<Result<(), E>>>,
}

impl<E: std::error::Error + Send + 'static> Keepers<E> {
    /// No thread yet; those to come end when `shutdown` is requested.
    #[must_use]
    pub fn new(shutdown: &Shutdown) -> Self {
        Self { shutdown: shutdown.clone(), threads: Vec::new() }
    }

    /// Keeps a session going on a thread of its own.
    ///
    /// # Errors
    /// The thread cannot be started. Then shutdown is requested, and the threads before it have ended.
    pub fn start<S>(&mut self, name: String, mut session: S) -> io::Result<()>
    where
        S: Session<Error = E> + Send + 'static,
    {
        let shutdown = self.shutdown.clone();
        let spawned = thread::Builder::new().name(name).spawn(move || keep(&mut session, &shutdown));
        match spawned {
            Ok(thread) => {
                self.threads.push(thread);
                Ok(())
            }
            Err(error) => {
                self.shutdown.request();
                self.threads.drain(..).for_each(|thread| drop(thread.join()));
                Err(error)
            }
        }
    }

    /// Waits until all of them have ended.
    ///
    /// # Errors
    /// That of the first thread, in the order of their start, that ended with one.
    ///
    /// # Panics
    /// Where a session panicked, with what it panicked with.
    pub fn join(self) -> Result<(), E> {
        let mut outcome = Ok(());
        for thread in self.threads {
            match thread.join() {
                Ok(ended) => outcome = outcome.and(ended),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

    use super::*;

    /// Ends at once with this error, or at shutdown without one.
    struct Ending(Option<&'static str>, Shutdown);

    impl Session for Ending {
        type Error = io::Error;

        fn run(&mut self, _: &mut bool) -> io::Result<()> {
            match self.0 {
                Some(reason) => Err(io::Error::other(reason)),
                None => {
                    self.1.wait(std::time::Duration::from_secs(60));
                    Ok(())
                }
            }
        }

        fn failed(&mut self, _: &io::Error, _: &str) -> bool {
            false
        }

        fn tell_held_up(&self, _: &str) {}

        fn tell_stopped(&self, _: &str) {
            // Whoever ends by an error asks nobody else to stop; the test does, once there is one.
            self.1.request();
        }
    }

    #[test]
    fn all_are_waited_for_and_the_first_error_is_told() {
        let shutdown = Shutdown::new();
        let mut keepers = Keepers::new(&shutdown);
        for ending in [None, Some("one"), Some("two")] {
            keepers.start("keeper".to_owned(), Ending(ending, shutdown.clone())).unwrap();
        }
        assert_eq!(keepers.join().unwrap_err().to_string(), "one");
    }
}
