//! The dispatcher on the embedded log.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[macro_use]
mod kit;

suite!(kit::site::Site::sqlite());
