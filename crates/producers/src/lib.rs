//! Outside requests become commands.
//!
//! A [`Submitter`] appends a [`SubmitRequest`] to the commands of its shard's partition, waits until the owner's
//! [`Reply`](tidemill_model::Reply) comes back, and gives that. While none comes it appends the same request
//! again: the state keeps the outcome of every request, so a repeat gets the first answer, from any instance,
//! also after the owner changed.
//!
//! ```text
//!  submit ──► Outstanding ──► commands p ──► owner ──► journal p ──► replies r ──► reader thread ──► caller
//!                 ▲   └ again every 2 s, same request id                                │
//!                 └─────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! What it must never do: decide anything, write to another topic than `commands`, or wait without a bound.
//! [`Outstanding`] holds the rules, without clock, thread or I/O; [`Submitter`] is the loop around it.

mod config;
mod division;
mod draw;
mod error;
mod outstanding;
mod owners;
pub mod prober;
pub mod quality;
mod submit_request;
mod submitter;
pub mod third_party;

pub use config::Config;
pub use draw::{instance_id, request_id};
pub use error::{Error, SubmitError};
pub use outstanding::{Load, Output, Outstanding};
pub use owners::{AskOwner, GroupShards, Outside};
pub use submit_request::SubmitRequest;
pub use submitter::Submitter;
