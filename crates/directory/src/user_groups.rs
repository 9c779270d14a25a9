//! The home groups of users of pull tasks. There may be millions of users, so a user is kept as a part of the name's SHA-256, and
//! takes 20 to 45 bytes; beyond a bound users are not kept.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};
use tidemill_model::{ShardId, UserName};

/// Users that are kept: about 160 MiB.
const USERS: usize = 7_000_000;

/// Where a user's tasks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    /// The shard of the home group.
    pub shard: ShardId,
    /// It is asked to let the user go.
    pub moving: bool,
}

/// What is known of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Homed {
    /// The home group.
    At(Home),
    /// The user has none.
    Nowhere,
    /// There are more users than are kept, and this one may be among the others.
    NotKept,
}

/// So many bits of a name that no two names have the same.
type Mark = [u8; 16];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserGroups {
    of: HashMap<Mark, Home>,
    bound: usize,
    /// Some user was left out.
    is_over: bool,
}

impl Default for UserGroups {
    fn default() -> Self {
        Self { of: HashMap::new(), bound: USERS, is_over: false }
    }
}

fn mark(user: &UserName) -> Mark {
    let digest = Sha256::digest(user.as_str().as_bytes());
    std::array::from_fn(|at| digest[at])
}

impl UserGroups {
    pub(crate) fn of(&self, user: &UserName) -> Homed {
        match self.of.get(&mark(user)) {
            Some(home) => Homed::At(*home),
            None if self.is_over => Homed::NotKept,
            None => Homed::Nowhere,
        }
    }

    /// The user is at home in this group from now on.
    pub(crate) fn put(&mut self, user: &UserName, shard: ShardId) {
        let (mark, home) = (mark(user), Home { shard, moving: false });
        if self.of.len() < self.bound || self.of.contains_key(&mark) {
            self.of.insert(mark, home);
        } else {
            self.is_over = true;
        }
    }

    pub(crate) fn remove(&mut self, user: &UserName) {
        self.of.remove(&mark(user));
    }

    pub(crate) fn moves(&mut self, user: &UserName, moving: bool) {
        if let Some(home) = self.of.get_mut(&mark(user)) {
            home.moving = moving;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

    use super::*;

    /// OPS-7: beyond the bound nobody is taken for one without a home.
    #[test]
    fn users_beyond_the_bound_are_not_kept_and_not_denied() {
        let user = |name: &str| UserName::try_from(name).unwrap();
        let mut user_groups = UserGroups { bound: 2, ..UserGroups::default() };
        user_groups.put(&user("ann"), ShardId(1));
        user_groups.put(&user("bob"), ShardId(1));
        assert_eq!(user_groups.of(&user("eve")), Homed::Nowhere);
        user_groups.put(&user("eve"), ShardId(2));
        assert_eq!(user_groups.of(&user("eve")), Homed::NotKept);
        user_groups.put(&user("ann"), ShardId(2));
        user_groups.moves(&user("ann"), true);
        assert_eq!(user_groups.of(&user("ann")), Homed::At(Home { shard: ShardId(2), moving: true }));
        user_groups.remove(&user("bob"));
        assert_eq!(
            user_groups.of(&user("bob")),
            Homed::NotKept,
            "the journal says it, and the fold forgot whom it left out"
        );
    }

    #[test]
    fn a_user_takes_few_bytes() {
        assert!(size_of::<(Mark, Home)>() <= 20);
    }
}
