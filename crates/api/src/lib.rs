//! The HTTP interface of Tidemill: requests in, read tables and live answers out.
//!
//! ```text
//!  request ─► key ─► rights ─┬─ read ──► tables (lists) · owner (why, newest) · store or worker (logs) · feed (events)
//!                            └─ write ─► Submitter ─► log … ─► reply ─► answer with `position`
//! ```
//!
//! What it must never do: decide anything, open a worker's files, write to a database, or answer a write before
//! its decision is durable.
//!
//! Where to start reading:
//! - [`run`] serves; [`router`] is the same without a socket. [`Deps`] is what both stand on, [`ports`] the
//!   small traits in it.
//! - `routes` has one file for each resource, `s4` the job calls whose form is given from outside, `call` what is
//!   said of each, from which router and document are made alike.
//! - [`Problem`]: every answer that is not a success.

mod app;
mod arrivals;
mod auth;
mod body;
mod bulk_carrier;
mod call;
mod clearing;
mod config;
mod cookie;
#[cfg(test)]
mod corpus;
mod credential;
mod error;
mod flow_seal;
mod freshness;
mod job_types;
mod journal_feed;
mod known;
mod layers;
mod log_stores;
mod logs;
mod needs;
mod object;
mod objects;
mod openapi;
mod operation_id;
mod parameter;
mod params;
mod parents;
mod passwords;
mod past;
mod person;
pub mod ports;
mod position;
mod problem;
mod propagation;
mod proxies;
mod pulling;
mod reference;
mod refusal_reports;
mod refusals;
mod right;
mod rights;
mod routes;
mod s4;
mod secret;
mod server;
mod sign_in_limits;
mod spec;
mod standing;
mod storage;
mod table_keys;
mod tags;
mod turns;
mod unique;
mod uses;
mod view;
mod workers;
mod write;

pub use app::Deps;
pub use config::{Config, SignIn};
pub use error::Error;
pub use freshness::TablePositions;
pub use journal_feed::{JournalFeed, LogCommands};
pub use log_stores::LogPart;
pub use openapi::{document, rights_reference};
pub use past::JournalPast;
pub use position::JournalPosition;
pub use problem::Problem;
pub use server::{Server, router, run};
