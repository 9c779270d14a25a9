//! Pools: how many batches of all jobs that name one may be assigned or run at once, and how often they start.
//! Defined in the catalogue, used by jobs by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::vocabulary;

use crate::{BatchId, GroupName, JobId, PoolName, Versioned, bounds};

/// What one batch takes of a pool while it is assigned or runs. One slot of it is written as its name.
#[vocabulary(Eq, PartialOrd, Ord, Hash)]
#[serde(from = "PoolUseForm", into = "PoolUseForm")]
#[schemars(with = "PoolUseForm")]
pub struct PoolUse {
    /// Which pool.
    pub name: PoolName,
    /// Slots of it.
    pub weight: u32,
}

/// A pool that a job uses: its name, or with how many slots of it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "PoolUse")]
enum PoolUseForm {
    /// One slot of it.
    Name(PoolName),
    /// So many.
    Weighed(WeighedPoolUse),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WeighedPoolUse {
    /// Which pool.
    name: PoolName,
    /// Slots of it; default 1.
    #[serde(default = "crate::one")]
    #[schemars(range(min = 1, max = bounds::POOL_SLOTS))]
    weight: u32,
}

impl From<PoolUseForm> for PoolUse {
    fn from(form: PoolUseForm) -> Self {
        match form {
            PoolUseForm::Name(name) => PoolUse { name, weight: 1 },
            PoolUseForm::Weighed(WeighedPoolUse { name, weight }) => PoolUse { name, weight },
        }
    }
}

impl From<PoolUse> for PoolUseForm {
    fn from(PoolUse { name, weight }: PoolUse) -> Self {
        if weight == 1 {
            PoolUseForm::Name(name)
        } else {
            PoolUseForm::Weighed(WeighedPoolUse { name, weight })
        }
    }
}

/// How often batches that use a pool may start.
#[vocabulary(Copy, Eq)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// At most so many are assigned, 1 to 1,000, …
    #[schemars(range(min = 1, max = bounds::POOL_STARTS))]
    pub starts: u32,
    /// … in any span of this many seconds, 1 to 86,400.
    #[schemars(range(min = 1, max = bounds::POOL_INTERVAL_S))]
    pub interval_s: u32,
}

/// A pool as written.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct PoolSpec {
    /// Its name, one for all groups.
    pub name: PoolName,
    /// Slots that batches hold at once while they are assigned or run, 1 to 1,000,000.
    #[schemars(range(min = 1, max = bounds::POOL_SLOTS))]
    pub slots: u32,
    /// How often batches may start; absent: as often as there is room.
    pub rate: Option<Rate>,
    /// The group whose jobs may use it; absent: those of all groups share it.
    pub group: Option<GroupName>,
    /// Free text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = bounds::COMMENT_BYTES))]
    pub comment: String,
}

/// A pool as the catalogue accepted it.
pub type Pool = Versioned<PoolSpec>;

/// What became of a group's permits since it last told, and how many it would have. A permit lets one batch take all
/// that it needs of pools that groups share.
#[vocabulary(Eq)]
pub struct PermitReport {
    /// All shared pools that one batch needs.
    pub pools: Vec<PoolUse>,
    /// Permits with which a batch was assigned.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub started: u32,
    /// Permits that come back, for such an assignment has ended.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub ended: u32,
    /// Permits that come back with no batch having been assigned.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub unused: u32,
    /// Permits that it would have for batches that are ready, those included that it has.
    pub wanted: u32,
}

/// Who holds slots of a pool.
#[vocabulary(Eq)]
pub struct PoolHolder {
    /// The group.
    pub group: GroupName,
    /// The batch; absent where only the group's share is known.
    pub batch: Option<BatchId>,
    /// Its job.
    pub job: Option<JobId>,
    /// So many.
    pub slots: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unreadable::fault;
    use serde_json::json;

    /// BYD-4: an error names the field by its path, with what was given there.
    #[test]
    fn errors_name_field_value_and_rule() {
        let table = [
            (json!({"slots": "many"}), "slots", "many"),
            (json!({"name": "a/b"}), "name", "a/b"),
            (json!({"rate": {"starts": 1, "interval": 5}}), "rate.interval", "5"),
            (json!({"size": 3}), "size", "3"),
        ];
        for (fields, field, given) in table {
            let error = fault(json!({"name": "api", "slots": 2}), &fields, PoolSpec::from_value);
            assert_eq!((error.field.as_str(), error.value.as_str()), (field, given), "{error}");
        }
        assert_eq!(PoolSpec::from_value(json!({"name": "api"})).unwrap_err().field, "slots");
    }

    #[test]
    fn a_use_is_written_short_where_it_takes_one_slot() {
        let written = json!(["a", {"name": "b", "weight": 2}]);
        let uses: Vec<PoolUse> = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(uses.iter().map(|of| of.weight).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(serde_json::to_value(uses).unwrap(), written);
    }
}
