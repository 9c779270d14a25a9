//! Sign-in through a provider: one that does what a test says, and a real one.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod answers;
mod attacks;
mod kit;
mod sign_in;
