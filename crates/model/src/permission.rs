//! What a person or a key may, each by itself.

use std::collections::BTreeSet;

use tidemill_derive::{Word, vocabulary};

use crate::{GroupName, Role, bounds};

/// Something that one may or may not.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Hash, Word)]
pub enum Permission {
    /// To see jobs, their batches and what they wait for.
    View,
    /// To read what jobs print.
    ReadLogs,
    /// To run, rerun, end and mark batches, to freeze a group, drain a host and pull tasks.
    Operate,
    /// To define, change, switch and remove jobs and pull tasks.
    Edit,
    /// To name a job as parent that one does not see: its name is shown, and how the batches stand that are waited for.
    Depend,
    /// To let a batch run without conditions that it waits for.
    Override,
    /// To answer for the quality service or a third party.
    Answer,
    /// To say that nothing of an attempt or of a worker runs any more.
    DeclareDead,
    /// To change calendars, pools, people, departments and users of pull tasks, and to read the audit list.
    Administer,
    /// To generate batches of the past again, of every job of a period.
    ColdStart,
    /// To change keys, groups and the level, and to repair.
    Manage,
}

impl Permission {
    /// All of them, the lowest role's first.
    pub const ALL: [Self; 11] = [
        Self::View,
        Self::ReadLogs,
        Self::Operate,
        Self::Edit,
        Self::Depend,
        Self::Override,
        Self::Answer,
        Self::DeclareDead,
        Self::Administer,
        Self::ColdStart,
        Self::Manage,
    ];

    /// The lowest role that has it.
    #[must_use]
    pub const fn role(self) -> Role {
        match self {
            Self::View | Self::ReadLogs => Role::Viewer,
            Self::Operate | Self::Edit | Self::Depend => Role::User,
            Self::Override | Self::Answer | Self::DeclareDead | Self::Administer => Role::Administrator,
            Self::ColdStart | Self::Manage => Role::SuperAdministrator,
        }
    }

    /// Whether it is about jobs or groups, and can be granted beside a role. The others are of the whole site.
    #[must_use]
    pub const fn can_be_granted(self) -> bool {
        !matches!(self, Self::Administer | Self::ColdStart | Self::Manage)
    }

    /// Whether it changes something.
    #[must_use]
    pub const fn changes(self) -> bool {
        !matches!(self, Self::View | Self::ReadLogs)
    }
}

impl Role {
    /// Whether the role has it.
    #[must_use]
    pub fn has(self, permission: Permission) -> bool {
        self >= permission.role()
    }
}

/// What a grant is on.
#[vocabulary(Eq, PartialOrd, Ord)]
pub enum GrantOn {
    /// One job, `group/name`, as it is called.
    Job(#[schemars(length(min = 3, max = bounds::JOB_PATH_BYTES))] String),
    /// A group: its jobs, and its workers and pull tasks.
    Group(GroupName),
    /// The jobs of this business type.
    BusinessType(#[schemars(length(min = 1, max = bounds::BUSINESS_NAME_CHARS))] String),
}

/// Something that a person, or everybody of a department, may beside what the role gives.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// On what.
    pub on: GrantOn,
    /// What: `view`, `read_logs`, `operate`, `edit`, `depend`, `override`, `answer`, `declare_dead`; each but `depend` gives
    /// `view`, too.
    #[schemars(with = "Vec<Permission>", length(min = 1))]
    pub may: BTreeSet<Permission>,
}

impl Grant {
    /// Whether it gives this. Whoever may do anything with a job may see it, but who may only depend on it.
    #[must_use]
    pub fn gives(&self, needed: Permission) -> bool {
        let shows = || self.may.iter().any(|may| *may != Permission::Depend);
        self.may.contains(&needed) || needed == Permission::View && shows()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-5: a grant shows what it is on, but one that only lets jobs depend on that.
    #[test]
    fn who_may_only_depend_does_not_see() {
        let grant = |may: &[Permission]| Grant {
            on: GrantOn::Job("g/a".to_owned()),
            may: may.iter().copied().collect(),
        };
        for may in Permission::ALL.into_iter().filter(|may| may.can_be_granted()) {
            assert_eq!(grant(&[may]).gives(Permission::View), may != Permission::Depend, "{may}");
            assert!(grant(&[may]).gives(may) && grant(&[Permission::Depend, may]).gives(may), "{may}");
        }
    }

    /// API-5: a role has what those before it have, and what is granted is never of the whole site.
    #[test]
    fn roles_include_those_before_them() {
        let of = |role: Role| Permission::ALL.into_iter().filter(move |of| role.has(*of)).count();
        assert_eq!(
            [Role::Viewer, Role::User, Role::Administrator, Role::SuperAdministrator].map(of),
            [2, 5, 9, 11]
        );
        let granted = Permission::ALL.into_iter().filter(|of| of.can_be_granted()).count();
        assert_eq!(granted, 8);
    }
}
