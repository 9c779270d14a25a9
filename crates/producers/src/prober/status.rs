//! How a prober does (MON-6), from its role and what its calls were like.

use tidemill_model::{AuthorityStatus, ProberStatus};
use tidemill_probe::{Late, Statistics};

use super::role::Role;

pub(super) fn status_of(role: &Role, now_ms: u64, statistics: &Statistics) -> ProberStatus {
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
    ProberStatus {
        paths,
        external_dependencies,
        asking: role.asking(),
        failing: role.failing(),
        authorities: statistics.authorities.iter().map(authority).collect(),
    }
}

/// All mounts of this host are late as one.
fn covers(late: &Late, authority: &str) -> bool {
    let name = late.authority.to_string();
    name == authority || (name == "file:///" && authority.starts_with("file:///"))
}
