//! What makes a snapshot count, and what is done with one that does not.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod kit;
mod restoring;
mod verifying;
