//! The embedded log has what was told, whenever the power is cut.

use std::path::Path;
use std::process::Command;

use tidemill_testkit::power_cut::{Trace, cut, told_after_a_failed_sync, write};

const DIRECTORY: &str = "TIDEMILL_POWER_CUT_DIRECTORY";
const SEED: &str = "TIDEMILL_POWER_CUT_SEED";
/// Moments at which the power is cut; `make nightly` has more.
const CUTS: &str = "TIDEMILL_POWER_CUTS";

fn number(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

/// This test again, which writes the log of a directory.
fn writer(seed: u64) -> impl Fn(&Path) -> Command {
    move |directory| {
        let mut command = Command::new(std::env::current_exe().expect("this is a program"));
        command.args(["--exact", "--ignored", "--test-threads=1", "writes_a_log"]);
        command.env(DIRECTORY, directory).env(SEED, seed.to_string());
        command
    }
}

#[test]
#[ignore = "what the next one traces"]
fn writes_a_log() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        write(Path::new(&directory), number(SEED).unwrap()).unwrap();
    }
}

/// EVT-10, OPS-3: after a power cut the log can be opened, and what was acted on is there, with all that it rests on. That
/// holds whichever of the writes since the last sync the cut leaves, and where the writer was killed before.
#[test]
fn what_was_told_outlives_a_power_cut() {
    let seed = number(SEED).unwrap_or_else(|| std::process::id().into());
    let trace = Trace::record(seed, writer(seed)).unwrap();
    let cuts = number(CUTS).unwrap_or(300);
    cut(&trace, seed, usize::try_from(cuts).unwrap()).unwrap();
}

/// EVT-10: a commit or checkpoint whose sync fails is the last: what was lost may be taken for written from then on.
#[test]
fn nothing_is_told_after_a_failed_sync() {
    for when in (15..40).step_by(3) {
        assert_eq!(told_after_a_failed_sync(when, writer(when)).unwrap(), None, "the sync {when} failed");
    }
}
