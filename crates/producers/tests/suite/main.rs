//! The tests of the roles that send commands.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod kit;
mod prober;
mod prober_role;
mod quality;
mod third_party;
