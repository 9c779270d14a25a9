//! The command line: names, arguments and help. No behaviour; that is in [`crate::run`], and in
//! `tidemill-cli` for the commands that speak to a server.

mod archive;
mod backup;
mod demo;
mod journal;
#[cfg(test)]
mod names;
#[cfg(test)]
mod operations;
mod partition;
mod rebuild;
mod setup;
mod snapshots;

pub(crate) use archive::ArchiveCommand;
pub(crate) use backup::{BackupArgs, RestoreArgs};
pub(crate) use demo::DemoArgs;
pub(crate) use journal::{JournalCommand, VerifyArgs};
pub(crate) use partition::{AcceptLossArgs, PartitionCommand};
pub(crate) use rebuild::RebuildArgs;
pub(crate) use setup::{ConfigCommand, SchemasCommand, TopicsCommand};
pub(crate) use snapshots::SnapshotsCommand;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use tidemill_cli::{Exit, Global};

/// A scheduler whose only truth is a log of events.
#[derive(Debug, Parser)]
#[command(name = "tidemill", version, after_help = after_help(), propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The command line of this process. Ends it where it is none, with what is wrong.
    pub(crate) fn of_process() -> Self {
        Self::try_parse().unwrap_or_else(|error| tidemill_cli::reword(error).exit())
    }
}

