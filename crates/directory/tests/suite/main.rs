//! What is known of the catalogue, on the memory log.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod fold;
mod follow;
mod people;
#[allow(dead_code, reason = "the journal's own tests use the rest")]
#[path = "../../../journal/tests/suite/support/mod.rs"]
mod support;
