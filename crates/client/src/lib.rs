//! The HTTP client of a Tidemill server, for Rust programs and for the command line.
//!
//! ```no_run
//! use tidemill_client::{Client, RunRequest};
//!
//! let client = Client::builder("https://tidemill.example:8780")
//!     .key("etl:3f9c…")
//!     .ca_file("/etc/tidemill/ca.pem")
//!     .build()?;
//! let job = client.find_job("demo", "load-1")?;
//! let run = client.run_job(job.id, &RunRequest::default())?;
//! let batch = client.await_batch(run.batch, Some(&run.position))?;
//! println!("{} ended: {:?}", batch.job_name, batch.result);
//! # Ok::<(), tidemill_client::Error>(())
//! ```
//!
//! Each call blocks its thread until the answer is there. Where the caller is a task of an async runtime, make it on a
//! thread of its own (`tokio::task::spawn_blocking`). One [`Client`] serves any number of threads.
//!
//! ```text
//!  typed calls (jobs, batches, logs, pull) ─┐
//!                                           ├─► Call: one request ─► Answer or Error
//!  get, post, put, delete ──────────────────┘
//!  events ─► Feed, follow_log ─► LogTail: streams that are resumed after the last event seen
//! ```
//! Every call of `schemas/openapi.json` can be made with [`Client::get`], [`Client::post`], [`Client::put`] and
//! [`Client::delete`], with any type that serde can read, `serde_json::Value` included. The typed methods are those that
//! programs need most.
//!
//! A write carries an `Idempotency-Key`: the server does a request of one key once, however often it is sent. After an
//! error whose outcome is unknown, [`Error::key_to_repeat`] has the key with which the call can be repeated safely.
//!
//! What it must never do: know more of a server than its public calls, or print a key.
//!
//! Start reading at [`Client`] and [`Call`]; [`Error`] lists what can go wrong.

mod audit;
mod batches;
mod builder;
mod call;
mod client;
#[cfg(test)]
mod corpus;
mod error;
mod feed;
mod jobs;
mod logs;
mod problem;
mod pull;
mod sign_in;
mod sse;

pub use batches::Batch;
pub use builder::Builder;
pub use call::{Answer, Call, Method, Page, segment};
pub use client::{Client, Written};
pub use error::Error;
pub use feed::{Begin, Events, Feed};
pub use jobs::{Applied, ApplyOptions, Change, Job, Run, RunRequest};
pub use logs::{Following, LogEvent, LogPart, LogTail};
pub use problem::{BadField, Problem};
pub use pull::{Grant, Pulled};
pub use sign_in::Token;
pub use sse::Message;
pub use tidemill_model::BatchState;
