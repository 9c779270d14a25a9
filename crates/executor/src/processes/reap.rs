//! One thread that hears from all shims.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crossbeam_channel::Sender;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use tidemill_model::Token;

use super::reap_orphan::Life;
use super::table::Running;
use super::{Job, Shared, notes};
use crate::Error;
use crate::shim::News;
use crate::thread::{Thread, not_started};
use crate::worker::Input;

const WHAT: &str = "the thread that waits for processes";
/// Stands in for a token: the worker is at its end. Tokens are positive.
const STOP: u64 = u64::MAX;

/// What a shim has said, and whether its end of the socket is closed.
struct Said {
    news: Vec<News>,
    is_gone: bool,
    /// Of one that has ended.
    output_path: Option<String>,
}

pub(super) fn start(shared: Arc<Shared>, stopped: UnixStream, jobs: Sender<Job>) -> Result<Thread, Error> {
    epoll::add(&shared.epoll, &stopped, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN)
        .map_err(|error| not_started(WHAT)(error.into()))?;
    let wait = move || {
        let _stopped = stopped;
        hear_all(&shared, &jobs);
    };
    Thread::start("reap", WHAT, wait)
}

fn hear_all(shared: &Shared, jobs: &Sender<Job>) {
    let mut events = Vec::with_capacity(256);
    loop {
        match epoll::wait(&shared.epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("waiting for processes cannot fail: {error}"),
        }
        let mut inputs = Vec::new();
        for event in events.drain(..) {
            let epoll::Event { data, .. } = event;
            if data.u64() == STOP {
                return;
            }
            let token = Token(i64::try_from(data.u64()).expect("it was made from a token"));
            if let Some(said) = shared.table.hear(token, read) {
                tell(shared, jobs, token, said, &mut inputs);
            }
        }
        if !inputs.is_empty() {
            shared.tell(inputs);
        }
    }
}

fn read(running: &mut Running) -> Said {
    let mut chunk = [0; 1024];
    let is_gone = match running.socket.read(&mut chunk) {
        Ok(0) => true,
        Ok(count) => {
            running.said.extend_from_slice(&chunk[..count]);
            false
        }
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    };
    let news = News::take(&mut running.said);
    let has_ended = news.iter().any(|news| matches!(news, News::Ended(_)));
    let output_path = if has_ended { running.output_path.take() } else { None };
    Said { news, is_gone, output_path }
}

fn tell(shared: &Shared, jobs: &Sender<Job>, token: Token, said: Said, inputs: &mut Vec<Input>) {
    for news in said.news {
        match news {
            News::Started => inputs.push(Input::ProcessStarted { token }),
            News::Exceeded(excess) => inputs.push(Input::Exceeded { token, excess }),
            News::Stuck(process) => inputs.push(Input::Stuck { token, process }),
            News::ExternalWork(ids) => inputs.push(Input::ExternalWorkFound { token, ids }),
            News::Located(located) => shared.table.locate(token, located),
            // It says so when its tree is empty and `exit.json` is there, and has nothing left to do.
            News::Ended(record) => {
                shared.table.remove(token);
                if notes::has_of_end(&record) {
                    let (at, output_path) = (notes::now(), said.output_path);
                    let _ = jobs.send(Job::NoteEnd { token, at, record, output_path });
                    return;
                }
                let dir = shared.setup.attempts.open(token);
                let end = shared.setup.checks.begin(token, &dir, *record, said.output_path);
                return inputs.extend(end.map(|end| Input::ProcessEnded { token, end }));
            }
        }
    }
    if said.is_gone {
        shared.table.remove(token);
        let _ = jobs.send(Job::ReapOrphan { token, life: Life::This });
    }
}
