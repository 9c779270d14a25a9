//! The one binary: every role, everything in one process, and the commands of people and operators.
//!
//! It composes the role crates and the commands of `tidemill-cli`; it decides nothing itself. Start reading at [`cli`],
//! which is the list of commands, and [`run`], which says who does each.

mod address;
mod cli;
mod config;
mod demo;
mod host;
mod keys;
mod privacy;
mod roles;
mod run;
mod schemas;

use std::process::ExitCode;

use tidemill_cli::{OutputFormat, output};

/// A fifth of the time would go into allocating otherwise (docs/reference/levers.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    privacy::hide_process();
    // Shims are forked from this process, which may have one thread: nothing else may happen before it.
    if let Some(code) = roles::shim() {
        return code;
    }
    let cli = cli::Cli::of_process();
    let json = cli.global.output == OutputFormat::Json;
    match run::run(cli) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            output::failure(&failure, json);
            ExitCode::from(failure.exit.code())
        }
    }
}
