//! What people sign in with: sessions, tokens, invitations and passwords (API-5).
//!
//! Interfaces look at secrets; the catalogue decides what is issued, and to whom. The journal says who may call: a credential
//! is good from its `credential.issued` until its time is over or a record ends it.
//!
//! *Invariant:* whoever has a credential or a password is in the directory and enabled. The record by which somebody leaves
//! ends all of it. An invitation of the first start alone is nobody's, and there is at most one.

mod form;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{
    Actor, Answer, Credential, CredentialCommand, CredentialEnd, CredentialEvent, CredentialId,
    CredentialKind, CredentialProof, CredentialUse, CredentialsToEnd, DirectoryChange, DirectoryEvent, Event,
    Permission, Person, PersonName, Rejection, Role, Timestamp, bounds,
};

use self::form::{check, hours};
use super::{Catalogue, Directory, check_bytes, check_count};
use crate::decision::{Decision, Ruled};

/// As the record names whoever is signed in.
pub(super) const SESSION: &str = "session";
/// As the record names whoever calls by a token; its id follows.
const TOKEN: &str = "token:";
/// A hash of a password with its salt and costs.
const PASSWORD_BYTES: usize = 200;
/// Between two uses of a credential that are on record.
const USE_HOURS: i64 = 1;

/// Everything that people sign in with.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Credentials {
    held: BTreeMap<CredentialId, Held>,
    /// Whose; nobody: the invitation of the first start.
    of: BTreeMap<Option<PersonName>, BTreeSet<CredentialId>>,
    /// Their hashes.
    passwords: BTreeMap<PersonName, Arc<str>>,
}

#[derive(Debug, Clone, PartialEq, Stored)]
struct Held {
    kind: CredentialKind,
    person: Option<PersonName>,
    /// What a token may of what the person may; nothing: all of it.
    may: BTreeSet<Permission>,
    expires_at: Timestamp,
    used_at: Option<Timestamp>,
}

impl Credentials {
    pub(super) fn apply(&mut self, event: &CredentialEvent) {
        match event {
            CredentialEvent::Issued { credential } => {
                let Credential { id, kind, person, may, expires_at, .. } = credential.as_ref();
                self.of.entry(person.clone()).or_default().insert(id.clone());
                let (person, may) = (person.clone(), may.clone());
                let held = Held { kind: *kind, person, may, expires_at: *expires_at, used_at: None };
                self.held.insert(id.clone(), held);
            }
            CredentialEvent::Ended { credential, .. } => {
                let Some(held) = self.held.remove(credential) else { return };
                if let Some(others) = self.of.get_mut(&held.person) {
                    others.remove(credential);
                    if others.is_empty() {
                        self.of.remove(&held.person);
                    }
                }
            }
            CredentialEvent::AllEnded { person, .. } => {
                self.passwords.remove(person);
                for id in self.of.remove(&Some(person.clone())).into_iter().flatten() {
                    self.held.remove(&id);
                }
            }
            CredentialEvent::Used { credential, at } => {
                if let Some(held) = self.held.get_mut(credential) {
                    held.used_at = Some(*at);
                }
            }
            CredentialEvent::PasswordSet { person, hash } => {
                self.passwords.insert(person.clone(), Arc::clone(hash));
            }
        }
    }

    /// What ends with a change of the directory: all, where somebody leaves; the invitation of whoever gets another role, for
    /// who made it may be one who may less than that.
    pub(super) fn left(&self, directory: &Directory, event: &DirectoryEvent) -> Option<CredentialEvent> {
        let person = match event {
            DirectoryEvent::PersonDefined { person } if !person.enabled => &person.name,
            DirectoryEvent::PersonDefined { person }
                if directory.person(person.name.as_str()).is_some_and(|old| old.role != person.role) =>
            {
                let invited = self.of_kind(&Some(person.name.clone()), CredentialKind::Invitation);
                return invited.first().map(|of| ended(*of, CredentialEnd::Revoked));
            }
            DirectoryEvent::PersonDeleted { name } => name,
            DirectoryEvent::PersonDefined { .. }
            | DirectoryEvent::DepartmentDefined { .. }
            | DirectoryEvent::DepartmentDeleted { .. } => return None,
        };
        planted!(WhoLeavesStaysSignedIn => return None);
        let has_some = self.passwords.contains_key(person) || self.of.contains_key(&Some(person.clone()));
        let reason = CredentialEnd::PersonLeft;
        has_some.then(|| CredentialEvent::AllEnded { person: person.clone(), reason })
    }

