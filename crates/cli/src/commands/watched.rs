//! What `--watch` can show again and again: commands that only read, each with what changes it and when it is over.

use serde_json::Value;

use super::{rerun, wait};
use crate::args::{
    self, AttemptCommand, AuditCommand, BatchCommand, BulkCommand, CalendarCommand, DeadLetterCommand,
    DepartmentCommand, FreezeCommand, GroupCommand, JobCommand, KeyCommand, LevelCommand, PersonCommand,
    PoolCommand, ProbeCommand, PullCommand, PullTaskCommand, PullTemplateCommand, PullUserCommand,
    RerunCommand, ThirdPartyCommand, WorkerCommand,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::watch::Watched;

/// What a command shows; none where it is not to be repeated.
pub(super) fn of(command: &args::Command) -> Option<Watched> {
    use args::Command;

    if let Command::Batch(BatchCommand::Show { batch }) = command {
        return Some(Watched::new("batch").about(format!("batch/{batch}")).until(end_of_batch));
    }
    let (kind, is_read) = match command {
        Command::Job(command) => ("job", of_job(command)),
        Command::Batch(command) => ("batch", of_batch(command)),
        Command::Attempt(command) => ("attempt", matches!(command, AttemptCommand::Ls(_))),
        Command::Bulk(BulkCommand::Show { .. }) => return Some(Watched::new("bulk").until(end_of_bulk)),
        Command::Bulk(command) => {
            ("bulk", matches!(command, BulkCommand::Ls { .. } | BulkCommand::Items { .. }))
        }
        Command::Calendar(command) => ("calendar", of_calendar(command)),
        Command::Pool(command) => ("", matches!(command, PoolCommand::Ls | PoolCommand::Show { .. })),
        Command::Pull(command) => ("", of_pull(command)),
        Command::ThirdParty(command) => ("", matches!(command, ThirdPartyCommand::Ls { .. })),
        Command::Probe(command) => ("", matches!(command, ProbeCommand::Late)),
        Command::Rerun(RerunCommand::Show { .. }) => return Some(Watched::new("").until(end_of_rerun)),
        Command::Rerun(command) => {
            ("", matches!(command, RerunCommand::Ls { .. } | RerunCommand::Batches { .. }))
        }
        Command::Worker(command) => ("worker", of_worker(command)),
        Command::Group(command) => ("", matches!(command, GroupCommand::Ls)),
        Command::Freeze(command) => ("", matches!(command, FreezeCommand::Ls)),
        Command::Key(command) => ("key", matches!(command, KeyCommand::Ls)),
        Command::Person(command) => {
            ("", matches!(command, PersonCommand::Ls { .. } | PersonCommand::Show { .. }))
        }
        Command::Department(command) => {
            ("", matches!(command, DepartmentCommand::Ls | DepartmentCommand::Show { .. }))
        }
        Command::OnCall(_) | Command::Status => ("", true),
        Command::Level(command) => ("", matches!(command, LevelCommand::Show)),
        Command::Audit(command) => ("", matches!(command, AuditCommand::Ls { .. })),
        Command::DeadLetters(command) => {
            ("", matches!(command, DeadLetterCommand::Ls { .. } | DeadLetterCommand::Show { .. }))
        }
        Command::ColdStart(_)
        | Command::Directory(_)
        | Command::Login(_)
        | Command::Logout
        | Command::Password(_)
        | Command::Token(_)
        | Command::Context(_)
        | Command::Whoami
        | Command::Events(_) => ("", false),
    };
    is_read.then(|| Watched::new(kind))
}

fn of_job(command: &JobCommand) -> bool {
    matches!(
        command,
        JobCommand::Ls(_)
            | JobCommand::Show { .. }
            | JobCommand::Versions { .. }
            | JobCommand::Children { .. }
            | JobCommand::Preview { .. }
            | JobCommand::Skipped { .. }
    )
}

fn of_batch(command: &BatchCommand) -> bool {
    matches!(
        command,
        BatchCommand::Ls(_)
            | BatchCommand::Why { .. }
            | BatchCommand::Usage { .. }
            | BatchCommand::Returns { .. }
    )
}

fn of_calendar(command: &CalendarCommand) -> bool {
    matches!(command, CalendarCommand::Ls | CalendarCommand::Show { .. } | CalendarCommand::Versions { .. })
}

fn of_pull(command: &PullCommand) -> bool {
    match command {
        PullCommand::Template(command) => {
            matches!(command, PullTemplateCommand::Ls | PullTemplateCommand::Show { .. })
        }
        PullCommand::User(command) => {
            matches!(command, PullUserCommand::Ls { .. } | PullUserCommand::Show { .. })
        }
        PullCommand::Task(command) => matches!(
            command,
            PullTaskCommand::Ls(_) | PullTaskCommand::Show { .. } | PullTaskCommand::Ledger { .. }
        ),
        PullCommand::Grants(_) => true,
        PullCommand::Next { .. } | PullCommand::Complete { .. } | PullCommand::Return { .. } => false,
    }
}

fn of_worker(command: &WorkerCommand) -> bool {
    matches!(command, WorkerCommand::Ls | WorkerCommand::Show { .. } | WorkerCommand::Drained)
}

/// A command that does something, or that shows things one after the other anyway.
pub(super) fn nothing_to_watch() -> Failure {
    Failure::bad_input("--watch: this command does not show a list or a thing that could be looked at again")
        .hint("watch what it leads to, as in `tidemill batch ls --watch`; `batch logs -f` and `events tail` follow by themselves")
}

fn end_of_batch(batch: &Value) -> Option<Exit> {
    wait::is_finished(batch).then(|| wait::exit_of(batch["result"].as_str().unwrap_or("?")))
}

fn end_of_rerun(rerun: &Value) -> Option<Exit> {
    (!rerun["ended_at"].is_null()).then(|| rerun::exit_of(rerun))
}

fn end_of_bulk(bulk: &Value) -> Option<Exit> {
    (!bulk["ended_at"].is_null()).then_some(Exit::Success)
}
