//! A cluster that is not there: a memory log, and owners that say what a test gives them.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod corpus;
mod lines;
mod live;
mod rules;
mod submitter;
mod wire;
