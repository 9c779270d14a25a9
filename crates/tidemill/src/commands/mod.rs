//! What each command does. Client commands make public calls and show the answers.

mod admin;
mod batch;
mod bulk;
mod calendar;
mod dead_letter;
mod events;
mod external_dependencies;
mod job;
mod pool;
mod pull;
mod rerun;
mod schemas;
mod wait;
mod why;
mod write;

pub(crate) use job::apply as apply_jobs;

use clap::CommandFactory;

use crate::cli::{
    Cli, Command, ConfigCommand, EventsCommand, Global, JobCommand, OutputFormat, PartitionCommand,
    TopicsCommand,
};
use crate::config;
use crate::demo;
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::roles;
use crate::server::{Query, Server};
use crate::target::Target;

/// Does what the command line says.
pub(crate) fn run(cli: Cli) -> Done<Exit> {
    let global = cli.global;
    match cli.command {
        Command::Job(JobCommand::Validate { paths }) => job::validate(global.output, &paths),
        Command::Job(command) => job::run(&Session::new(&global)?, command),
        Command::Batch(command) => batch::run(&Session::new(&global)?, command),
        Command::Bulk(command) => bulk::run(&Session::new(&global)?, command),
        Command::Pool(command) => pool::run(&Session::new(&global)?, command),
        Command::Pull(command) => pull::run(&Session::new(&global)?, command),
        Command::Calendar(command) => calendar::run(&Session::new(&global)?, command),
        Command::ThirdParty(command) => external_dependencies::third_party(&Session::new(&global)?, command),
        Command::Probe(command) => external_dependencies::probe(&Session::new(&global)?, &command),
        Command::Rerun(command) => rerun::run(&Session::new(&global)?, command),
        Command::ColdStart(args) => rerun::cold_start(&Session::new(&global)?, &args),
        Command::Worker(command) => admin::worker(&Session::new(&global)?, command),
        Command::Group(command) => admin::group(&Session::new(&global)?, command),
        Command::Freeze(command) => admin::freeze(&Session::new(&global)?, command),
        Command::Key(command) => admin::key(&Session::new(&global)?, command),
        Command::Events(EventsCommand::Tail(args)) => events::tail(&Session::new(&global)?, &args),
        Command::DeadLetters(command) => dead_letter::run(&Session::new(&global)?, command),
        Command::Status => admin::status(&Session::new(&global)?),
        Command::Standalone { listen } => roles::standalone(&global, listen.as_deref()),
        Command::Demo(args) => demo::run(&global, &args),
        Command::Api => roles::api(&global),
        Command::Dispatcher => roles::dispatcher(&global),
        Command::Projector => roles::projector(&global),
        Command::Sink => roles::sink(&global),
        Command::Producers => roles::producers(&global),
        Command::Bootstrap => roles::bootstrap(&global),
        Command::Rebuild => roles::rebuild(&global),
        Command::Verify(args) => roles::verify(&global, &args),
        Command::Journal(command) => roles::journal(&global, &command),
        Command::Partition(PartitionCommand::SetTime { partition, at }) => {
            admin::set_time(&Session::new(&global)?, partition, at)
        }
        Command::Partition(PartitionCommand::AcceptLoss(args)) => roles::accept_loss(&global, args),
        Command::Schemas(command) => schemas::run(&command),
        Command::Executor => roles::executor(&global),
        Command::Topics(TopicsCommand::Create) => roles::create_topics(&global),
        Command::Shim { dir } => roles::run_shim(&dir),
        Command::Config(command) => show_config(&global, &command),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "tidemill", &mut script);
            output::raw(&script);
            Ok(Exit::Success)
        }
    }
}

/// A client, and how to show what it gets.
pub(crate) struct Session {
    server: Server,
    target: Target,
    format: OutputFormat,
    settings: config::Settings,
}

impl Session {
    fn new(global: &Global) -> Done<Self> {
        let loaded = config::from_command_line(global, Vec::new())?;
        let settings = loaded.settings;
        let target = Target::find(global.server.as_deref(), global.key.as_deref(), &settings)?
            .trusting(global.ca_file.as_deref());
        Ok(Self { server: Server::new(target.clone())?, target, format: global.output, settings })
    }

    /// The same server, with the operator's secret.
    fn with_operator_key(&self) -> Done<Server> {
        Server::new(self.target.clone().with_operator_key(&self.settings)?)
    }

    /// The list of a group, which has to be there: an empty one would say that it has nothing.
    fn list_of_group(
        &self,
        path: &str,
        group: Option<&str>,
        mut query: Query<'_>,
        limit: usize,
    ) -> Done<serde_json::Value> {
        query.extend(group.map(|group| ("group", group.to_owned())));
        let answer = self.server.list(path, &query, limit)?;
        if answer["items"].as_array().is_some_and(Vec::is_empty) {
            group.map_or(Ok(()), |group| self.check_group(group))?;
        }
        Ok(answer)
    }

    fn check_group(&self, group: &str) -> Done {
        let groups = self.server.get("/api/groups", &[])?;
        if groups["items"].as_array().into_iter().flatten().any(|known| known["name"] == group) {
            return Ok(());
        }
        Err(Failure::new(Exit::NotFound, format!("there is no group {group}"))
            .hint("`tidemill group ls` lists the groups"))
    }

    /// Shows an answer: as it is to programs, by `table` to people.
    fn show(&self, answer: &serde_json::Value, table: impl FnOnce(&serde_json::Value) -> String) -> Exit {
        match self.format {
            OutputFormat::Json => output::json(answer),
            OutputFormat::Table => output::line(table(answer)),
        }
        Exit::Success
    }
}

fn show_config(global: &Global, command: &ConfigCommand) -> Done<Exit> {
    match command {
        ConfigCommand::Schema => output::json(&config::schema()),
        ConfigCommand::Environment => output::line(config::environment()),
        ConfigCommand::Show => {
            let loaded = config::from_command_line(global, Vec::new())?;
            match global.output {
                OutputFormat::Json => output::json(&config::as_json(&loaded)),
                OutputFormat::Table => output::line(config::as_table(&loaded)),
            }
        }
    }
    Ok(Exit::Success)
}
