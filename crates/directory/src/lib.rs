//! What those who answer people have to know of the catalogue at once: application keys, groups, where jobs and users of pull
//! tasks are, people and departments, and what people sign in with. Held in memory, and followed from the catalogue's journal, so that none of it is asked
//! from the read tables (API-5, OPS-4).
//!
//! ```text
//!  journal of the catalogue ─► Follower (a thread) ─► Facts (the fold) ─► Known ─► interface: key? group? job? owner?
//! ```
//!
//! *Where it starts.* With the first record, through the archive where there is one, in the background, once for each start of
//! the process. Nothing shorter has all of it: people and departments are in no table, and a copy of keys that was begun with
//! the tables would need a second fold for the rest, and a rule for when the two agree. Until it has reached the end of the journal
//! for the first time, [`Known::is_whole`] is false, and who asks goes to the tables as before.
//!
//! *How old it is.* It follows within milliseconds. It also asks the log several times a second where the journal ends; once it
//! has folded up to there, it is as of the moment of the question ([`Known::is_as_of`]). So a fact that it gives was true at a
//! known moment, also where the log does not answer any more.
//!
//! What it must never do: write anything, know a table, or give a fact of a record that does not count.
//!
//! Where to start reading:
//! - [`Facts`]: the pure fold. [`Directory`]: people and departments, and who stands for whom.
//! - [`Known`]: the same for many who ask, with how far it is.
//! - [`Plan`]: what has to change so that people and departments are what a file says.
//! - [`follow`]: the thread that keeps it.

mod credentials;
mod directory;
mod facts;
mod follow;
mod known;
mod plan;
mod user_groups;

pub use credentials::{Credentials, Held};
pub use directory::{Directory, Owner};
pub use facts::{Facts, Group, Job, Key};
pub use follow::follow;
pub use known::{Known, Progress};
pub use plan::{ChangeKind, EntryKind, Plan, PlannedEntry};
pub use user_groups::{Home, Homed};
