//! The tests of the model.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod corpus;
