//! The interface over real sockets: SQLite tables in a directory of their own, the memory log, and an owner that
//! answers as a test says.
#![allow(clippy::too_many_lines, reason = "a test tells its story from beginning to end")]
#![allow(clippy::unwrap_used)]

mod admin;
mod applied;
mod audit;
mod bad_input;
mod corpus;
mod dead_letters;
mod document;
mod events;
mod every_call;
mod fixture;
mod hidden_parents;
mod job_calls;
mod journal_feed;
mod log_reads;
mod log_store;
mod log_tail;
mod logs;
mod owner;
mod persons;
mod propagation;
mod provider;
mod pull;
mod reads;
mod reference;
mod rights;
mod rows;
mod sign_in;
mod stopping;
#[allow(dead_code, reason = "the journal's own tests use the rest")]
#[path = "../../../journal/tests/suite/support/mod.rs"]
mod support;
// Raw connections, as the tests of the live port have them.
#[path = "../../../cluster/tests/suite/wire.rs"]
mod wire;
mod without_tables;
mod writes;
