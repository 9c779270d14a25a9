//! A cluster as its clients see it: the owners of its shards are sent commands and asked questions.
//!
//! A [`Submitter`] appends a [`SubmitRequest`] to the commands of its shard's partition, waits until the owner's
//! [`Reply`](tidemill_model::Reply) comes back, and gives that. While none comes it appends the same request
//! again: the state keeps the outcome of every request, so a repeat gets the first answer, from any instance,
//! also after the owner changed.
//!
//! ```text
//!  submit ──► Outstanding ──► commands p ──► owner ──► journal p ──► line, or replies r ──► caller
//!                 ▲   └ again every 2 s, same request id                        │
//!                 └─────────────────────────────────────────────────────────────┘
//!
//!  query ──► Live: HttpLive ──► POST /live of the owner's process (live_router), or InProcessLive ──► owner ──► answer
//!              ▲
//!              └── Propagation: is a change in effect everywhere?
//! ```
//!
//! What it must never do: decide anything, invent an outcome, write to another topic than `commands`, or wait without
//! a bound.
//!
//! Where to start reading:
//! - [`Outstanding`] holds the rules of waiting for an outcome, without clock, thread or I/O; [`Submitter`] is the loop
//!   around it.
//! - [`Live`]: questions to the owner of a shard, in this process or another. [`live_router`]: what answers them.
//! - [`ReplyLines`]: replies that come from the owner's process at once, and not by the topic.
//! - [`propagation`]: waits until what the catalogue decided is in effect in every group that it concerns.
//! - [`Registrar`]: registers this process with the catalogue, which raises the level once all processes read the next one.
//! - [`Division`]: which part of a role's work is this process's.
//! - [`AskOwner`], [`GroupShards`]: the same for callers on threads of their own.

mod config;
mod division;
mod error;
mod lines;
mod live;
mod outstanding;
pub mod propagation;
mod registrar;
mod submitter;

pub use config::Config;
pub use division::{Division, Parts};
pub use error::{Error, SubmitError};
pub use lines::{OpenLine, OwnerAddresses, ReplyLines, TakeReply};
pub use live::{
    AskOwner, BoxFuture, GroupShards, HttpLive, InProcessLive, Live, LiveError, MAX_PLANNED_BYTES,
    OwnerAddress, Peers, Refusal, all_pages, follow_shards, live_router, trouble,
};
pub use outstanding::{Load, Output, Outstanding};
pub use registrar::Registrar;
pub use submitter::{SubmitRequest, Submitter, instance_id, request_id};
