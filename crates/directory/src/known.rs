//! What is known, for many who ask while one follows.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use tidemill_journal::Read;
use tidemill_model::{CredentialId, GroupId, JobId, PersonName, ShardId, UserName};

use crate::credentials::Held;
use crate::directory::Directory;
use crate::facts::{Facts, Group, Job, Key};
use crate::user_groups::Homed;

/// How far the fold is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The offset of the record that comes next.
    pub next: u64,
    /// Where the journal ended when that was asked last.
    pub end: u64,
    /// It has reached the end of the journal once.
    pub is_whole: bool,
    /// All that was recorded at this moment is in it.
    pub as_of: Option<Instant>,
    /// When it was asked where the journal ends.
    asked_at: Option<Instant>,
}

impl Progress {
    fn note(&mut self) {
        if self.asked_at.is_some() && self.next >= self.end {
            (self.is_whole, self.as_of) = (true, self.asked_at);
        }
    }
}

#[derive(Default)]
struct Shared {
    facts: RwLock<Facts>,
    progress: Mutex<Progress>,
    moved: Condvar,
}

/// Facts of the catalogue, and how far they are. A clone is the same. Without somebody who follows it knows nothing, and says so.
#[derive(Clone, Default)]
pub struct Known(Arc<Shared>);

impl Known {
    /// Nothing is known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An application key that is good.
    #[must_use]
    pub fn key(&self, app: &str) -> Option<Arc<Key>> {
        self.facts().key(app).cloned()
    }

    /// Worker groups, by number.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        self.facts().groups().cloned().collect()
    }

    /// The group of this name.
    #[must_use]
    pub fn group_named(&self, name: &str) -> Option<Group> {
        self.facts().groups().find(|group| group.name.as_str() == name).cloned()
    }

    /// The group whose work the shard does.
    #[must_use]
    pub fn group_of_shard(&self, shard: ShardId) -> Option<Group> {
        self.facts().groups().find(|group| group.shard == shard).cloned()
    }

    /// The group of this number.
    #[must_use]
    pub fn group(&self, id: GroupId) -> Option<Group> {
        self.facts().group(id).cloned()
    }

    /// A job of the catalogue that is not deleted.
    #[must_use]
    pub fn job(&self, job: JobId) -> Option<Job> {
        self.facts().job(job).cloned()
    }

    /// Where a user of pull tasks is at home.
    #[must_use]
    pub fn home(&self, user: &UserName) -> Homed {
        self.facts().home(user)
    }

    /// People and departments as they are now.
    #[must_use]
    pub fn directory(&self) -> Arc<Directory> {
        Arc::clone(self.facts().directory())
    }

    /// A credential that has not ended.
    #[must_use]
    pub fn credential(&self, id: &CredentialId) -> Option<Arc<Held>> {
        self.facts().credentials().get(id).cloned()
    }

    /// Credentials of a person that have not ended, by id.
    #[must_use]
    pub fn credentials_of(&self, person: &PersonName) -> Vec<Arc<Held>> {
        self.facts().credentials().of(person).cloned().collect()
    }

    /// The hash of a person's password.
    #[must_use]
    pub fn password(&self, person: &PersonName) -> Option<Arc<str>> {
        self.facts().credentials().password(person).cloned()
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        *self.lock()
    }

    /// Whether it has been at the end of the journal. Before that, what it does not know may be there all the same.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.lock().is_whole
    }

    /// Whether all that was recorded at this moment is in it.
    #[must_use]
    pub fn is_as_of(&self, moment: Instant) -> bool {
        self.lock().as_of.is_some_and(|as_of| as_of >= moment)
    }

    /// Whether it has the catalogue's record of this offset.
    #[must_use]
    pub fn reaches(&self, offset: u64) -> bool {
        self.lock().next > offset
    }

    /// Waits until it has the catalogue's record of this offset; whether it does.
    #[must_use]
    pub fn wait(&self, offset: u64, timeout: Duration) -> bool {
        self.wait_until(timeout, |progress| progress.next > offset)
    }

    /// Waits until all that was recorded at this moment is in it; whether it is.
    #[must_use]
    pub fn wait_as_of(&self, moment: Instant, timeout: Duration) -> bool {
        self.wait_until(timeout, |progress| progress.as_of.is_some_and(|as_of| as_of >= moment))
    }

    fn wait_until(&self, timeout: Duration, is_so: impl Fn(&Progress) -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        let mut progress = self.lock();
        while !is_so(&progress) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            progress = self.0.moved.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Takes in what was read next.
    pub fn take(&self, read: &Read) {
        if !read.entries.is_empty() {
            let mut facts = self.0.facts.write().unwrap_or_else(PoisonError::into_inner);
            read.entries.iter().for_each(|entry| facts.apply(&entry.envelope));
        }
        if let Some(last) = read.last {
            self.change(|progress| progress.next = progress.next.max(last + 1));
        }
    }

    /// At this moment the journal ended before this offset.
    pub fn ends(&self, end: u64, asked_at: Instant) {
        self.change(|progress| (progress.end, progress.asked_at) = (end, Some(asked_at)));
    }

    /// What is known is of another journal.
    pub(crate) fn forget(&self) {
        // Who asks meanwhile is not to take what is not known yet for what is not there.
        self.change(|progress| *progress = Progress::default());
        *self.0.facts.write().unwrap_or_else(PoisonError::into_inner) = Facts::default();
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        let mut progress = self.lock();
        change(&mut progress);
        progress.note();
        self.0.moved.notify_all();
    }

    // Each event is applied as a whole or, where it panics, not at all: the maps are never half changed.
    fn facts(&self) -> RwLockReadGuard<'_, Facts> {
        self.0.facts.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
