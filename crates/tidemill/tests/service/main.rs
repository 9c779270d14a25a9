//! One `tidemill standalone` with everything embedded, through the command line and REST.
#![allow(clippy::too_many_lines, reason = "a test tells its story from beginning to end")]
#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod accept_loss;
mod across_groups;
mod adoption;
mod archive;
mod as_user;
mod audit;
#[path = "../../../serving/tests/kit/authority.rs"]
mod authority;
mod backup;
mod bad_input;
mod bulk;
mod by_hand;
mod client_library;
#[path = "../clients/mod.rs"]
mod clients;
mod command_line;
mod completion;
mod delete;
mod directory;
mod disks;
mod dispatch;
mod drain;
mod edits;
mod encryption;
mod execution;
mod external_dependencies;
mod external_work;
#[path = "../facts/mod.rs"]
mod facts;
mod failing_generation;
mod fields;
mod files;
mod first_run;
mod full_disk;
mod generation;
mod history;
mod journal;
mod levels;
mod limits;
mod logs;
mod many_parents;
mod moves;
mod on_record;
mod outage;
mod past;
mod paths;
mod people;
mod placement;
mod pools;
mod pull_tasks;
mod pulling;
mod quality;
#[path = "../../../producers/tests/suite/kit/service.rs"]
mod quality_service;
mod rebuild;
mod renames;
mod replay;
mod reruns;
mod retries;
mod rights;
mod schedules;
#[path = "../server/mod.rs"]
mod server;
#[cfg(all(feature = "mysql", feature = "parquet"))]
mod sign_in;
mod sinks;
mod snapshots;
mod standalone;
mod stopping;
mod strays;
mod stuck;
mod timeouts;
mod tutorial;
mod views;
#[path = "../views/mod.rs"]
mod views_of_jobs;
mod vouched;
mod watch;
mod yarn;
