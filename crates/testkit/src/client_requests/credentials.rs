//! What people sign in with: they come and go, invite each other, and use what is good, what is over and what is another's.

use jiff::SignedDuration;
use tidemill_model::{
    Actor, Credential, CredentialCommand, CredentialId, CredentialKind, CredentialProof, CredentialUse,
    CredentialsToEnd, PersonName, RequestId, ShardId,
};

use crate::{Rng, World};

/// Everybody's.
const PASSWORD: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaA";

impl World {
    /// One request about what a person signs in with.
    pub(super) fn client_request_of_credentials(&mut self, rng: &mut Rng) {
        let people: Vec<PersonName> = self.known.directory.people.keys().cloned().collect();
        let nobody = PersonName::try_from("nobody").expect("a name");
        let person = rng.pick(&people).filter(|_| rng.clone().chance(95)).unwrap_or(&nobody).clone();
        let known: Vec<CredentialId> = self.known.directory.credentials.keys().cloned().collect();
        let some = rng.pick(&known).cloned().unwrap_or_else(|| self.credential_id(rng));
        let password = PASSWORD.to_owned();
        let session = |world: &Self, rng: &mut Rng, person: &PersonName| {
            Box::new(world.credential(rng, CredentialKind::Session, Some(person.clone())))
        };
        let command = match rng.range(0, 12) {
            0..4 => self.issued(rng, &person),
            4..6 => {
                // Mostly whose it is.
                let of = self.known.directory.credentials.get(&some).and_then(|(of, _)| of.clone());
                let person = of.filter(|_| rng.chance(90)).unwrap_or(person.clone());
                let session = session(self, rng, &person);
                CredentialCommand::Redeem { invitation: some, person, password, session }
            }
            6 => {
                let session = session(self, rng, &person);
                CredentialCommand::ChangePassword {
                    person: person.clone(),
                    old: password.clone(),
                    by: self.session_of(&person).unwrap_or(some),
                    password,
                    session,
                }
            }
            7 => {
                let of = self.known.directory.credentials.get(&some).and_then(|(of, _)| of.clone());
                CredentialCommand::End {
                    person: of.unwrap_or(person.clone()),
                    which: CredentialsToEnd::One(some),
                }
            }
            8 => CredentialCommand::End { person: person.clone(), which: CredentialsToEnd::Sessions },
            9 => CredentialCommand::End { person: person.clone(), which: CredentialsToEnd::Everything },
            _ => {
                let at = self.wall();
                CredentialCommand::ReportUses { uses: vec![CredentialUse { credential: some, at }] }
            }
        };
        let number = self.requests + 1;
        let request = RequestId::of_client("test", &format!("r{number}"), number);
        let actor = Actor { app: "session".into(), user: Some(person.as_str().into()) };
        self.ask_by(actor, request, ShardId::CATALOGUE, command, 0);
    }

    fn issued(&self, rng: &mut Rng, person: &PersonName) -> CredentialCommand {
        let kinds = [CredentialKind::Session, CredentialKind::Token, CredentialKind::Invitation];
        let kind = kinds[rng.below(kinds.len())];
        // The first start's, or whoever tries to make one as if there were nobody.
        let first_only = rng.chance(8);
        let of = (!first_only).then(|| person.clone());
        let mut credential = self.credential(rng, kind, of);
        if rng.chance(3) {
            credential.expires_at = self.wall();
        }
        // By a session, by a password that the person has or not, or by what a provider says.
        let shown = match rng.range(0, 4) {
            0 if kind != CredentialKind::Token => None,
            1 => Some(CredentialProof::Password(PASSWORD.to_owned())),
            _ => self.session_of(person).map(CredentialProof::Session),
        };
        CredentialCommand::Issue { credential: Box::new(credential), shown, first_only }
    }

    fn session_of(&self, person: &PersonName) -> Option<CredentialId> {
        let is_session = |(of, kind): &(Option<PersonName>, CredentialKind)| {
            *kind == CredentialKind::Session && of.as_ref() == Some(person)
        };
        let mut all = self.known.directory.credentials.iter();
        all.find(|(_, held)| is_session(held)).map(|(id, _)| id.clone())
    }

    fn credential_id(&self, rng: &mut Rng) -> CredentialId {
        let id = format!("{:016x}", rng.next());
        CredentialId::try_from(id.as_str()).expect("16 hexadecimal digits")
    }

    fn credential(&self, rng: &mut Rng, kind: CredentialKind, person: Option<PersonName>) -> Credential {
        let hours = SignedDuration::from_hours(1 + rng.below(48) as i64);
        Credential {
            id: self.credential_id(rng),
            kind,
            person,
            hash: "5".repeat(64),
            title: "of a test".to_owned(),
            may: Default::default(),
            expires_at: self.wall().saturating_add(hours).expect("there is such a time"),
        }
    }
}
