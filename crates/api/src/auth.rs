//! Who calls (API-5); what they may is in [`crate::rights`].

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::{HeaderMap, Method, header};
use tidemill_directory::{Directory, Held, Key};
use tidemill_journal::now;
use tidemill_model::{CredentialId, CredentialKind, Person, PersonName, Role, Timestamp};

use crate::Problem;
use crate::app::App;
use crate::cookie::{Cookie, same_origin, shows_csrf};
use crate::credential::{SESSION, Secret};
use crate::rights::Caller;
use crate::secret::{hash_of, is_equal};

/// A key's name is at most this long.
const MAX_NAME_BYTES: usize = 200;

/// The actor of those who show the operator's secret.
const OPERATOR: &str = "operator";

/// What a caller shows.
#[derive(Clone)]
pub(crate) enum Credentials {
    /// An application's key.
    Key { app: String, secret: String },
    /// What a person signs in with.
    Own(Secret),
}

/// The same without its secret, as answers that go on keep it.
#[derive(Clone)]
pub(crate) enum Proof {
    Key { app: Arc<str>, hash: Arc<str> },
    Own { kind: CredentialKind, id: CredentialId, hash: Arc<str> },
}

impl Credentials {
    /// From `Authorization: Bearer <app>:<secret>`, or with a person's token, or `X-App-Name` and `X-App-Key`.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(bearer) = text(header::AUTHORIZATION.as_str()) {
            let bearer = bearer.strip_prefix("Bearer ")?.trim();
            if let Some(token) = Secret::read(bearer) {
                return (token.kind == CredentialKind::Token).then_some(Self::Own(token));
            }
            let (app, secret) = bearer.split_once(':')?;
            return Some(Self::Key { app: app.to_owned(), secret: secret.to_owned() });
        }
        Some(Self::Key { app: text("x-app-name")?.to_owned(), secret: text("x-app-key")?.to_owned() })
    }

    /// From headers, where no key or token is shown from the cookie of a session.
    pub(crate) fn from_request(
        headers: &HeaderMap,
        method: &Method,
        cookie: Cookie,
    ) -> Result<Option<Self>, Problem> {
        let names_a_key = |name: &str| headers.contains_key(name);
        if names_a_key(header::AUTHORIZATION.as_str()) || names_a_key("x-app-name") {
            return Ok(Self::from_headers(headers));
        }
        let Some(session) = cookie.session(headers) else { return Ok(None) };
        if !method.is_safe() {
            same_origin(headers)?;
            shows_csrf(headers, &session)?;
        }
        Ok(Some(Self::Own(session)))
    }

    /// As the record names who shows it.
    pub(crate) fn app(&self) -> String {
        match self {
            Self::Key { app, .. } => app.clone(),
            Self::Own(secret) => app_of(secret.kind, &secret.id),
        }
    }

    pub(crate) fn proof(&self) -> Proof {
        match self {
            Self::Key { app, secret } => {
                Proof::Key { app: app.as_str().into(), hash: hash_of(secret).into() }
            }
            Self::Own(secret) => {
                Proof::Own { kind: secret.kind, id: secret.id.clone(), hash: secret.hash().into() }
            }
        }
    }
}

/// As the record names who calls by what a person signs in with: one word for all sessions, so that what somebody asked for
/// is theirs in the next one, too; a token with its id.
fn app_of(kind: CredentialKind, id: &CredentialId) -> String {
    match kind {
        CredentialKind::Token => format!("token:{id}"),
        CredentialKind::Session | CredentialKind::Invitation => SESSION.to_owned(),
    }
}

/// The person that a header names. One that names nobody is a header all the same, and nobody is no person of the directory.
pub(crate) fn user_of(headers: &HeaderMap) -> Option<Arc<str>> {
    let user =
        String::from_utf8_lossy(headers.get("x-user")?.as_bytes()).chars().take(200).collect::<String>();
    Some(user.into())
}

impl App {
    /// The operator, where the header shows the operator's secret: `Authorization: Bearer <operator_key>`.
    pub(crate) fn operator(&self, headers: &HeaderMap) -> Option<Caller> {
        let shown = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?.trim();
        let secret = &self.config.operator_key;
        let fits = !secret.is_empty() && is_equal(&hash_of(shown), &hash_of(secret));
        let key = || Key {
            app: OPERATOR.into(),
            hash: Arc::default(),
            role: Role::SuperAdministrator,
            groups: Arc::default(),
            accounts: Arc::default(),
            may: BTreeSet::new(),
            department: None,
            defined_at: Timestamp::UNIX_EPOCH,
        };
        // The directory may be lost with the tables, so the name is taken as it is.
        let user = || user_of(headers).filter(|user| !user.is_empty());
        fits.then(|| Caller::new(Arc::new(key()), Arc::default()).for_user(user()))
    }

    /// Who shows these credentials.
    pub(crate) async fn authenticate(
        &self,
        shown: Option<&Credentials>,
        user: Option<Arc<str>>,
    ) -> Result<Caller, Problem> {
        let shown = shown.ok_or_else(Problem::unauthorized)?;
        if let Credentials::Key { app, .. } = shown
            && (app.is_empty() || app.len() > MAX_NAME_BYTES)
        {
            return Err(Problem::unauthorized());
        }
        self.caller_of(&shown.proof(), user).await
    }

