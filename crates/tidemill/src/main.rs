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

use std::io::Write as _;
use std::process::ExitCode;

use tidemill_cli::output;

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
    let json = cli.global.output.is_for_programs();
    let exit = run::run(cli).unwrap_or_else(|failure| {
        output::failure(&failure, json);
        failure.exit
    });
    leave(exit.code())
}

/// Ends the process without what C libraries do at its end: OpenSSL frees then what threads of librdkafka still use, and a
/// process that had its exit code is ended by a signal instead.
#[allow(unsafe_code)]
fn leave(code: u8) -> ! {
    // Who reads it may be gone.
    let _ = std::io::stdout().flush();
    // SAFETY: it takes a number and does not return; nothing of this process is run after it.
    unsafe { nix::libc::_exit(code.into()) }
}
