//! Programs of the machine.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a program to its end; what it says is in the error where it fails.
///
/// # Errors
/// It cannot be started, or fails.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{name} ended with {}: {}", output.status, error.trim());
    }
    Ok(told)
}

/// As [`run`], with its arguments.
pub(crate) fn call(program: &str, arguments: &[&str]) -> Result<String> {
    run(Command::new(program).args(arguments)).with_context(|| format!("{program} {}", arguments.join(" ")))
}
