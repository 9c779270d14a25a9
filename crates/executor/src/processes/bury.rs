//! Learns how an attempt ended whose shim is gone, and makes sure that it has.

use std::io;
use std::thread;
use std::time::Duration;

use crossbeam_channel::Sender;
use rustix::process::Signal;
use tidemill_model::Token;

use crate::Error;
use crate::attempt_dir::AttemptDir;
use crate::data_dir::Attempts;
use crate::shim;
use crate::worker::{Input, ProcessEnd};

/// Between two looks at what a killed shim left behind.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// In whose time the shim was started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    This,
    Earlier,
}

/// How the attempt ended. Its shim has to be gone. Returns only when nothing of the attempt is left.
pub(super) fn learn_end(dir: &AttemptDir, token: Token, life: Life) -> ProcessEnd {
    match try_learn_end(dir, token, life) {
        Ok(end) => end,
        Err(error) => {
            tracing::error!(%token, %error, "cannot read how an attempt ended");
            end_leftovers(token);
            ProcessEnd::Vanished
        }
    }
}

fn try_learn_end(dir: &AttemptDir, token: Token, life: Life) -> io::Result<ProcessEnd> {
    // Whoever has the lock knows that no shim does, or will do, anything here.
    let _lock = dir.lock()?;
    if let Some(record) = dir.exit_record()? {
        return Ok(ProcessEnd::Recorded(record));
    }
    if dir.mark_started()? {
        return Ok(match life {
            Life::This => ProcessEnd::NotStarted("its shim ended before it was started".to_owned()),
            Life::Earlier => ProcessEnd::Abandoned,
        });
    }
    end_leftovers(token);
    Ok(ProcessEnd::Vanished)
}

/// The shim was killed, so what it watched over is found by the token in its environment. A process that has
/// put on another environment is not found: that is the weakness of having no cgroup.
fn end_leftovers(token: Token) {
    while shim::signal_by_token(&token.to_string(), &[Signal::KILL]) > 0 {
        thread::sleep(LOOK_AGAIN);
    }
}

/// The attempts of an earlier life. Of those whose shim is still ending them, the end is told later.
pub(crate) fn find_earlier(attempts: &Attempts, inputs: &Sender<Vec<Input>>) -> Result<Vec<Input>, Error> {
    let mut found = Vec::new();
    for token in attempts.all_open()? {
        let dir = attempts.open(token);
        let is_busy = dir.try_lock().is_ok_and(|lock| lock.is_none());
        if !is_busy {
            let end = Some(learn_end(&dir, token, Life::Earlier));
            found.push(Input::Found { token, end });
            continue;
        }
        found.push(Input::Found { token, end: None });
        let inputs = inputs.clone();
        // At most one for each slot of the earlier life.
        thread::Builder::new()
            .name("await-shim".to_owned())
            .spawn(move || {
                let end = learn_end(&dir, token, Life::Earlier);
                let _ = inputs.send(vec![Input::ProcessEnded { token, end }]);
            })
            .map_err(|source| Error::Start { what: "a thread that waits for a shim", source })?;
    }
    Ok(found)
}
