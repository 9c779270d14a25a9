//! The roles: each a crate of its own, here given its settings, its log, and the word to stop.

mod accept_loss;
mod alone;
mod archive;
mod backup;
mod catalogue;
mod cluster;
mod executor;
mod first_start;
mod groups;
mod hints;
mod in_process;
mod interface;
mod journal;
mod lag;
mod live;
mod log;
mod logs;
mod operator;
mod producers;
mod rebuilding;
mod registration;
mod replay;
mod serving;
mod sinks;
mod snapshots;
mod standalone;
mod stop;
mod storage;
mod tables;
mod tls;

pub(crate) use alone::{api, dispatcher, logs, producers, projector, sink};
pub(crate) use archive::run as archiver;
pub(crate) use registration::named;
pub(crate) use standalone::Standalone;
pub(crate) use stop::on_signal;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use crossbeam_channel::Receiver;
use tidemill_api::ports::Task;
use tidemill_cli::{Done, Exit, Failure, Global, output};
use tracing_subscriber::EnvFilter;

use crate::cli::{
    AcceptLossArgs, ArchiveCommand, BackupArgs, JournalCommand, RebuildArgs, RestoreArgs, SnapshotsCommand,
    VerifyArgs,
};
use crate::config::{self, Flag, Settings};
use crate::privacy;

/// Serves shims, if that is what the command line asks for: `tidemill shim DIR` and nothing else.
pub(crate) fn shim() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let (name, dir, end) = (arguments.next()?, arguments.next()?, arguments.next());
    (name == "shim" && end.is_none()).then(|| shim_code(Path::new(&dir)))
}

fn shim_code(dir: &Path) -> ExitCode {
    ExitCode::from(u8::try_from(tidemill_executor::shim_main(dir)).unwrap_or(1))
}

/// Serves shims where the command line holds more than that.
pub(crate) fn run_shim(dir: &Path) -> Done<Exit> {
    match tidemill_executor::shim_main(dir) {
        0 => Ok(Exit::Success),
        code => Err(Failure::new(
            Exit::Failure,
            format!("the server of shims for {} ended with {code}", dir.display()),
        )),
    }
}

/// `tidemill standalone`.
pub(crate) fn standalone(global: &Global, listen: Option<&str>) -> Done<Exit> {
    let flags = listen.map(|listen| Flag::new("api.listen", listen, "--listen")).into_iter().collect();
    let settings = start_with(global, flags)?;
    let stop = stop::on_signal()?;
    let standalone = Standalone::start(&settings, &stop)?;
    let data = settings.data_dir.display();
    output::line(format!(
        "Tidemill serves everything in this process until Ctrl-C.\n\n  address  {}\n  data     {data}\n\n\
         Try in another terminal, in this directory:\n  \
         tidemill --data {data} status\n  tidemill --data {data} job apply -f FILE\n  \
         tidemill --data {data} batch ls\n  tidemill --data {data} events tail",
        standalone.url(),
    ));
    standalone.serve(&stop)
}

/// `tidemill executor`.
pub(crate) fn executor(global: &Global) -> Done<Exit> {
    let settings = start(global)?;
    let tls = tls::Tls::open(&settings)?;
    let shutdown = stop::on_signals(2)?;
    executor::run(&settings, &tls, log::shared(&settings)?, shutdown)
}

/// Runs a role by itself until a signal says to stop.
pub(crate) fn run_alone(
    global: &Global,
    role: impl FnOnce(&Settings, &Receiver<()>) -> Done<Exit>,
) -> Done<Exit> {
    role(&start(global)?, &stop::on_signal()?)
}

/// `tidemill bootstrap`.
pub(crate) fn bootstrap(global: &Global) -> Done<Exit> {
    alone::bootstrap(&start(global)?)
}

/// `tidemill rebuild`.
pub(crate) fn rebuild(global: &Global, args: &RebuildArgs) -> Done<Exit> {
    replay(global, &Task::Rebuild(args.request()?))
}

/// `tidemill verify`.
pub(crate) fn verify(global: &Global, args: &VerifyArgs) -> Done<Exit> {
    let Some(source) = &args.journal else { return replay(global, &Task::Verify) };
    let check = journal::Check { source: source.as_deref(), at_rest: args.at_rest };
    journal::verify(global, &start(global)?, &check)
}

/// `tidemill snapshots …`.
pub(crate) fn snapshots(global: &Global, command: &SnapshotsCommand) -> Done<Exit> {
    snapshots::command(global, &start(global)?, command)
}

/// `tidemill archive …`.
pub(crate) fn archive(global: &Global, command: &ArchiveCommand) -> Done<Exit> {
    archive::command(global, &start(global)?, command, &stop::on_signal()?)
}

/// `tidemill backup`.
pub(crate) fn backup(global: &Global, args: &BackupArgs) -> Done<Exit> {
    backup::backup(global, &start(global)?, args)
}

/// `tidemill restore`.
pub(crate) fn restore(global: &Global, args: &RestoreArgs) -> Done<Exit> {
    backup::restore(global, &start(global)?, args)
}

/// `tidemill journal …`.
pub(crate) fn journal(global: &Global, command: &JournalCommand) -> Done<Exit> {
    match command {
        JournalCommand::Export { file, from } => {
            journal::export(global, &start(global)?, from.as_deref(), file)
        }
    }
}

fn replay(global: &Global, task: &Task) -> Done<Exit> {
    run_alone(global, |settings, stop| replay::run(global, settings, task, stop))
}

/// `tidemill partition accept-loss`.
pub(crate) fn accept_loss(global: &Global, args: AcceptLossArgs) -> Done<Exit> {
    accept_loss::run(global, &start(global)?, args)
}

/// `tidemill topics create`.
pub(crate) fn create_topics(global: &Global) -> Done<Exit> {
    let settings = start(global)?;
    for name in log::kafka::create_topics(&settings)? {
        output::line(name);
    }
    Ok(Exit::Success)
}

/// Loads the settings, begins to write log lines, to stderr, and closes what is written to other accounts.
fn start(global: &Global) -> Done<Settings> {
    start_with(global, Vec::new())
}

fn start_with(global: &Global, flags: Vec<Flag>) -> Done<Settings> {
    let settings = config::from_command_line(global, flags)?.settings;
    privacy::begin();
    tidemill_journal::read_up_to(settings.process.level());
    log_lines(&settings)?;
    privacy::close(&settings);
    raise_descriptors()?;
    Ok(settings)
}

/// Before the first file of a role is opened: each of them counts on it.
pub(crate) fn raise_descriptors() -> Done {
    tidemill_serving::descriptors::raise().map_err(|error| Failure::caused("cannot start", &error))
}

fn log_lines(settings: &Settings) -> Done {
    let filter = log_filter(settings)?;
    let is_coloured = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(is_coloured)
        .with_writer(io::stderr)
        // Else a line that cannot be written is told on the same stream by `eprintln!`, which panics.
        .log_internal_errors(false)
        .init();
    Ok(())
}

/// Which log lines the settings ask for.
pub(crate) fn log_filter(settings: &Settings) -> Done<EnvFilter> {
    EnvFilter::try_new(&settings.log_filter)
        .map_err(|error| Failure::bad_input(format!("log_filter: {:?}: {error}", settings.log_filter)))
}
