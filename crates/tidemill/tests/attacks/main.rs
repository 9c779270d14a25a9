//! What attackers tried on a running server, from outside and from jobs, and what it has to hold against.
#![allow(clippy::too_many_lines, reason = "a test tells its story from beginning to end")]
#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

#[path = "../server/mod.rs"]
mod server;

mod damage;
mod files;
mod first_start;
mod logs;
mod net;
mod requests;
mod rights;