    /// Whether somebody can sign in, or is invited by name.
    fn anybody_signs_in(&self, now: Timestamp) -> bool {
        let is_good = |held: &Held| held.person.is_some() && held.expires_at > now;
        !self.passwords.is_empty() || self.held.values().any(is_good)
    }

    /// Whether what the person has shown is good still.
    fn is_shown(&self, person: &PersonName, shown: &CredentialProof, now: Timestamp) -> bool {
        match shown {
            CredentialProof::Password(hash) => self.passwords.get(person).is_some_and(|of| **of == **hash),
            CredentialProof::Session(id) => self.held.get(id).is_some_and(|held| {
                let is_session = held.kind == CredentialKind::Session && held.expires_at > now;
                is_session && held.person.as_ref() == Some(person)
            }),
        }
    }

    /// Those of a kind that a person has, the one that ends first before the others.
    fn of_kind(&self, person: &Option<PersonName>, kind: CredentialKind) -> Vec<(&CredentialId, &Held)> {
        let all = self.of.get(person).into_iter().flatten().filter_map(|id| self.held.get_key_value(id));
        let mut all: Vec<_> = all.filter(|(_, held)| held.kind == kind).collect();
        all.sort_by_key(|(_, held)| held.expires_at);
        all
    }

    /// The token by which the record says that somebody called.
    fn token_of(&self, actor: &Actor) -> Option<&Held> {
        self.held.get(&CredentialId::try_from(actor.app.strip_prefix(TOKEN)?).ok()?)
    }

    /// Whether these are the words by which the record names a credential of this person.
    fn is_own(&self, actor: &Actor, person: &Person) -> bool {
        let is_hers = |held: &Held| held.person.as_ref() == Some(&person.name);
        *actor.app == *SESSION || self.token_of(actor).is_some_and(is_hers)
    }
}

impl Catalogue {
    /// The person who asks by what they sign in with themselves, and not by an application's key.
    pub(super) fn own_caller(&self, actor: &Actor) -> Option<&Person> {
        // A key of before people signed in may be called so.
        if self.keys.contains_key(&*actor.app) {
            return None;
        }
        let person = self.directory.person(actor.user.as_deref()?).filter(|person| person.enabled)?;
        self.credentials.is_own(actor, person).then_some(person)
    }

    /// Whether somebody who calls themselves may this of what they may: a token may be for less.
    pub(super) fn own_may(&self, actor: &Actor, needed: Permission) -> bool {
        let token = self.credentials.token_of(actor);
        let is_for_this = token.is_none_or(|held| held.may.is_empty() || held.may.contains(&needed));
        self.own_caller(actor).is_some() && is_for_this
    }

    pub(super) fn decide_credential(&self, by: &Actor, now: Timestamp, command: &CredentialCommand) -> Ruled {
        let events = match command {
            CredentialCommand::Issue { credential, shown, first_only } => {
                self.issue(by, now, (credential, shown.as_ref()), *first_only)?
            }
            CredentialCommand::Redeem { invitation, person, password, session } => {
                let events = self.redeem(now, invitation, (person, password), session)?;
                return Ok(Decision::answered(events, Answer::Done));
            }
            CredentialCommand::ChangePassword { person, old, by, password, session } => {
                self.enabled(person)?;
                self.check_shown(person, &CredentialProof::Session(by.clone()), now)?;
                self.check_shown(person, &CredentialProof::Password(old.clone()), now)?;
                self.new_password(now, person, password, session)?
            }
            CredentialCommand::End { person, which } => self.end(person, which)?,
            CredentialCommand::ReportUses { uses } => self.used(now, uses)?,
        };
        Ok(Decision::answered(events.into_iter().map(Event::from).collect(), Answer::Done))
    }

