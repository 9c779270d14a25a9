//! The engine's tests: tables of what is given, done and expected; properties; fuzzing.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod apply_jobs;
mod attempts;
mod bulk;
mod by_hand;
mod corpus;
mod counted;
mod dependencies;
mod depth;
mod execution;
mod external_dependencies;
mod fairness;
mod firing;
mod foreign;
mod freeze;
mod generate;
mod history;
mod kit;
mod moves;
mod orphans;
mod parents_fail;
mod placement;
mod pools;
mod preview;
mod properties;
mod protocol;
mod pull;
mod pull_moves;
mod pull_properties;
mod pull_users;
mod reach;
mod renames;
mod rendered;
mod reports_kept;
mod reruns;
mod retries;
mod run_as;
mod skipped;
mod staged;
mod timeouts;
mod told;
mod values;
mod why;
mod wide;
mod workers;
