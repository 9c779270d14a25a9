//! What each command does: it makes public calls and shows the answers.

mod batch;
mod bulk;
mod calendar;
mod dead_letter;
mod events;
mod external_dependencies;
mod freeze;
mod group;
mod job;
mod key;
mod named;
mod pool;
mod pull;
mod rerun;
mod status;
mod wait;
mod why;
mod worker;
mod write;

pub use job::apply_jobs;

use crate::args::{Command, EventsCommand, Global, JobCommand, PartitionCommand};
use crate::exit::Exit;
use crate::failure::Done;
use crate::host::Host;
use crate::session::Session;

/// Does what the command line says.
pub(crate) fn run(host: &dyn Host, global: &Global, command: Command) -> Done<Exit> {
    if let Command::Job(JobCommand::Validate { paths }) = &command {
        return job::validate::run(host, global.output, paths);
    }
    let session = &Session::new(host, global)?;
    match command {
        Command::Job(command) => job::run(session, command),
        Command::Batch(command) => batch::run(session, command),
        Command::Bulk(command) => bulk::run(session, command),
        Command::Pool(command) => pool::run(session, command),
        Command::Pull(command) => pull::run(session, command),
        Command::Calendar(command) => calendar::run(session, command),
        Command::ThirdParty(command) => external_dependencies::third_party(session, command),
        Command::Probe(command) => external_dependencies::probe(session, &command),
        Command::Rerun(command) => rerun::run(session, command),
        Command::ColdStart(args) => rerun::cold_start(session, &args),
        Command::Worker(command) => worker::run(session, command),
        Command::Group(command) => group::run(session, command),
        Command::Freeze(command) => freeze::run(session, command),
        Command::Key(command) => key::run(session, command),
        Command::Events(EventsCommand::Tail(args)) => events::tail(session, args),
        Command::DeadLetters(command) => dead_letter::run(session, command),
        Command::Status => status::run(session),
    }
}

/// Does what the command line says of a partition.
pub(crate) fn run_of_partition(host: &dyn Host, global: &Global, command: &PartitionCommand) -> Done<Exit> {
    let PartitionCommand::SetTime { partition, at } = command;
    status::set_time(&Session::new(host, global)?, *partition, *at)
}