    fn issue(
        &self,
        by: &Actor,
        now: Timestamp,
        (credential, shown): (&Credential, Option<&CredentialProof>),
        first_only: bool,
    ) -> Result<Vec<CredentialEvent>, Rejection> {
        check(credential, now)?;
        let Credential { kind, person, .. } = credential;
        if first_only && self.credentials.anybody_signs_in(now) {
            return Err(Rejection::AlreadyThere { what: "somebody who can sign in".to_owned() });
        }
        match person {
            Some(person) => drop(self.enabled(person)?),
            None if first_only && *kind == CredentialKind::Invitation => {}
            None => {
                let rule = "is missing: of the first start's invitation alone nobody's name is known";
                return Err(Rejection::field("person", "", rule));
            }
        }
        let is_of_asker = person.as_ref().map(PersonName::as_str) == by.user.as_deref();
        if *kind != CredentialKind::Invitation && !(is_of_asker && *by.app == *SESSION) {
            let rule = "is for the person, and for nobody else, to get, who is signed in";
            return Err(Rejection::field("person", person.as_ref().map_or("", PersonName::as_str), rule));
        }
        match (kind, person, shown) {
            (CredentialKind::Token, Some(_), None | Some(CredentialProof::Password(_))) => {
                let rule = "must be the session by which the person calls who gets a token";
                return Err(Rejection::field("shown", "", rule));
            }
            (_, Some(person), Some(shown)) => self.check_shown(person, shown, now)?,
            (_, _, None) | (_, None, Some(_)) => {}
        }
        self.room_for(now, credential)
    }

    /// Refuses what was good when the interface looked at it, and is not any more.
    fn check_shown(
        &self,
        person: &PersonName,
        shown: &CredentialProof,
        now: Timestamp,
    ) -> Result<(), Rejection> {
        if self.credentials.is_shown(person, shown, now) {
            return Ok(());
        }
        let what = match shown {
            CredentialProof::Session(_) => "session",
            CredentialProof::Password(_) => "password",
        };
        Err(Rejection::field(
            "shown",
            "(not shown)",
            format!("is a {what} of {person} no more; sign in again"),
        ))
    }

