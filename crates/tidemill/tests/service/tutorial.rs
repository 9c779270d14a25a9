//! docs/tutorial.md, command by command.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use crate::server::TIDEMILL;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tutorial.md");
/// Whatever waits for something that does not come is ended.
const SECONDS: &str = "180";

/// API-6: what a newcomer copies from the page works, in that order, and each command ends well.
#[test]
fn every_command_of_the_tutorial_works() {
    let page = fs::read_to_string(PAGE).unwrap();
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    let commands = blocks.collect::<Vec<_>>().join("\n");
    assert!(commands.matches("tidemill ").count() > 20, "{commands}");
    let script = format!("set -eu\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n{commands}");
    let programs = Path::new(TIDEMILL).parent().unwrap().display();
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args(["--kill-after=5", SECONDS, "bash", "-c", &script])
        .current_dir(directory.path())
        .env("PATH", format!("{programs}:{}", env::var("PATH").unwrap()))
        .env("TIDEMILL__API__LISTEN", "127.0.0.1:0")
        .output()
        .unwrap();
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{}\n{}", output.status, said.join("\n"));
    for wanted in
        ["hello, this is the report of 2026-03-01 10:00", "6 succeeded", "No differences", "6 words"]
    {
        assert!(said[0].contains(wanted), "{wanted} is not in\n{}", said.join("\n"));
    }
}
