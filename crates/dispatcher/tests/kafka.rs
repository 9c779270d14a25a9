//! The dispatcher on Kafka, against the broker that `TIDEMILL_TEST_KAFKA` names.

#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[macro_use]
mod kit;

suite!(kit::site::Site::kafka());