    /// The credential, and what ends for it: what is over, and what there would be too much of.
    fn room_for(&self, now: Timestamp, credential: &Credential) -> Result<Vec<CredentialEvent>, Rejection> {
        let Credential { id, kind, person, .. } = credential;
        if self.credentials.held.contains_key(id) {
            return Err(Rejection::field("id", id, "is that of another credential; draw another one"));
        }
        let all = self.credentials.of_kind(person, *kind);
        let (over, good): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, held)| held.expires_at <= now);
        let too_many = (good.len() + 1).saturating_sub(kind.most());
        if too_many > 0 && *kind == CredentialKind::Token {
            return Err(Rejection::limit("the number of a person's tokens", kind.most() as u64));
        }
        let mut events: Vec<_> = over.into_iter().map(|of| ended(of, CredentialEnd::Expired)).collect();
        events.extend(good.into_iter().take(too_many).map(|of| ended(of, CredentialEnd::Replaced)));
        events.push(CredentialEvent::Issued { credential: Arc::new(credential.clone()) });
        Ok(events)
    }

    fn enabled(&self, name: &PersonName) -> Result<&Person, Rejection> {
        match self.directory.person(name.as_str()) {
            Some(person) if person.enabled => Ok(person),
            Some(_) => Err(Rejection::field("person", name, "is disabled; enable the person first")),
            None => Err(Rejection::unknown("person", name)),
        }
    }

    fn redeem(
        &self,
        now: Timestamp,
        invitation: &CredentialId,
        (person, password): (&PersonName, &str),
        session: &Credential,
    ) -> Result<Vec<Event>, Rejection> {
        let held = self.credentials.held.get(invitation);
        let held = held.filter(|held| held.kind == CredentialKind::Invitation && now < held.expires_at);
        let is_of = |held: &&Held| held.person.as_ref().is_none_or(|of| of == person);
        let Some(held) = held.filter(is_of) else {
            return Err(Rejection::unknown("invitation", invitation));
        };
        let mut events = Vec::new();
        match held.person {
            Some(_) => drop(self.enabled(person)?),
            // It was of use as long as nobody could sign in.
            None if self.credentials.anybody_signs_in(now) => {
                return Err(Rejection::unknown("invitation", invitation));
            }
            None => events.extend(self.first_person(person)?),
        }
        events.push(ended((invitation, held), CredentialEnd::Used).into());
        events.extend(self.new_password(now, person, password, session)?.into_iter().map(Event::from));
        Ok(events)
    }

    /// Adds the first super-administrator, or takes who is one already.
    fn first_person(&self, name: &PersonName) -> Result<Vec<Event>, Rejection> {
        match self.directory.person(name.as_str()) {
            Some(person) if person.enabled && person.role == Role::SuperAdministrator => Ok(Vec::new()),
            Some(_) => {
                let rule = "is somebody who is no super_administrator; take another name, or have the person invited";
                Err(Rejection::field("person", name, rule))
            }
            None => {
                let person = Person::super_administrator(name.clone());
                let change = DirectoryChange::Person(Box::new(person));
                self.check_directory(self.directory.revision(), &[change])
            }
        }
    }

    /// The password, and the session with which the person goes on; others of before end.
    fn new_password(
        &self,
        now: Timestamp,
        person: &PersonName,
        password: &str,
        session: &Credential,
    ) -> Result<Vec<CredentialEvent>, Rejection> {
        check(session, now).map_err(|error| error.within("session"))?;
        if session.kind != CredentialKind::Session || session.person.as_ref() != Some(person) {
            return Err(Rejection::field("session", &session.id, "must be a session of the person"));
        }
        if self.credentials.held.contains_key(&session.id) {
            let rule = "is that of another credential; draw another one";
            return Err(Rejection::field("session.id", &session.id, rule));
        }
        check_bytes("password", password, PASSWORD_BYTES)?;
        if !password.starts_with("$argon2id$") {
            return Err(Rejection::field("password", "(not shown)", "must be a hash as argon2id writes it"));
        }
        let reason = CredentialEnd::PasswordChanged;
        let sessions = self.credentials.of_kind(&Some(person.clone()), CredentialKind::Session);
        let mut events: Vec<_> = sessions.into_iter().map(|of| ended(of, reason)).collect();
        events.push(CredentialEvent::PasswordSet { person: person.clone(), hash: password.into() });
        events.push(CredentialEvent::Issued { credential: Arc::new(session.clone()) });
        Ok(events)
    }

    fn end(&self, person: &PersonName, which: &CredentialsToEnd) -> Result<Vec<CredentialEvent>, Rejection> {
        let (known, whose) = (&self.credentials, Some(person.clone()));
        let reason = CredentialEnd::Revoked;
        Ok(match which {
            CredentialsToEnd::One(id) => {
                let held = known.held.get_key_value(id).filter(|(_, held)| held.person == whose);
                vec![ended(held.ok_or_else(|| Rejection::unknown("credential", id))?, reason)]
            }
            CredentialsToEnd::Sessions => {
                let sessions = known.of_kind(&whose, CredentialKind::Session).into_iter();
                sessions.map(|of| ended(of, reason)).collect()
            }
            CredentialsToEnd::Everything => {
                let has_some = known.passwords.contains_key(person) || known.of.contains_key(&whose);
                let all = || CredentialEvent::AllEnded { person: person.clone(), reason };
                has_some.then(all).into_iter().collect()
            }
        })
    }

    /// One that was on record a moment ago, or that has ended since, is left out.
    fn used(&self, now: Timestamp, uses: &[CredentialUse]) -> Result<Vec<CredentialEvent>, Rejection> {
        if uses.is_empty() {
            let rule = format!("must be 1 to {}", bounds::CREDENTIAL_USES);
            return Err(Rejection::field("uses", 0, rule));
        }
        check_count("uses", uses.len(), bounds::CREDENTIAL_USES, " uses")?;
        let latest: BTreeMap<_, _> = uses.iter().map(|of| (&of.credential, of.at.min(now))).collect();
        let is_news = |(id, at): &(&CredentialId, Timestamp)| {
            let held = self.credentials.held.get(*id);
            held.is_some_and(|held| held.used_at.is_none_or(|last| hours(last, USE_HOURS) <= *at))
        };
        let used =
            |(id, at): (&CredentialId, Timestamp)| CredentialEvent::Used { credential: id.clone(), at };
        Ok(latest.into_iter().filter(is_news).map(used).collect())
    }
}

fn ended((id, held): (&CredentialId, &Held), reason: CredentialEnd) -> CredentialEvent {
    CredentialEvent::Ended { credential: id.clone(), person: held.person.clone(), reason }
}
