//! The real program with every role in a process of its own, on Kafka and MariaDB.
//!
//! `TIDEMILL_TEST_KAFKA` and `TIDEMILL_TEST_MYSQL` name the services; every test has topics and a database of
//! its own there. What happened is read from the journal, from what jobs wrote, and through the public calls.

#![cfg(all(feature = "kafka", feature = "mysql"))]
#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod accept_loss;
mod across_groups;
mod archive;
#[path = "../../../serving/tests/kit/authority.rs"]
mod authority;
mod checked;
#[path = "../clients/mod.rs"]
mod clients;
#[cfg(all(feature = "kafka-tls", feature = "redis", feature = "tls"))]
mod encrypted;
mod encryption;
#[path = "../facts/mod.rs"]
mod facts;
mod feed;
mod forged;
#[cfg(feature = "hdfs")]
#[path = "../../../probe/tests/suite/kit/hdfs.rs"]
mod hdfs;
mod kit;
mod lost_output;
#[cfg(feature = "hdfs")]
mod many_paths;
mod pipeline;
mod placement;
mod pools;
mod pull_tasks;
#[cfg(feature = "redis")]
mod pulling;
mod reassign;
mod replies;
mod reruns;
#[cfg(feature = "hdfs")]
#[path = "../server/mod.rs"]
mod server;
mod snapshots;
mod stopped_owner;
mod stopping;
mod tables;
mod third_party;
mod upgrade;
mod values;
#[path = "../views/mod.rs"]
mod views_of_jobs;
mod without_tables;
