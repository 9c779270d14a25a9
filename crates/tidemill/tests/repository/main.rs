//! What the repository promises of itself: which crate may import which, what is linked, which tests stand for which
//! requirement.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod cycles;
mod edits;
mod job_calls;
mod layering;
mod links;
mod lints;
mod planted;
mod policy;
mod requirements;
mod sizes;
mod words;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What cargo says of the workspace and all that it links on this platform, with every feature.
///
/// Crates of other platforms are left out: no build here ever downloads them.
fn metadata() -> Value {
    let platform = host_platform();
    let arguments =
        ["metadata", "--format-version", "1", "--locked", "--all-features", "--filter-platform", &platform];
    serde_json::from_str(&output_of(env!("CARGO"), &arguments)).expect("cargo metadata writes JSON")
}

fn makefile() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Makefile")).unwrap()
}

fn host_platform() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = output_of(&rustc, &["--version", "--verbose"]);
    version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned()
}

fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap_or_else(|error| panic!("{program} cannot run: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
