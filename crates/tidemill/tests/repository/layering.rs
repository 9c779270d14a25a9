//! Which crates of the workspace may import which, and what the pure ones may never reach.
//!
//! ```text
//! model ◄── { calendar, engine, log, store, probe, serving } ◄─┬─ journal ◄── { projector, sinks, api }     ─┬─ tidemill
//!                                                              ├─ cluster ◄── { producers, api }            │
//!                                                              └─ { dispatcher, executor }                 ─┘
//! journal ◄── directory ◄── { api, tidemill }
//! model ◄── seal ◄── { api, dispatcher, executor, logs, producers, bench }
//! cluster, probe, serving ◄── logs ◄── tidemill
//! model, serving ◄── client ◄── cli ◄── tidemill
//! model, serving ◄── oidc
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::metadata;

const PURE: &[&str] = &["model", "calendar", "engine", "seal"];
const BASES: &[&str] = &["model", "calendar", "engine", "log", "store", "probe"];
/// Roles: nobody imports them but what starts them.
const SHELLS: &[&str] = &["producers", "dispatcher", "executor", "projector", "notifier"];

/// What a crate may import of ours. A crate that is not listed fails the test: decide where it stands.
fn allowed(name: &str) -> Option<Vec<&'static str>> {
    Some(match name {
        "derive" | "planted" | "corpus" => vec![],
        "model" => vec!["derive"],
        "calendar" => vec!["model", "planted"],
        "seal" => vec!["model"],
        // It checks its settings as all crates do.
        "serving" => vec!["model"],
        // A program of somebody else's imports it, so it brings no role with it.
        "client" => vec!["model", "serving"],
        // It knows a server by its public calls only.
        "cli" => vec!["model", "client"],
        "log" => vec!["planted"],
        // It moves records, and knows their frames alone.
        "archive" => vec!["model", "log", "probe"],
        // It is what all who follow a journal have in common, and none of them.
        "journal" => vec!["model", "log", "planted"],
        // It follows one journal, and asks nobody.
        "directory" => vec!["model", "log", "journal"],
        // It asks owners, and is none.
        "cluster" => vec!["model", "log", "serving"],
        "engine" => vec!["model", "calendar", "derive", "planted"],
        // It folds journals, and puts the state where the archive puts segments.
        "snapshots" => vec!["model", "log", "engine", "archive", "planted"],
        "store" => vec!["model", "log", "planted"],
        "checker" => vec!["model", "log"],
        "probe" => vec!["model"],
        // It serves the logs of its attempts.
        "executor" => [BASES, &["derive", "planted", "seal", "serving"]].concat(),
        "projector" => [BASES, &["journal", "planted"]].concat(),
        "producers" => [BASES, &["cluster", "seal"]].concat(),
        // An owner begins with a snapshot, and has others taken.
        "dispatcher" => [BASES, &["planted", "seal", "snapshots"]].concat(),
        shell if SHELLS.contains(&shell) => [BASES, &["planted"]].concat(),
        // It trusts servers as all clients do.
        "sinks" => [BASES, &["journal", "serving"]].concat(),
        // It knows names and roles, and trusts servers as all clients do.
        "oidc" => vec!["model", "serving"],
        // It asks workers, and does not know who reads.
        "logs" => vec!["model", "log", "cluster", "probe", "seal", "serving"],
        // What it is asked of the past begins with a snapshot.
        "api" => {
            [BASES, &["journal", "cluster", "directory", "oidc", "seal", "serving", "snapshots"]].concat()
        }
        // It measures all of it, so it may start all of it.
        "bench" => [BASES, SHELLS, &["journal", "cluster", "api", "seal", "sinks"]].concat(),
        "tidemill" => {
            let more = [
                "archive",
                "journal",
                "logs",
                "cluster",
                "directory",
                "api",
                "sinks",
                "checker",
                "bench",
                "seal",
                "serving",
                "cli",
                "snapshots",
            ];
            [BASES, SHELLS, &more].concat()
        }
        // It sees the program from outside, as clients, journal and disk show it.
        "chaos" => vec!["model", "log", "checker"],
        _ => return None,
    })
}

/// Crates that do I/O, read clocks or draw numbers. None of the pure crates may reach one.
const NEVER_BELOW_PURE: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "mio",
    "rusqlite",
    "libsqlite3-sys",
    "sqlx",
    "redis",
    "rdkafka",
    "rdkafka-sys",
    "reqwest",
    "ureq",
    "hyper",
    "axum",
    "socket2",
    "getrandom",
    "uuid",
    "rand",
    "fastrand",
    "chrono",
    "rustix",
    "nix",
    "tempfile",
    "crossbeam-channel",
    "tracing",
    "hdfs-native",
    "object_store",
];

