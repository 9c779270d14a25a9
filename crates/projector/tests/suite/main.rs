//! The projector's tests.
#![allow(clippy::too_many_lines, reason = "a test tells its story from beginning to end")]
#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod alone;
mod audit;
mod beside;
mod corpus;
mod fold;
mod hints;
#[cfg(feature = "mysql")]
mod mysql;
mod publish;
mod pull;
mod rebuild;
mod run;
mod schemas;
mod since;
mod support;
mod watched;
