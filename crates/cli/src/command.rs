//! The commands as a program embeds them in its own command line.

use clap::Subcommand;

use crate::args::{self, Global, PartitionCommand};
use crate::commands;
use crate::exit::Exit;
use crate::failure::Done;
use crate::host::Host;

/// One of the commands that speak to a server, with its arguments. A program flattens it into its own commands.
#[derive(Debug, Subcommand)]
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
        commands::run(host, global, command)
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
