//! The bugs that tests plant are in the simulator's build, and in no other that is run.

use std::collections::BTreeSet;
use std::fs;

use crate::{makefile, metadata};

/// `make test` and `make chaos` run this program, built once for both.
#[test]
fn no_planted_bug_is_in_the_program_that_tests_run() {
    let program = fs::read(env!("CARGO_BIN_EXE_tidemill")).unwrap();
    let names = |text: &str| program.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(
        names("tidemill_engine"),
        "the program names nothing that it is made of, so it cannot be looked at"
    );
    assert!(
        !names("tidemill_planted"),
        "built with the feature `planted`: take the features that the Makefile lists"
    );
}

#[test]
fn the_makefile_lists_every_feature_but_the_planted_bugs() {
    let metadata = metadata();
    let members: BTreeSet<&str> =
        metadata["workspace_members"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let ours = packages.filter(|package| members.contains(package["id"].as_str().unwrap()));
    let features: BTreeSet<&str> = ours
        .flat_map(|package| package["features"].as_object().unwrap().keys())
        .map(String::as_str)
        .filter(|feature| !matches!(*feature, "default" | "planted"))
        .collect();
    let makefile = makefile();
    let listed = makefile.lines().find_map(|line| line.strip_prefix("FEATURES = ")).unwrap();
    assert_eq!(listed.split(',').collect::<Vec<_>>(), features.into_iter().collect::<Vec<_>>());
}
