//! `make test` has clippy check what it builds.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::makefile;

/// The value that `make test` exports.
fn exported(name: &str) -> String {
    let assignment = format!("test test-rust chaos-build: export {name} = ");
    let makefile = makefile();
    makefile
        .lines()
        .find_map(|line| line.strip_prefix(&assignment))
        .expect("the Makefile exports it")
        .to_owned()
}

/// With the settings of `make test`, which are those that `cargo clippy` gives to its driver.
fn compiles(code: &str) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let mut compiler = Command::new(exported("RUSTC_WORKSPACE_WRAPPER"))
        .args(["rustc", "--crate-name=checked", "--crate-type=lib", "--emit=metadata", "-"])
        .current_dir(&directory)
        .env("CLIPPY_ARGS", exported("CLIPPY_ARGS"))
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("clippy is a part of the toolchain");
    compiler.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
    compiler.wait().unwrap().success()
}

#[test]
fn warning_of_clippy_is_an_error_of_the_build() {
    assert!(compiles("pub fn holds_none(list: &[u8]) -> bool { list.is_empty() }"));
    assert!(!compiles("pub fn holds_none(list: &[u8]) -> bool { list.len() == 0 }"));
}
