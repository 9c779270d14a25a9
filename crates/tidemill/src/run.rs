//! Which role, or which other part of the program, does what the command line says.

use clap::CommandFactory as _;
use tidemill_cli::{Done, Exit, Failure, Global, Host as _, completion, output};

use crate::cli::{Cli, Command, ConfigCommand, PartitionCommand, TopicsCommand};
use crate::config;
use crate::demo;
use crate::host::Program;
use crate::roles;
use crate::schemas;

/// Does what the command line says.
pub(crate) fn run(cli: Cli) -> Done<Exit> {
    roles::named(run_command(cli))
}

fn run_command(cli: Cli) -> Done<Exit> {
    let global = cli.global;
    if global.watch.is_some() && !matches!(cli.command, Command::OfServer(_)) {
        return Err(Failure::bad_input("--watch: only what a server is asked for can be watched")
            .hint("leave it out, or watch a list, as in `tidemill batch ls --watch`"));
    }
    match cli.command {
        Command::OfServer(command) => command.run(&Program, &global),
        Command::Standalone { listen } => roles::standalone(&global, listen.as_deref()),
        Command::Demo(args) => demo::run(&global, &args),
        Command::Api => roles::run_alone(&global, roles::api),
        Command::Dispatcher => roles::run_alone(&global, roles::dispatcher),
        Command::Projector => roles::run_alone(&global, roles::projector),
        Command::Logs => roles::run_alone(&global, roles::logs),
        Command::Sink => roles::run_alone(&global, roles::sink),
        Command::Producers => roles::run_alone(&global, roles::producers),
        Command::Bootstrap => roles::bootstrap(&global),
        Command::Rebuild(args) => roles::rebuild(&global, &args),
        Command::Verify(args) => roles::verify(&global, &args),
        Command::Archive(command) => roles::archive(&global, &command),
        Command::Backup(args) => roles::backup(&global, &args),
        Command::Restore(args) => roles::restore(&global, &args),
        Command::Snapshots(command) => roles::snapshots(&global, &command),
        Command::Archiver => roles::run_alone(&global, roles::archiver),
        Command::Journal(command) => roles::journal(&global, &command),
        Command::Partition(PartitionCommand::OfServer(command)) => command.run(&Program, &global),
        Command::Partition(PartitionCommand::AcceptLoss(args)) => roles::accept_loss(&global, args),
        Command::Schemas(command) => schemas::run(&command),
        Command::Executor => roles::executor(&global),
        Command::Topics(TopicsCommand::Create) => roles::create_topics(&global),
        Command::Shim { dir } => roles::run_shim(&dir),
        Command::Config(command) => show_config(&global, &command),
        Command::Completion { shell } => {
            output::raw(&completion::script(shell, Cli::command()));
            Ok(Exit::Success)
        }
        Command::CompleteNames { words } => {
            let names = completion::names(Cli::command(), &words, |global| Program.settings(global));
            names.iter().for_each(output::line);
            Ok(Exit::Success)
        }
    }
}

fn show_config(global: &Global, command: &ConfigCommand) -> Done<Exit> {
    match command {
        ConfigCommand::Schema => output::json(&config::schema()),
        ConfigCommand::Environment => output::line(config::environment()),
        ConfigCommand::Show => {
            let loaded = config::from_command_line(global, Vec::new())?;
            output::answer(global.output, &config::as_json(&loaded), |_| config::as_table(&loaded));
        }
    }
    Ok(Exit::Success)
}
