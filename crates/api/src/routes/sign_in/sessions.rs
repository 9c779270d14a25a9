//! Sessions: signing in and out.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_directory::Held;
use tidemill_model::{
    CredentialCommand, CredentialId, CredentialKind, CredentialProof, CredentialsToEnd, FieldError, Person,
    PersonName, Role, Timestamp, bounds,
};

use super::{Stranger, decided, enabled, no_idempotency_key, session_of, signed_in};
use crate::Problem;
use crate::body::{Body, parse};
use crate::passwords;
use crate::rights::{Caller, Right};
use crate::routes::requests::{Reader, Writer, written};
use crate::view::Answered;

/// How a session of somebody with a password is called.
const BY_PASSWORD: &str = "password";

/// Who wants to sign in.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignInRequest {
    /// The person's name.
    #[schemars(length(min = 1, max = bounds::USER_CHARS), pattern(bounds::USER_PATTERN))]
    person: String,
    /// The password.
    #[schemars(length(max = passwords::MAX_CHARS))]
    password: String,
}

/// Whoever is not in the directory, is disabled or has no password is told what those are told who mistype theirs, as late.
pub(super) async fn sign_in(by: Stranger, Body(body): Body) -> Result<Response, Problem> {
    let SignInRequest { person, password } = parse(body)?;
    let app = &by.app;
    by.shown.set(crate::credential::SESSION);
    let name = PersonName::try_from(person.as_str()).map_err(|_| wrong())?;
    // What is no name may be a password at the wrong place.
    by.shown.set_person(name.as_str());
    app.sign_in_limits.check(&name, by.address, Instant::now())?;
    let known = app.people_known().await?;
    let directory = known.directory();
    let person = enabled(&directory, &name).filter(|_| app.config.sign_in.takes_password_of(&name));
    let hash = person.and_then(|person| known.password(&person.name));
    let is_short = password.chars().count() <= passwords::MAX_CHARS;
    let hash = hash.filter(|_| is_short);
    let shown = hash.as_ref().map(|hash| CredentialProof::Password(hash.to_string()));
    let fits = app.passwords.fits(hash, password).await?;
    let Some(person) = person.filter(|_| fits) else {
        app.sign_in_limits.failed(&name, by.address, Instant::now());
        return Err(wrong());
    };
    app.sign_in_limits.succeeded(&name, by.address);
    let (secret, session) = session_of(app, &name, BY_PASSWORD);
    let credential = Box::new(session.clone());
    let command = CredentialCommand::Issue { credential, shown, first_only: false };
    decided(app, Right::of_person(&name), command).await?;
    Ok(signed_in(app, person, (&secret, &session)))
}

fn wrong() -> Problem {
    Problem::not_signed_in("there is no such person, or the password is another one")
}

/// Somebody who calls by a session of their own, and not by a key or a token.
pub(super) struct SignedInCaller {
    pub(super) person: Arc<Person>,
    pub(super) session: Arc<Held>,
    pub(super) right: Right,
}

impl SignedInCaller {
    /// Of who does `what`.
    pub(super) fn of(caller: &Caller, what: &str) -> Result<Self, Problem> {
        let session = caller.own().filter(|held| held.kind == CredentialKind::Session);
        let Some((session, person)) = session.zip(caller.person()) else {
            return Err(Problem::forbidden(format!(
                "{what} is for people who are signed in; a key or a token does not do it"
            )));
        };
        let (person, session) = (Arc::clone(person), Arc::clone(session));
        let right = Right::of_person(&person.name);
        Ok(Self { person, session, right })
    }
}

/// What somebody signs out from.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignOutRequest {
    /// From every session, wherever it is; tokens stay. Default false.
    #[serde(default)]
    everywhere: bool,
}

pub(super) async fn sign_out(by: Writer, Body(body): Body) -> Result<Response, Problem> {
    let caller = SignedInCaller::of(&by.caller, "to sign out")?;
    let SignOutRequest { everywhere } = parse(body)?;
    let which = match everywhere {
        true => CredentialsToEnd::Sessions,
        false => CredentialsToEnd::One(caller.session.id.clone()),
    };
    let command = CredentialCommand::End { person: caller.person.name.clone(), which };
    let done = decided(&by.app, caller.right, command).await?;
    let cookie = [(header::SET_COOKIE, by.app.cookie().cleared())];
    Ok((cookie, written(done)?).into_response())
}

/// Another password.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordRequest {
    /// The present one.
    old: String,
    /// The new one, 12 to 200 characters, without the person's name.
    #[schemars(length(min = passwords::MIN_CHARS, max = passwords::MAX_CHARS))]
    new: String,
}

/// The call goes on in a new session; all others of the person end.
pub(super) async fn change_password(by: Writer, Body(body): Body) -> Result<Response, Problem> {
    no_idempotency_key(&by.headers)?;
    let caller = SignedInCaller::of(&by.caller, "to change the password")?;
    let PasswordRequest { old, new } = parse(body)?;
    let (app, name) = (&by.app, &caller.person.name);
    passwords::check("new", &new, name.as_str())?;
    app.sign_in_limits.check(name, None, Instant::now())?;
    if !app.config.sign_in.takes_password_of(name) {
        return Err(Problem::forbidden("passwords are for those alone whom api.sign_in.password_for names"));
    }
    let hash = app.people_known().await?.password(name);
    if !app.passwords.fits(hash.clone(), old).await? {
        app.sign_in_limits.failed(name, None, Instant::now());
        let error = FieldError::new("old", "(not shown)", "is not the present password");
        return Err(Problem::fields(vec![error]));
    }
    let password = app.passwords.hash(new).await?;
    let (secret, session) = session_of(app, name, BY_PASSWORD);
    let command = CredentialCommand::ChangePassword {
        person: name.clone(),
        old: hash.map(|hash| hash.to_string()).unwrap_or_default(),
        by: caller.session.id.clone(),
        password,
        session: Box::new(session.clone()),
    };
    decided(app, caller.right, command).await?;
    Ok(signed_in(app, &caller.person, (&secret, &session)))
}

/// Who calls.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Me {
    /// The application key; of who calls themselves, `session` or `token:<id>`.
    app: Arc<str>,
    /// The person who calls, or in whose name the application does.
    #[serde(skip_serializing_if = "Option::is_none")]
    person: Option<Arc<str>>,
    /// What the person signed in with; absent: an application calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_in: Option<Means>,
    /// Of a session: pages send this as `X-CSRF-Token` where they change something.
    #[serde(skip_serializing_if = "Option::is_none")]
    csrf_token: Option<String>,
}

/// What a person signed in with.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Means {
    /// Its id.
    id: CredentialId,
    /// A session or a token.
    kind: CredentialKind,
    /// The person's role.
    role: Option<Role>,
    /// Until when it is good.
    expires_at: Timestamp,
}

pub(super) async fn me(by: Reader, headers: HeaderMap) -> Answered<Me> {
    let caller = &by.caller;
    let means = |held: &Arc<Held>| Means {
        id: held.id.clone(),
        kind: held.kind,
        role: caller.person().map(|person| person.role),
        expires_at: held.expires_at,
    };
    let session = by.app.cookie().session(&headers);
    let is_session = caller.own().is_some_and(|held| held.kind == CredentialKind::Session);
    Ok(Json(Me {
        app: Arc::clone(caller.app()),
        person: caller.user(),
        signed_in: caller.own().map(means),
        csrf_token: session.filter(|_| is_session).map(|session| session.csrf()),
    }))
}
