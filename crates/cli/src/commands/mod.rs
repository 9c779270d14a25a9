//! What each command does: it makes public calls and shows the answers.

mod attempt;
mod audit;
mod batch;
mod bulk;
mod context;
mod directory;
mod events;
mod external_dependencies;
mod job;
mod logs;
mod named;
mod pull;
mod rerun;
mod sign_in;
mod site;
mod wait;
mod watched;
mod why;
mod write;

pub use job::apply_jobs;

use clap::Subcommand;

use crate::args::{self, AttemptCommand, EventsCommand, Global, JobCommand, PartitionCommand};
use crate::exit::Exit;
use crate::failure::Done;
use crate::session::Host;
use crate::session::Session;
use crate::watch;

/// One of the commands that speak to a server, with its arguments. A program flattens it into its own commands.
#[derive(Debug, Clone, Subcommand)]
#[expect(private_interfaces, reason = "what stands on a command line is for this crate alone")]
pub enum Command {
    /// Any of them
    #[command(flatten)]
    #[doc(hidden)]
    Any(args::Command),
}

impl Command {
    /// Does it, and gives the exit code.
    ///
    /// # Errors
    /// It was not done, or not known to be done; the failure says the exit code, too.
    pub fn run(self, host: &dyn Host, global: &Global) -> Done<Exit> {
        let Self::Any(command) = self;
        if let Some(every) = global.watch {
            let watched = watched::of(&command).ok_or_else(watched::nothing_to_watch)?;
            let session = Session::new(host, global)?;
            return watch::run(&session, every, &watched, || of_session(&session, command.clone()));
        }
        match command {
            args::Command::Job(JobCommand::Validate { paths }) => job::validate(host, global.output, &paths),
            args::Command::Context(command) => context::run(global, command),
            args::Command::Login(args) => context::login(host, global, &args),
            args::Command::Logout => sign_in::logout(global),
            args::Command::Password(args) => sign_in::password(host, global, &args),
            args::Command::Token(command) => sign_in::token(host, global, command),
            args::Command::Attempt(AttemptCommand::Report(args)) => attempt::report(global, args),
            command => of_session(&Session::new(host, global)?, command),
        }
    }
}

/// Does what needs a server and the key of the command line alone.
fn of_session(session: &Session<'_>, command: args::Command) -> Done<Exit> {
    match command {
        args::Command::Job(command) => job::run(session, command),
        args::Command::Batch(command) => batch::run(session, command),
        args::Command::Attempt(AttemptCommand::Ls(args)) => attempt::list(session, args),
        args::Command::Bulk(command) => bulk::run(session, command),
        args::Command::Pool(command) => named::pool(session, command),
        args::Command::Pull(command) => pull::run(session, command),
        args::Command::Calendar(command) => named::calendar(session, command),
        args::Command::ThirdParty(command) => external_dependencies::third_party(session, command),
        args::Command::Probe(command) => external_dependencies::probe(session, &command),
        args::Command::Rerun(command) => rerun::run(session, command),
        args::Command::ColdStart(args) => rerun::cold_start(session, &args),
        args::Command::Worker(command) => site::worker(session, command),
        args::Command::Group(command) => site::group(session, command),
        args::Command::Freeze(command) => site::freeze(session, command),
        args::Command::Key(command) => site::key(session, command),
        args::Command::Directory(command) => directory::run(session, command),
        args::Command::Person(command) => directory::person(session, command),
        args::Command::Department(command) => directory::department(session, command),
        args::Command::OnCall(args) => directory::on_call(session, args),
        args::Command::Whoami => site::whoami(session),
        args::Command::Level(command) => site::level(session, command),
        args::Command::Audit(command) => audit::run(session, command),
        args::Command::Events(EventsCommand::Tail(args)) => events::tail(session, args),
        args::Command::DeadLetters(command) => site::dead_letter(session, command),
        args::Command::Status => site::status(session),
        args::Command::Attempt(AttemptCommand::Report(_))
        | args::Command::Context(_)
        | args::Command::Login(_)
        | args::Command::Logout
        | args::Command::Password(_)
        | args::Command::Token(_) => unreachable!("`run` does these"),
    }
}

impl PartitionCommand {
    /// Does it, and gives the exit code.
    ///
    /// # Errors
    /// As [`Command::run`].
    pub fn run(&self, host: &dyn Host, global: &Global) -> Done<Exit> {
        let Self::SetTime { partition, at } = self;
        site::set_time(&Session::new(host, global)?, *partition, *at)
    }
}