fn short(name: &str) -> &str {
    name.strip_prefix("tidemill-").unwrap_or(name)
}

/// Imports that end up in a program, by short name; imports of tests only are left out.
fn imports(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let members: BTreeSet<_> =
        metadata["workspace_members"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    let packages = metadata["packages"].as_array().unwrap();
    let ours: Vec<_> = packages.iter().filter(|p| members.contains(p["id"].as_str().unwrap())).collect();
    let names: BTreeSet<_> = ours.iter().map(|p| p["name"].as_str().unwrap()).collect();
    ours.iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let used = dependencies
                .filter(|dependency| dependency["kind"] != "dev")
                .map(|dependency| dependency["name"].as_str().unwrap())
                .filter(|name| names.contains(name))
                .map(|name| short(name).to_owned())
                .collect();
            (short(package["name"].as_str().unwrap()).to_owned(), used)
        })
        .collect()
}

/// Imports that break the direction, as `a → b`.
fn forbidden(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, used) in imports {
        // The testkit is imported by tests only, so it may reach everything; nothing may reach it.
        let may = if name == "testkit" { None } else { Some(allowed(name)) };
        match may {
            None => {}
            Some(None) => found.push(format!("{name} is not in the table of allowed imports")),
            Some(Some(may)) => found.extend(
                used.iter()
                    .filter(|used| !may.contains(&used.as_str()))
                    .map(|used| format!("{name} → {used}")),
            ),
        }
    }
    found
}

#[test]
fn workspace_crates_import_only_in_the_allowed_direction() {
    assert_eq!(forbidden(&imports(&metadata())), Vec::<String>::new());
}

#[test]
fn check_notices_a_forbidden_import() {
    let one = |name: &str, used: &str| BTreeMap::from([(name.to_owned(), BTreeSet::from([used.to_owned()]))]);
    assert_eq!(forbidden(&one("engine", "log")), ["engine → log"]);
    assert_eq!(forbidden(&one("executor", "dispatcher")), ["executor → dispatcher"]);
    assert_eq!(forbidden(&one("checker", "engine")), ["checker → engine"]);
    assert_eq!(forbidden(&one("api", "dispatcher")), ["api → dispatcher"]);
    assert_eq!(forbidden(&one("cli", "engine")), ["cli → engine"]);
    assert_eq!(forbidden(&one("client", "log")), ["client → log"]);
    assert_eq!(forbidden(&one("newcomer", "model")).len(), 1);
    assert_eq!(forbidden(&one("api", "producers")), ["api → producers"]);
    assert_eq!(forbidden(&one("api", "projector")), ["api → projector"]);
    assert_eq!(forbidden(&one("api", "sinks")), ["api → sinks"]);
    assert_eq!(forbidden(&one("sinks", "projector")), ["sinks → projector"]);
    assert!(forbidden(&one("api", "cluster")).is_empty());
}

/// Everything that `root` reaches without imports of tests and builds, with the way there.
fn reach(metadata: &Value, root: &str) -> BTreeMap<String, String> {
    let nodes: BTreeMap<_, _> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].as_str().unwrap(), node))
        .collect();
    let name_of: BTreeMap<_, _> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (package["id"].as_str().unwrap(), package["name"].as_str().unwrap()))
        .collect();
    let start = name_of.iter().find(|(_, name)| **name == root).map(|(id, _)| *id).expect("the crate exists");
    let mut way = BTreeMap::new();
    let mut open = vec![(start, root.to_owned())];
    while let Some((id, path)) = open.pop() {
        for dependency in nodes[id]["deps"].as_array().unwrap() {
            let linked = dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| {
                kind["kind"].is_null()
                    && !kind["target"].as_str().is_some_and(|target| {
                        target.contains("windows") || target.contains("wasm") || target.contains("macos")
                    })
            });
            let id = dependency["pkg"].as_str().unwrap();
            let name = name_of[id];
            if linked && !way.contains_key(name) {
                let path = format!("{path} → {name}");
                way.insert(name.to_owned(), path.clone());
                open.push((id, path));
            }
        }
    }
    way
}

#[test]
fn pure_crates_reach_no_io_clock_or_randomness() {
    let metadata = metadata();
    for name in PURE {
        let reached = reach(&metadata, &format!("tidemill-{name}"));
        let bad: Vec<_> =
            NEVER_BELOW_PURE.iter().filter_map(|never| reached.get(*never)).map(String::as_str).collect();
        assert_eq!(bad, Vec::<&str>::new());
    }
}
