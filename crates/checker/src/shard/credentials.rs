//! What people sign in with, and whether those people may.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::{
    Credential, CredentialEvent, CredentialId, CredentialKind, DirectoryEvent, Event, PersonName,
};

use crate::{At, Invariant};

const RULE: Invariant = Invariant::CredentialsAreOfWhoMaySignIn;

/// Who may sign in, and with what.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    /// Those who are enabled.
    enabled: BTreeSet<PersonName>,
    held: BTreeMap<CredentialId, Option<PersonName>>,
    /// Every id that there ever was.
    ids: BTreeSet<CredentialId>,
    passwords: BTreeSet<PersonName>,
    /// Whom the record at hand keeps from signing in.
    left: BTreeSet<PersonName>,
}

impl Credentials {
    pub(super) fn event(&mut self, at: &At<'_>, event: &Event) {
        match event {
            Event::Directory(event) => self.of_directory(event),
            Event::Credential(event) => self.fold(at, event),
            _ => {}
        }
    }

    fn of_directory(&mut self, event: &DirectoryEvent) {
        match event {
            DirectoryEvent::PersonDefined { person } if person.enabled => {
                self.enabled.insert(person.name.clone());
            }
            DirectoryEvent::PersonDefined { person } => self.leaves(&person.name),
            DirectoryEvent::PersonDeleted { name } => self.leaves(name),
            DirectoryEvent::DepartmentDefined { .. } | DirectoryEvent::DepartmentDeleted { .. } => {}
        }
    }

    fn leaves(&mut self, person: &PersonName) {
        self.enabled.remove(person);
        self.left.insert(person.clone());
    }

    fn fold(&mut self, at: &At<'_>, event: &CredentialEvent) {
        match event {
            CredentialEvent::Issued { credential } => self.issued(at, credential),
            CredentialEvent::Ended { credential, person, .. } => {
                if self.held.remove(credential).as_ref() != Some(person) {
                    at.breaks(
                        RULE,
                        format!("credential {credential} ends, and is not there, or of somebody else"),
                    );
                }
            }
            CredentialEvent::AllEnded { person, .. } => {
                self.passwords.remove(person);
                self.held.retain(|_, of| of.as_ref() != Some(person));
            }
            CredentialEvent::Used { credential, .. } => {
                if !self.held.contains_key(credential) {
                    at.breaks(RULE, format!("credential {credential} is used, and has ended"));
                }
            }
            CredentialEvent::PasswordSet { person, hash } => {
                if !self.enabled.contains(person) || !hash.starts_with("$argon2id$") {
                    at.breaks(
                        RULE,
                        format!("{person} gets a password, and is not enabled, or it is no hash"),
                    );
                }
                self.passwords.insert(person.clone());
            }
        }
    }

    fn issued(&mut self, at: &At<'_>, credential: &Credential) {
        let Credential { id, kind, person, expires_at, .. } = credential;
        let is_first = *kind == CredentialKind::Invitation
            && self.passwords.is_empty()
            && self.held.values().all(Option::is_some);
        let is_of_somebody = person.as_ref().map_or(is_first, |person| self.enabled.contains(person));
        if !is_of_somebody {
            at.breaks(RULE, format!("credential {id} is of nobody who may sign in"));
        }
        if *expires_at <= at.now {
            at.breaks(RULE, format!("credential {id} is over as it is issued"));
        }
        if !self.ids.insert(id.clone()) {
            at.breaks(RULE, format!("credential {id} is issued again"));
        }
        self.held.insert(id.clone(), person.clone());
    }

    /// After the whole record.
    pub(super) fn settle(&mut self, at: &At<'_>) {
        for person in std::mem::take(&mut self.left) {
            let has_some =
                self.passwords.contains(&person) || self.held.values().any(|of| of.as_ref() == Some(&person));
            if has_some && !self.enabled.contains(&person) {
                at.breaks(RULE, format!("{person} is disabled or not there, and can sign in"));
            }
        }
    }
}
