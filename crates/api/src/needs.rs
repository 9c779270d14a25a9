//! What a call declares that it needs, and how far its caller has to reach for it.

use tidemill_model::Permission;

use crate::Problem;
use crate::rights::Caller;

/// How far a caller has to reach for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It shows what belongs to the whole site, to every key.
    Everybody,
    /// The group of what it is about; lists show what the key reaches.
    Groups,
    /// What the key itself asked for, else the whole site.
    Own,
    /// The whole site: the key is bound to no group.
    Site,
}

impl Reach {
    /// The word of the document and of the reference.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Reach::Everybody => "everybody",
            Reach::Groups => "group",
            Reach::Own => "own",
            Reach::Site => "site",
        }
    }

    /// For people.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Reach::Everybody => "It is of the whole site, and everybody sees it.",
            Reach::Groups => "Who is bound has it for what they reach.",
            Reach::Own => "Who is bound has it for what they asked for themselves.",
            Reach::Site => "Who is bound does not have it.",
        }
    }
}

/// What a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) permission: Permission,
    pub(crate) reach: Reach,
}

impl Needs {
    /// Whether the caller may make the call at all. For which objects is for the handler, which knows what it is about.
    pub(crate) fn check(self, caller: &Caller) -> Result<(), Problem> {
        match self.reach {
            Reach::Site => caller.for_site(self.permission).map(drop),
            Reach::Everybody | Reach::Groups | Reach::Own => caller.has(self.permission),
        }
    }

    /// Of what the call may be made by a caller who may make it.
    pub(crate) fn reached(self, caller: &Caller) -> String {
        match (self.reach, caller.bound_to()) {
            (Reach::Groups, Some(bound)) => format!("for what is of {bound}"),
            (Reach::Own, Some(_)) => "for what the caller asked for".to_owned(),
            (Reach::Everybody | Reach::Groups | Reach::Own | Reach::Site, _) => {
                "for the whole site".to_owned()
            }
        }
    }
}
