//! One thread that hears from all shims.

use std::io::{PipeReader, Read};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::Sender;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use tidemill_model::Token;

use super::table::Running;
use super::{Job, Shared};
use crate::Error;
use crate::shim::STARTED;
use crate::worker::Input;

/// Stands in for a token: the worker is at its end. Tokens are positive.
const STOP: u64 = u64::MAX;

enum News {
    Nothing,
    Runs,
    Gone,
}

pub(super) fn start(
    shared: Arc<Shared>,
    stopped: PipeReader,
    jobs: Sender<Job>,
) -> Result<JoinHandle<()>, Error> {
    let failed = |source| Error::Start { what: "the thread that waits for processes", source };
    epoll::add(&shared.epoll, &stopped, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN)
        .map_err(|error| failed(error.into()))?;
    let wait = move || {
        let _stopped = stopped;
        hear_all(&shared, &jobs);
    };
    thread::Builder::new().name("reap".to_owned()).spawn(wait).map_err(failed)
}

fn hear_all(shared: &Shared, jobs: &Sender<Job>) {
    let mut events = Vec::with_capacity(256);
    loop {
        match epoll::wait(&shared.epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("waiting for processes cannot fail: {error}"),
        }
        for event in events.drain(..) {
            let epoll::Event { data, .. } = event;
            if data.u64() == STOP {
                return;
            }
            let token = Token(i64::try_from(data.u64()).expect("it was made from a token"));
            match shared.table.hear(token, read) {
                None | Some(News::Nothing) => {}
                Some(News::Runs) => shared.tell(Input::ProcessStarted { token }),
                Some(News::Gone) => bury(shared, jobs, token),
            }
        }
    }
}

fn read(running: &mut Running) -> News {
    let mut said = [0; 16];
    match running.news.read(&mut said) {
        Ok(0) => News::Gone,
        Ok(count) if said[..count].contains(&STARTED) => News::Runs,
        Ok(_) => News::Nothing,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => News::Nothing,
        Err(_) => News::Gone,
    }
}

fn bury(shared: &Shared, jobs: &Sender<Job>, token: Token) {
    if let Some(mut running) = shared.table.remove(token) {
        // Closing is not enough: a process that is just being started shares the pipe until its exec.
        if let Err(error) = epoll::delete(&shared.epoll, &running.news) {
            tracing::error!(%token, %error, "cannot stop listening to a shim");
        }
        // It has closed its output, which it does by ending.
        if let Err(error) = running.child.wait() {
            tracing::warn!(%token, %error, "cannot wait for a shim");
        }
        let _ = jobs.send(Job::Bury { token });
    }
}
