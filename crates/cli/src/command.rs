//! The commands as a program embeds them in its own command line.

use clap::error::Error;
use clap::{ArgMatches, FromArgMatches, Subcommand};

use crate::args::{self, Global, PartitionCommand};
use crate::commands;
use crate::exit::Exit;
use crate::failure::Done;
use crate::host::Host;

/// One of the commands that speak to a server, with its arguments. A program flattens it into its own commands.
#[derive(Debug)]
pub struct Command(args::Command);

impl Command {
    /// Does it, and gives the exit code.
    ///
    /// # Errors
    /// It was not done, or not known to be done; the failure says the exit code, too.
    pub fn run(self, host: &dyn Host, global: &Global) -> Done<Exit> {
        commands::run(host, global, self.0)
    }
}

impl PartitionCommand {
    /// Does it, and gives the exit code.
    ///
    /// # Errors
    /// As [`Command::run`].
    pub fn run(&self, host: &dyn Host, global: &Global) -> Done<Exit> {
        commands::run_of_partition(host, global, self)
    }
}

impl FromArgMatches for Command {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        args::Command::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        args::Command::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }

    fn update_from_arg_matches_mut(&mut self, matches: &mut ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches_mut(matches)
    }
}

impl Subcommand for Command {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        args::Command::augment_subcommands(command)
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        args::Command::augment_subcommands_for_update(command)
    }

    fn has_subcommand(name: &str) -> bool {
        args::Command::has_subcommand(name)
    }
}
