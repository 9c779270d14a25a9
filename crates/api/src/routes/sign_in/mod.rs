//! How people sign in, and what they sign in with (API-5).
//!
//! A person signs in with a password and has a session, in a cookie. Programs of a person have tokens. Whoever has no password yet, or
//! has forgotten it, gets an invitation, which an administrator passes on. Nothing of it gives more than the person may.

mod invitations;
mod provider;
mod sessions;
mod tokens;

use std::net::IpAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_directory::{Directory, Held};
use tidemill_journal::now;
use tidemill_model::{
    Credential, CredentialCommand, CredentialId, CredentialKind, Permission, Person, PersonName, Role,
    ShardId, Timestamp,
};
use tidemill_serving::Peer;

use crate::Problem;
use crate::app::App;
use crate::call::{Call, Calls};
use crate::cookie::same_origin;
use crate::credential::Secret;
use crate::refusals::Shown;
use crate::rights::{Caller, Right};
use crate::view::{List, Written};
use crate::write::{Done, Write};

/// Calls that need nothing but what their bodies show.
pub(crate) fn open_calls() -> Calls {
    Calls::default()
        .add(
            Call::get("/api/sign-in", "How one can sign in here")
                .named("getSignInOptions")
                .gives::<provider::SignInOptions>(),
            provider::options,
        )
        .add(
            Call::get("/api/sign-in/oidc", "Sends a browser to the provider, to sign in there")
                .named("beginProviderSignIn"),
            provider::begin,
        )
        .add(
            Call::get(
                "/api/sign-in/oidc/done",
                "Where the provider sends the browser back to: sets the cookie of a session",
            )
            .named("endProviderSignIn"),
            provider::done,
        )
        .add(
            Call::post("/api/sign-in", "Signs a person in with a password: sets the cookie of a session")
                .named("signIn")
                .takes::<sessions::SignInRequest>()
                .gives::<SignedIn>(),
            sessions::sign_in,
        )
        .add(
            Call::post(
                "/api/sign-in/invitation",
                "Chooses a password with an invitation, once, and signs in",
            )
            .named("redeemInvitation")
            .takes::<invitations::RedeemRequest>()
            .gives::<SignedIn>(),
            invitations::redeem,
        )
}

/// Calls of people about themselves, and of administrators about how others sign in.
pub(super) fn calls(calls: Calls) -> Calls {
    let calls = calls
        .add(
            Call::get("/api/me", "Who calls, and by what")
                .named("getMe")
                .everybody(Permission::View)
                .gives::<sessions::Me>(),
            sessions::me,
        )
        .add(
            Call::post("/api/me/sign-out", "Ends the session that calls, or all of the person's")
                .named("signOut")
                .everybody(Permission::View)
                .takes::<sessions::SignOutRequest>()
                .gives::<Written>(),
            sessions::sign_out,
        )
        .add(
            Call::put("/api/me/password", "Changes the password of who is signed in; other sessions end")
                .named("changePassword")
                .everybody(Permission::View)
                .takes::<sessions::PasswordRequest>()
                .gives::<SignedIn>(),
            sessions::change_password,
        )
        .add(
            Call::get("/api/me/credentials", "Sessions, tokens and invitations of who calls")
                .named("listMyCredentials")
                .everybody(Permission::View)
                .gives::<List<CredentialView>>(),
            tokens::own,
        )
        .add(
            Call::act(
                "/api/me/tokens",
                "Makes a token, with which a program calls as the person; it is shown once",
            )
            .named("makeToken")
            .everybody(Permission::View)
            .takes::<tokens::TokenRequest>()
            .gives::<tokens::TokenIssued>(),
            tokens::issue,
        )
        .add(
            Call::remove("/api/me/credentials/{id}", "Ends a session, a token or an invitation of who calls")
                .named("endMyCredential")
                .everybody(Permission::View),
            tokens::end_own,
        )
        .add(
            Call::act(
                "/api/sign-in/first-invitation",
                "Makes the invitation for the first super-administrator, where nobody can sign in yet",
            )
            .named("inviteFirstPerson")
            .of_site(Permission::Manage)
            .gives::<invitations::FirstInvited>(),
            invitations::invite_first,
        );
    of_others(calls)
}

fn of_others(calls: Calls) -> Calls {
    calls
        .add(
            Call::act(
                "/api/people/{name}/invite",
                "Makes an invitation by which a person chooses a password",
            )
            .named("invitePerson")
            .of_site(Permission::Administer)
            .gives::<invitations::Invited>(),
            invitations::invite,
        )
        .add(
            Call::get("/api/people/{name}/credentials", "Sessions, tokens and invitations of a person")
                .named("listCredentialsOfPerson")
                .of_site(Permission::Administer)
                .gives::<List<CredentialView>>(),
            tokens::of_person,
        )
        .add(
            Call::remove(
                "/api/people/{name}/credentials",
                "Ends all that a person signs in with, the password too",
            )
            .named("endCredentialsOfPerson")
            .of_site(Permission::Administer),
            tokens::end_all,
        )
        .add(
            Call::remove("/api/people/{name}/credentials/{id}", "Ends one credential of a person")
                .named("endCredentialOfPerson")
                .of_site(Permission::Administer),
            tokens::end_one,
        )
}

/// Who is signed in now; the cookie comes beside it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SignedIn {
    /// The person.
    person: PersonName,
    /// The person's role.
    role: Role,
    /// Until when.
    expires_at: Timestamp,
    /// Pages send this as `X-CSRF-Token` where they change something.
    csrf_token: String,
}