    /// Who has shown this.
    pub(crate) async fn caller_of(&self, proof: &Proof, user: Option<Arc<str>>) -> Result<Caller, Problem> {
        match proof {
            Proof::Key { app, hash } => self.caller_with_key(app, hash, user).await,
            Proof::Own { kind, id, hash } => {
                let caller = self.person_with(*kind, id, hash).await?;
                match user.filter(|user| caller.user().as_ref() != Some(user)) {
                    Some(user) => Err(Problem::forbidden(format!(
                        "X-User is {user:?}, and who calls is {}; leave the header out: it is for application keys",
                        caller.user().unwrap_or_default()
                    ))),
                    None => Ok(caller),
                }
            }
        }
    }

    /// Whose credential this is.
    async fn person_with(
        &self,
        kind: CredentialKind,
        id: &CredentialId,
        hash: &str,
    ) -> Result<Caller, Problem> {
        let fits =
            |held: &Arc<Held>| held.kind == kind && is_equal(&held.hash, hash) && held.expires_at > now();
        let held = match self.credential(id).await?.filter(fits) {
            Some(held) => held,
            None => self.newest_credential(id).await?.filter(fits).ok_or_else(Problem::signed_out)?,
        };
        let directory = self.people().await?;
        let person = held.person.as_ref().and_then(|name| directory.people().get(name)).cloned();
        let person = person.filter(|person| person.enabled).ok_or_else(Problem::signed_out)?;
        let key = Key {
            app: app_of(kind, id).into(),
            hash: hash.into(),
            // Nothing is beyond the person, who is what bounds the call.
            role: Role::SuperAdministrator,
            groups: Arc::default(),
            accounts: Arc::default(),
            may: BTreeSet::new(),
            department: None,
            defined_at: held.issued_at,
        };
        Ok(Caller::new(Arc::new(key), directory).for_person(person).by_own(held))
    }

    /// The caller in the name of whom the call itself says to have asked for it (API-1): a person of the directory, or anybody
    /// else of whom the application alone knows.
    pub(crate) async fn in_the_name_of(&self, caller: Caller, user: &str) -> Result<Caller, Problem> {
        if let Some(person) = caller.person() {
            // The header has said it, and nobody becomes somebody else by a field.
            if person.name.as_str() == user {
                return Ok(caller);
            }
            let rule =
                format!("must be {}, whom X-User names; leave the header out, or say the same", person.name);
            return Err(Problem::field("user", user, rule));
        }
        let directory = self.people().await?;
        let caller = caller.among(Arc::clone(&directory));
        let name = PersonName::try_from(user).ok();
        match name.and_then(|name| directory.people().get(&name)) {
            Some(_) => {
                let person = person_of(caller.key(), &directory, user)?;
                Ok(caller.for_person(person))
            }
            None => Ok(caller.for_user(Some(user.into()))),
        }
    }

    /// Whose key has this name and this hash of its secret.
    async fn caller_with_key(
        &self,
        app: &str,
        hash: &str,
        user: Option<Arc<str>>,
    ) -> Result<Caller, Problem> {
        let fits = |key: &Arc<Key>| is_equal(&key.hash, hash);
        let key = match self.key(app).await?.filter(fits) {
            Some(key) => key,
            None => self.newest_key(app).await?.filter(fits).ok_or_else(Problem::unauthorized)?,
        };
        let directory = match user.is_some() || key.department.is_some() {
            true => self.people().await?,
            false => Arc::default(),
        };
        let caller = Caller::new(Arc::clone(&key), Arc::clone(&directory));
        match user {
            Some(user) if !directory.is_empty() => Ok(caller.for_person(person_of(&key, &directory, &user)?)),
            user => Ok(caller.for_user(user.filter(|user| !user.is_empty()))),
        }
    }
}

/// Whom a key speaks for: somebody of the directory who is enabled and, where it belongs to a department, of that.
fn person_of(key: &Key, directory: &Directory, user: &str) -> Result<Arc<Person>, Problem> {
    let name = PersonName::try_from(user).ok();
    let person = name.and_then(|name| directory.people().get(&name)).filter(|person| person.enabled);
    let is_spoken_for =
        |person: &&Arc<Person>| key.department.as_ref().is_none_or(|of| person.departments.contains(of));
    person.filter(is_spoken_for).cloned().ok_or_else(|| {
        let of = key
            .department
            .as_ref()
            .map_or_else(|| "the directory".to_owned(), |of| format!("department {of}"));
        Problem::forbidden(format!(
            "X-User is {user:?}, and nobody of that name is enabled in {of}, for whom key {} may speak",
            key.app
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_may_contain_colons_and_spaces_are_no_part_of_it() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer app:se:cret ".parse().unwrap());
        let Some(Credentials::Key { app, secret }) = Credentials::from_headers(&headers) else {
            panic!("no key")
        };
        assert_eq!((app.as_str(), secret.as_str()), ("app", "se:cret"));
    }
}
