//! The one binary: every role, everything in one process, and the commands of people and operators.
//!
//! It composes the role crates and speaks to their users; it decides nothing itself. Client commands know
//! the server only through its public calls. Start reading at [`cli`], which is the list of commands.

mod address;
mod cli;
mod commands;
mod config;
mod demo;
mod exit;
mod failure;
mod files;
mod keys;
mod output;
mod privacy;
mod problem;
mod render;
mod roles;
mod secret;
mod server;
mod target;
mod yaml;

use std::process::ExitCode;

fn main() -> ExitCode {
    privacy::hide_process();
    // Shims are forked from this process, which may have one thread: nothing else may happen before it.
    if let Some(code) = roles::shim() {
        return code;
    }
    let cli = cli::Cli::of_process();
    let json = cli.global.output == cli::OutputFormat::Json;
    match commands::run(cli) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            output::failure(&failure, json);
            ExitCode::from(failure.exit.code())
        }
    }
}