/// The last part of `tidemill --help`.
fn after_help() -> String {
    format!(
        "First steps:\n  tidemill demo                 an example on real input; says what to try next\n  \
         tidemill standalone           everything in one process\n  \
         tidemill job apply -f FILE    in another terminal, in the same directory\n\n{}",
        Exit::help()
    )
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The commands that speak to a server
    #[command(flatten)]
    OfServer(tidemill_cli::Command),
    /// Run everything in one process; nothing to install or configure
    Standalone {
        /// Where to listen, ip:port; port 0 takes a free one [default: 127.0.0.1:8780]
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<String>,
    },
    /// Run an example on real input and show what goes on
    Demo(DemoArgs),
    /// Serve the HTTP interface
    Api,
    /// Own partitions of the log and decide
    Dispatcher,
    /// Run jobs of one worker group
    Executor,
    /// Fill the read tables and publish the feed
    Projector,
    /// Keep logs of attempts, and give them to the interface
    Logs,
    /// Pass task logs of what clients pull on to MySQL, Elasticsearch and Parquet files
    Sink,
    /// Look for paths that batches wait for, ask the quality service, take third parties' reports
    Producers,
    /// Define the administrator and a worker group of a new cluster
    Bootstrap,
    /// Rebuild the read tables from the journal, beside those in use
    ///
    /// Nothing has to be stopped: a process that serves the data directory does it itself. Interrupted, it goes on when it
    /// is called again.
    Rebuild(RebuildArgs),
    /// Compare the read tables with the journal, row by row; with --journal, check the journal itself
    ///
    /// Exit code 1 where tables differ, 12 where the journal breaks a rule. The tables are compared by the
    /// process that serves the data directory, if one does. Hints of pulls that count, in Redis too, are judged as well.
    Verify(VerifyArgs),
    /// Copy the journal into a file
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Archive old records of journals, and look at what is archived
    #[command(subcommand)]
    Archive(ArchiveCommand),
    /// Copy the log and the keys of a data directory into a new directory
    ///
    /// Nothing has to be stopped: a process that serves the data directory goes on. What of the log is archived is read from
    /// there. The read tables are not copied, for they follow from the log; nor is what attempts have written, or the
    /// configuration file.
    Backup(BackupArgs),
    /// Make a data directory, that of --data, from a backup or from a file of `journal export`
    ///
    /// The directory has to be empty, or not there. The log goes on in a new generation, so that no token, id or position of
    /// what was lost is given again. Attempts that lived are held until their end is known.
    Restore(RestoreArgs),
    /// Copy old records of journals on Kafka to the archive, until it is stopped
    Archiver,
    /// Look at the snapshots of partitions
    #[command(subcommand)]
    Snapshots(SnapshotsCommand),
    /// Fix a partition after something went wrong outside
    #[command(subcommand)]
    Partition(PartitionCommand),
    /// Write or check the files that are generated from the code
    #[command(subcommand)]
    Schemas(SchemasCommand),
    /// Prepare a cluster's topics
    #[command(subcommand)]
    Topics(TopicsCommand),
    /// Serve shims, one for each attempt that the executor names; the executor starts it
    #[command(hide = true)]
    Shim {
        /// The directory of attempts
        dir: PathBuf,
    },
    /// Show the effective configuration and its schema
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Write a completion script for a shell to stdout
    Completion {
        /// Which shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Give the names that can stand where the last of the words does, for completion scripts
    #[command(hide = true)]
    CompleteNames {
        /// The words of the command line up to the cursor, the program's name first
        #[arg(last = true)]
        words: Vec<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("tidemill").chain(line.split(' ')))
    }

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// API-6: every command of the catalogue parses.
    #[test]
    #[expect(clippy::too_many_lines, reason = "a table with a line for each command")]
    fn documented_command_lines_parse() {
        for line in [
            "job apply -f jobs.yaml",
            "job apply -f jobs --prune demo --prune other",
            "job export --group demo",
            "job ls --group demo -o json",
            "job show demo/load-1",
            "job run demo/load-1 --logical-time 2026-01-01T00:00:00Z --param day=1 --param x=a=b --wait",
            "job submit once --command true --group demo --user ann --param a=1 --priority 3",
            "job ls --submitted true -o wide",
            "attempt ls --batch 4097 -o yaml",
            "attempt report 0 --attempt 8193 --attempt-key k --api http://h:1",
            "login --server https://h:1 --context prod",
            "context ls",
            "context show prod",
            "context use prod",
            "context set prod --server https://h:1 --key-file k",
            "context rm prod",
            "batch logs 4097 --download x --resume",
            "batch logs 4097 --download x --bytes 0-99",
            "job enable 4097",
            "job disable demo/load-1",
            "job preview demo/load-1 -n 5",
            "job preview demo/load-1 --at 2026-03-01T00:00:00Z",
            "job apply -f jobs --allow-unknown-type --dry-run",
            "job delete demo/load-1",
            "job versions demo/load-1",
            "job show demo/load-1 --at-version 2",
            "job diff demo/load-1 1 2",
            "job children demo/load-1",
            "dead-letters ls --kind command --all",
            "dead-letters show 0:17:0",
            "dead-letters redrive 0:17:0",
            "batch ls --state waiting --result failed --job demo/load-1",
            "batch show 4097",
            "batch why 4097",
            "batch why 4097 --as-of 2026-01-01T00:00:00Z",
            "batch why 4097 --as-of 3:41",
            "batch returns 4097",
            "batch kill 4097 --reason enough",
            "batch rerun 4097 --wait",
            "batch override 4097 --all --reason late",
            "batch override 4097 --path /data/a --reason mail",
            "batch override 4097 --parent g/p --logical-time 2026-01-01T00:00:00Z --reason late",
            "batch quality 4097 refuse --reason rows",
            "third-party report erp --logical-time 2026-01-01T00:00:00Z --not-ready",
            "third-party ls --code erp",
            "probe run",
            "probe run --batch 4097",
            "probe late",
            "batch logs 4097 -f --stderr",
            "job skipped demo/load-1",
            "pool apply -f pools.yaml",
            "pool ls",
            "pool show api",
            "pool export",
            "pool delete api",
            "pull template apply -f templates.yaml",
            "pull template show copy",
            "pull user assign demo ann uid_7",
            "pull user assign demo -f users.yaml",
            "pull user ls --group demo",
            "pull user move ann other",
            "pull user delete ann",
            "pull task create -f tasks.yaml",
            "pull task ls --executor user:ann --kind once --from 2026-01-01T00:00:00Z",
            "pull task change 4097 -f task.yaml",
            "pull task ledger 4097 --live",
            "pull task delete 4097",
            "pull grants --user ann --state live",
            "pull next ann --wait 30",
            "pull complete ann 4097 --result done",
            "pull return ann 4097 --reason away",
            "calendar apply -f calendars.yaml",
            "calendar show cn",
            "calendar show cn --at-version 3",
            "calendar versions cn",
            "calendar ls",
            "calendar export",
            "calendar delete cn",
            "worker ls",
            "worker drain w1",
            "worker resume w1",
            "worker vouch w1 --reason switched-off",
            "batch vouch 4097 --attempt 8193 --reason switched-off",
            "batch adopt 4097 --attempt 8193 --reason restored",
            "worker end-stray w1 --attempt 8193 --reason restored",
            "group ls",
            "group apply etl --worker-key abcd",
            "group apply etl",
            "freeze set --group etl --latest 2026-01-01T00:00:00Z --reason moved",
            "freeze lift",
            "batch mark 4097 skipped --reason closed",
            "bulk kill --group etl --state running --reason late --wait",
            "bulk mark skipped --job load-* --from 2026-01-01T00:00:00Z --reason closed",
            "bulk clear --result failed --dry-run",
            "bulk disable --owner eve --reason left --limit 10 --idempotency-key r1",
            "bulk items 4096 --outcome refused",
            "bulk ls",
            "executor --config t.toml",
            "api --config t.toml",
            "dispatcher --config t.toml",
            "projector --config t.toml",
            "logs --config t.toml",
            "producers --config t.toml",
            "bootstrap",
            "rebuild --data d",
            "rebuild all --from 2026-01-01T00:00:00Z --dry-run --compare -o json",
            "rebuild hints",
            "verify --data d -o json",
            "verify --journal",
            "verify --journal x.journal --at-rest -o json",
            "journal export x.journal --from d",
            "archive run",
            "archive ls --partition 1 -o json",
            "archive show x",
            "archive verify",
            "archiver",
            "backup b --from d",
            "restore --from b --by me --data new",
            "snapshots ls --partition 1 -o json",
            "snapshots check",
            "schemas check",
            "partition set-time --partition 1 --at 2026-01-01T00:00:00Z",
            "partition accept-loss --partition 1 --reason restored --by me",
            "standalone --listen 127.0.0.1:0 --data d",
            "demo --once",
            "demo --break message-words",
            "demo --fix",
            "topics create",
            "key apply app --role viewer --group demo",
            "key delete app",
            "key ls",
            "events tail --from start --type batch.finished --limit 3",
            "events tail --cursor abc",
            "events tail --from 2026-01-01T00:00:00+01:00",
            "level show",
            "level hold --reason upgrade",
            "level release",
            "status",
            "config show",
            "config schema",
            "completion bash",
            "complete-names -- tidemill job show --group",
            "batch ls --watch --state running",
            "batch show 4097 --watch=10s -o json",
            "job ls --as-user ann --quiet",
        ] {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn wrong_command_lines_are_usage_errors() {
        for line in [
            "job run demo/a --param novalue",
            "batch show abc",
            "batch ls --state nowhere",
            "job run demo/a --logical-time yesterday",
            "key apply app --role king",
            "events tail --from start --cursor abc",
            "events tail --from yesterday",
            "job diff demo/a 1",
            "job submit once --command true --group demo",
            "attempt report",
            "batch logs 4097 --resume",
            "job ls -o xml",
            "context use",
            "job apply",
            "batch override 4097 --reason late",
            "bulk kill --group etl",
            "bulk disable --state running --reason late",
            "batch override 4097 --all --path /a --reason late",
            "batch override 4097 --all",
            "third-party report erp",
            "nonsense",
            "demo --fix --break message-words",
            "demo --break load-1",
            "pull next ann --wait 31",
            "pull user assign demo",
            "pull complete ann 4097",
            "verify --at-rest",
            "batch ls --watch=soon",
            "batch ls --watch=0s",
            "backup",
            "restore --by me",
            "worker vouch w1",
            "batch vouch 4097 --reason r",
            "batch adopt 4097 --reason r",
            "worker end-stray w1 --reason r",
            "journal export",
            "partition accept-loss --partition 1 --by me",
            "partition accept-loss --partition 1 --by me --reason= ",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn help_lists_the_exit_codes() {
        let help = Cli::command().render_help().to_string();
        assert!(help.contains("10  with --wait or --watch: the batch, or one of a rerun, failed"), "{help}");
    }
}
