//! `tidemill worker …`.

use tidemill_client::segment;

use super::Session;
use crate::args::WorkerCommand;
use crate::exit::Exit;
use crate::failure::Done;
use crate::render::{self, Column};
use crate::server::Query;

/// Most rows of the list.
const LIMIT: usize = 10_000;

const WORKERS: &[Column] = &[
    Column("ID", &["/id"]),
    Column("GROUP", &["/group"]),
    Column("STATE", &["/state"]),
    Column("HOST", &["/host"]),
    Column("ADDRESS", &["/address"]),
    Column("SLOTS", &["/slots"]),
    Column("DRAINED", &["/drained"]),
    Column("REGISTERED", &["/registered_at"]),
];

pub(super) fn run(session: &Session<'_>, command: WorkerCommand) -> Done<Exit> {
    let act = |worker: &str, verb: &str, done: &str| {
        let answer = session.server.post(&format!("/api/workers/{}/{verb}", segment(worker)), None)?;
        Ok(session.show(&answer, |_| format!("Worker {worker} {done}.")))
    };
    match command {
        WorkerCommand::Ls => {
            let answer = session.server.list("/api/workers", &Query::new(), LIMIT)?;
            let nothing = "No workers. Start one with `tidemill executor`.";
            Ok(session.show(&answer, |answer| render::list(answer, WORKERS, nothing)))
        }
        WorkerCommand::Show { worker } => {
            let answer = session.server.get(&format!("/api/workers/{}", segment(&worker)), &[])?;
            Ok(session.show(&answer, |worker| render::fields(worker, &[])))
        }
        WorkerCommand::Drain { worker } => act(&worker, "drain", "takes no new work"),
        WorkerCommand::Resume { worker } => act(&worker, "resume", "takes work again"),
    }
}
