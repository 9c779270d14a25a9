//! The one binary: every role, everything in one process, and the commands of people and operators.
//!
//! It composes the role crates and speaks to their users; it decides nothing itself. Client commands know
//! the server only through its public calls. Start reading at [`cli`], which is the list of commands.

mod cli;
mod client;
mod commands;
mod config;
mod exit;
mod failure;
mod output;
mod render;
mod yaml;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let json = cli.global.output == cli::OutputFormat::Json;
    match commands::run(cli) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            output::failure(&failure, json);
            ExitCode::from(failure.exit.code())
        }
    }
}
