//! What people sign in with.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tidemill_model::{
    Credential, CredentialEvent, CredentialId, CredentialKind, Permission, PersonName, Timestamp,
};

/// A credential that has not ended. Whether its time is over, its reader says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its id.
    pub id: CredentialId,
    /// What it is for.
    pub kind: CredentialKind,
    /// Whose it is; `None`: an invitation of the first start.
    pub person: Option<PersonName>,
    /// SHA-256 of the secret, hex.
    pub hash: Arc<str>,
    /// What the person calls it, or how the person signed in.
    pub title: Arc<str>,
    /// What a token may of what the person may; empty: all of it.
    pub may: BTreeSet<Permission>,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// From then on it is not good.
    pub expires_at: Timestamp,
    /// When it was shown last, within an hour; `None`: not yet.
    pub used_at: Option<Timestamp>,
}

/// All of them, and passwords.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    held: HashMap<CredentialId, Arc<Held>>,
    of: BTreeMap<PersonName, BTreeSet<CredentialId>>,
    passwords: HashMap<PersonName, Arc<str>>,
}

impl Credentials {
    /// Takes the next event in.
    pub(crate) fn apply(&mut self, now: Timestamp, event: &CredentialEvent) {
        match event {
            CredentialEvent::Issued { credential } => self.issued(now, credential),
            CredentialEvent::Ended { credential, person, .. } => {
                self.held.remove(credential);
                let Some(person) = person else { return };
                if let Some(all) = self.of.get_mut(person) {
                    all.remove(credential);
                    if all.is_empty() {
                        self.of.remove(person);
                    }
                }
            }
            CredentialEvent::AllEnded { person, .. } => {
                self.passwords.remove(person);
                for id in self.of.remove(person).into_iter().flatten() {
                    self.held.remove(&id);
                }
            }
            CredentialEvent::Used { credential, at } => {
                if let Some(held) = self.held.get_mut(credential) {
                    Arc::make_mut(held).used_at = Some(*at);
                }
            }
            CredentialEvent::PasswordSet { person, hash } => {
                self.passwords.insert(person.clone(), Arc::clone(hash));
            }
        }
    }

    fn issued(&mut self, now: Timestamp, credential: &Credential) {
        let Credential { id, kind, person, hash, title, may, expires_at } = credential;
        if let Some(person) = person {
            self.of.entry(person.clone()).or_default().insert(id.clone());
        }
        let held = Held {
            id: id.clone(),
            kind: *kind,
            person: person.clone(),
            hash: hash.as_str().into(),
            title: title.as_str().into(),
            may: may.clone(),
            issued_at: now,
            expires_at: *expires_at,
            used_at: None,
        };
        self.held.insert(id.clone(), Arc::new(held));
    }

    /// One that has not ended.
    #[must_use]
    pub fn get(&self, id: &CredentialId) -> Option<&Arc<Held>> {
        self.held.get(id)
    }

    /// Those of a person, by id.
    pub fn of<'c>(&'c self, person: &PersonName) -> impl Iterator<Item = &'c Arc<Held>> {
        let all = self.of.get(person).into_iter().flatten();
        all.filter_map(|id| self.held.get(id))
    }

    /// The hash of a person's password, as argon2id writes it.
    #[must_use]
    pub fn password(&self, person: &PersonName) -> Option<&Arc<str>> {
        self.passwords.get(person)
    }
}