/// A credential, without its secret.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CredentialView {
    /// Its id.
    id: CredentialId,
    /// What it is for.
    kind: CredentialKind,
    /// What the person calls it, or how the person signed in.
    title: Arc<str>,
    /// What a token may of what the person may; empty: all of it.
    may: Vec<Permission>,
    /// When it was issued.
    issued_at: Timestamp,
    /// From then on it is not good.
    expires_at: Timestamp,
    /// When it was shown last, within about an hour; absent: not yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_at: Option<Timestamp>,
    /// Whether this call was made by it.
    calls_now: bool,
}

impl CredentialView {
    fn new(held: &Held, by: Option<&Arc<Held>>) -> Self {
        Self {
            id: held.id.clone(),
            kind: held.kind,
            title: Arc::clone(&held.title),
            may: held.may.iter().copied().collect(),
            issued_at: held.issued_at,
            expires_at: held.expires_at,
            used_at: held.used_at,
            calls_now: by.is_some_and(|by| by.id == held.id),
        }
    }
}

/// Those of a person that are good.
async fn credentials(
    app: &App,
    person: &PersonName,
    by: Option<&Arc<Held>>,
) -> Result<List<CredentialView>, Problem> {
    let (known, now) = (app.people_known().await?, now());
    let held = known.credentials_of(person).into_iter().filter(|held| held.expires_at > now);
    let mut items: Vec<_> = held.map(|held| CredentialView::new(&held, by)).collect();
    items.sort_by_key(|of| (of.kind, of.issued_at));
    Ok(List { items, next: None })
}

/// A request of somebody who is not signed in yet.
pub(super) struct Stranger {
    app: Arc<App>,
    shown: Shown,
    address: Option<IpAddr>,
}

impl FromRequestParts<Arc<App>> for Stranger {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        same_origin(&parts.headers)?;
        no_idempotency_key(&parts.headers)?;
        let shown = parts.extensions.get::<Shown>().cloned().unwrap_or_default();
        let address = parts.extensions.get::<Peer>().map(|Peer(address)| *address);
        Ok(Self { app: Arc::clone(app), shown, address })
    }
}

/// What is drawn cannot be told again to who repeats a request.
fn no_idempotency_key(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key("idempotency-key") {
        let rule = "must be left out: the answer has a secret, which is not kept for a repeat";
        return Err(Problem::field("Idempotency-Key", "", rule));
    }
    Ok(())
}

/// Somebody of the directory, enabled or not.
fn person_named(directory: &Directory, name: &str) -> Result<Arc<Person>, Problem> {
    let known = PersonName::try_from(name).ok().and_then(|name| directory.people().get(&name).cloned());
    known.ok_or_else(|| Problem::unknown("person", name))
}

/// To invite somebody, or to end what they sign in with: whoever may that could become them or keep them out, so an administrator
/// may it with no other administrator.
fn to_act_for(caller: &Caller, person: &Person) -> Result<Right, Problem> {
    let is_above = person.role >= Role::Administrator;
    caller.for_site(if is_above { Permission::Manage } else { Permission::Administer })
}

/// What a token makes would outlive it, or be for more than it.
pub(crate) fn no_token(caller: &Caller) -> Result<(), Problem> {
    match caller.own().filter(|held| held.kind == CredentialKind::Token) {
        None => Ok(()),
        Some(_) => Err(Problem::forbidden(
            "a token makes no key and invites nobody; sign in, or use an application key",
        )),
    }
}

/// A session that begins now.
fn session_of(app: &App, person: &PersonName, title: &str) -> (Secret, Credential) {
    let hours = i64::from(app.config.sign_in.session_hours);
    credential(CredentialKind::Session, Some(person), title, hours)
}

/// A credential of that many hours, from now on.
fn credential(
    kind: CredentialKind,
    person: Option<&PersonName>,
    title: &str,
    hours: i64,
) -> (Secret, Credential) {
    let secret = Secret::draw(kind);
    let expires_at = now().saturating_add(SignedDuration::from_hours(hours)).unwrap_or(Timestamp::MAX);
    let credential = Credential {
        id: secret.id.clone(),
        kind,
        person: person.cloned(),
        hash: secret.hash(),
        title: title.to_owned(),
        may: Default::default(),
        expires_at,
    };
    (secret, credential)
}

/// Lets the catalogue decide, and waits for a moment until that counts here.
async fn decided(app: &App, right: Right, command: CredentialCommand) -> Result<Done, Problem> {
    let done = Write::fresh(app, right).send(ShardId::CATALOGUE, command.into()).await?;
    app.takes(done.position).await;
    Ok(done)
}

/// The answer to whoever is signed in now.
fn signed_in(app: &App, person: &Person, (secret, session): (&Secret, &Credential)) -> Response {
    let seconds = seconds_left(session);
    let body = SignedIn {
        person: person.name.clone(),
        role: person.role,
        expires_at: session.expires_at,
        csrf_token: secret.csrf(),
    };
    let cookie = [(header::SET_COOKIE, app.cookie().set(secret, seconds))];
    (cookie, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

fn seconds_left(session: &Credential) -> i64 {
    session.expires_at.duration_since(now()).as_secs().max(0)
}

/// Somebody who is in the directory and enabled.
fn enabled<'d>(directory: &'d Directory, name: &PersonName) -> Option<&'d Arc<Person>> {
    directory.people().get(name).filter(|person| person.enabled)
}
