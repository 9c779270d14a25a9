//! EXE-13: work that attempts start elsewhere: applications of YARN, containers, pods.

use tidemill_derive::vocabulary;

use crate::{ExternalWorkId, Token};

/// External work of an attempt.
#[vocabulary(Eq)]
pub struct ExternalWork {
    /// Which attempt.
    pub token: Token,
    /// What it started, as far as that is known, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<ExternalWorkId>,
}

/// What a worker knows of the external work of an attempt that has ended.
#[vocabulary(Eq, Default)]
pub struct ExternalEnd {
    /// What it started, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<ExternalWorkId>,
    /// The worker cannot tell that all of it has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
}

impl ExternalEnd {
    /// Nothing can be told of an attempt that the worker does not have.
    pub fn unknown() -> Self {
        Self { ids: Vec::new(), unconfirmed: true }
    }
}
