//! Journals on the memory log, as their readers see them.

#![allow(clippy::unwrap_used)]

mod corpus;
mod feed;
#[allow(dead_code, reason = "the projector's tests use the rest")]
mod support;
