//! How a prober does, for status pages and metrics (MON-6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_probe::{Late, Statistics};

use super::role::Role;

/// How a prober does at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Distinct paths that this process asks for.
    pub paths: usize,
    /// What waits for them; one path may be waited for in several groups.
    pub external_dependencies: usize,
    /// Paths being asked for.
    pub asking: usize,
    /// Paths whose last check failed after all its tries, or hung.
    pub failing: usize,
    /// Each name node, mount and bucket that was asked.
    pub authorities: Vec<AuthorityStatus>,
}

/// How a name node, a mount or a bucket was asked since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuthorityStatus {
    /// Which, as `hdfs://host:port`.
    pub authority: String,
    /// By how much the path is late that was checked longest ago, milliseconds; 0: none is.
    pub late_ms: u64,
    /// How many paths are late.
    pub late_paths: usize,
    /// Calls for one path.
    pub look_calls: u64,
    /// Calls for a page of a listing.
    pub list_calls: u64,
    /// Calls that were not answered in their time, and were abandoned.
    pub hung_calls: u64,
    /// Calls that failed.
    pub failed_calls: u64,
    /// How often it began to be left alone for a while.
    pub pauses: u64,
    /// Time within which 99 of 100 calls were answered, microseconds; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<u64>,
}

impl Status {
    pub(super) fn of(role: &Role, now_ms: u64, statistics: &Statistics) -> Self {
        let (paths, external_dependencies) = role.waiting();
        let late = role.late(now_ms);
        let authority = |(name, counts): (&String, &tidemill_probe::Counts)| {
            let late = late.iter().find(|late| covers(late, name));
            AuthorityStatus {
                authority: name.clone(),
                late_ms: late.map_or(0, |late| late.late_ms),
                late_paths: late.map_or(0, |late| late.paths),
                look_calls: counts.look_calls,
                list_calls: counts.list_calls,
                hung_calls: counts.hung_calls,
                failed_calls: counts.failed_calls,
                pauses: counts.pauses,
                p99_us: counts.latency.within(0.99).and_then(|time| u64::try_from(time.as_micros()).ok()),
            }
        };
        Self {
            paths,
            external_dependencies,
            asking: role.asking(),
            failing: role.failing(),
            authorities: statistics.authorities.iter().map(authority).collect(),
        }
    }
}

/// All mounts of this host are late as one.
fn covers(late: &Late, authority: &str) -> bool {
    let name = late.authority.to_string();
    name == authority || (name == "file:///" && authority.starts_with("file:///"))
}
