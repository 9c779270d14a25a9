//! Errors with what caused them, for people.

use std::error::Error;
use std::iter::successors;

/// An error and everything below it as one line, for a log.
#[must_use]
pub fn causes(error: &dyn Error) -> String {
    let below = successors(error.source(), |&cause| cause.source());
    below.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
