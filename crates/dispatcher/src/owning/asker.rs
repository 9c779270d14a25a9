//! Asks the log how far it goes.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use tidemill_log::{Log, Topic};

use crate::owner::Input;
use crate::{Error, Moment};

/// Until the log is asked again for the ends that it could not tell.
const ENDS_AGAIN: Duration = Duration::from_millis(500);

/// A thread that asks the log for both ends, since that may take a round trip. Ends when dropped.
pub(super) struct Asker {
    pub(super) asks: Sender<Moment>,
    pub(super) ends: Receiver<Input>,
    thread: Option<JoinHandle<()>>,
}

impl Asker {
    pub(super) fn start(log: Arc<dyn Log>, partition: u32) -> Result<Self, Error> {
        let (asks, questions) = bounded::<Moment>(1);
        let (answers, answered) = bounded(1);
        let ask = move || {
            for asked in &questions {
                let ends = loop {
                    match ends(log.as_ref(), partition, asked) {
                        Ok(ends) => break ends,
                        Err(error) => tracing::warn!(partition, %error, "the log does not tell its ends"),
                    }
                    if questions.recv_timeout(ENDS_AGAIN).is_err_and(|error| error.is_disconnected()) {
                        return;
                    }
                };
                if answers.send(ends).is_err() {
                    return;
                }
            }
        };
        let name = format!("ends-{partition}");
        let thread = thread::Builder::new().name(name).spawn(ask).map_err(Error::Thread)?;
        Ok(Self { asks, ends: answered, thread: Some(thread) })
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.asks = bounded(0).0;
        self.ends = bounded(0).1;
        if let Some(thread) = self.thread.take() {
            // One that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

fn ends(log: &dyn Log, partition: u32, asked: Moment) -> Result<Input, tidemill_log::Error> {
    let journal = log.range(Topic::Journal, partition)?.end;
    let commands = log.range(Topic::Commands, partition)?.end;
    Ok(Input::Ends { asked, journal, commands })
}
