//! A parent of a job, as people write it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Mapping;

/// A parent, as written: `name`, `group/name`, or with its mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum ParentSpec {
    /// Mapping *same*.
    Name(String),
    /// With its mapping.
    Mapped {
        /// `name`, or `group/name`.
        job: String,
        /// For which logical times.
        #[serde(default)]
        mapping: Mapping,
    },
}

impl ParentSpec {
    /// The parent's name as written.
    pub fn job(&self) -> &str {
        match self {
            ParentSpec::Name(job) | ParentSpec::Mapped { job, .. } => job,
        }
    }

    /// Its mapping.
    pub fn mapping(&self) -> Mapping {
        match self {
            ParentSpec::Name(_) => Mapping::Same,
            ParentSpec::Mapped { mapping, .. } => *mapping,
        }
    }
}
