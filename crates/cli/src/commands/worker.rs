//! `tidemill worker …`.

use tidemill_client::segment;

use super::{Session, write};
use crate::args::WorkerCommand;
use crate::exit::Exit;
use crate::failure::Done;
use crate::server::Query;

/// Most rows of the list.
const LIMIT: usize = 10_000;

const WORKERS: &str = "id, group, state, host, address, slots, drained, REGISTERED: registered_at";

pub(super) fn run(session: &Session<'_>, command: WorkerCommand) -> Done<Exit> {
    let of = |worker: &str| format!("/api/workers/{}", segment(worker));
    let act = |worker: &str, verb: &str, done: &str| {
        write::post(session, &format!("{}/{verb}", of(worker)), None, format!("Worker {worker} {done}."))
    };
    match command {
        WorkerCommand::Ls => {
            let answer = session.server.list("/api/workers", &Query::new(), LIMIT)?;
            session.show_list(&answer, WORKERS, "No workers. Start one with `tidemill executor`.")
        }
        WorkerCommand::Show { worker } => session.show_fields(&of(&worker)),
        WorkerCommand::Drain { worker } => act(&worker, "drain", "takes no new work"),
        WorkerCommand::Resume { worker } => act(&worker, "resume", "takes work again"),
    }
}
