//! Invitations: how a person gets a password.

use std::time::Instant;

use axum::Json;
use axum::extract::Path;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{
    CredentialCommand, CredentialKind, Level, Permission, Person, PersonName, Rejection, Timestamp, bounds,
};

use super::{
    Stranger, credential, decided, enabled, no_idempotency_key, no_token, person_named, session_of,
    signed_in, to_act_for,
};
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::credential::{SESSION, Secret};
use crate::passwords;
use crate::rights::Right;
use crate::routes::level;
use crate::routes::requests::Writer;
use crate::view::Answered;

/// How long an invitation is good, hours.
const HOURS: i64 = 72;

/// An invitation; whoever has the code can choose the person's password once.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Invited {
    /// The person.
    person: PersonName,
    /// `ti_…`; shown this once. Pass it on by a way that is the person's alone.
    code: String,
    /// From then on it is not good.
    expires_at: Timestamp,
    /// Give this as `at_least` to reads that must show it.
    position: String,
}

/// Passwords may be for some alone.
fn takes_password_of(app: &App, name: &PersonName) -> Result<(), Problem> {
    if app.config.sign_in.takes_password_of(name) {
        return Ok(());
    }
    let rule =
        "signs in through the provider; passwords are for those alone whom api.sign_in.password_for names";
    Err(Problem::field("person", name, rule))
}

/// Whoever invites could use the invitation, so it is for those who may at least what the person may.
pub(super) async fn invite(by: Writer, Path(name): Path<String>) -> Answered<Invited> {
    no_idempotency_key(&by.headers)?;
    no_token(&by.caller)?;
    level::allows(&by.app, Level::DIRECTORY).await?;
    let person = person_named(&by.app.people_known().await?.directory(), &name)?;
    let (name, right) = (person.name.clone(), to_act_for(&by.caller, &person)?);
    takes_password_of(&by.app, &name)?;
    let (secret, invitation) = credential(CredentialKind::Invitation, Some(&name), "", HOURS);
    let expires_at = invitation.expires_at;
    let command =
        CredentialCommand::Issue { credential: Box::new(invitation), shown: None, first_only: false };
    let position = decided(&by.app, right, command).await?.position.to_string();
    Ok(Json(Invited { person: name, code: secret.text(), expires_at, position }))
}

/// The invitation of the first start.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FirstInvited {
    /// `ti_…`; shown this once.
    code: String,
    /// From then on it is not good.
    expires_at: Timestamp,
    /// Give this as `at_least` to reads that must show it.
    position: String,
}

/// Where nobody can sign in yet, and nobody is invited: whoever uses it becomes the first super-administrator.
pub(super) async fn invite_first(by: Writer) -> Answered<FirstInvited> {
    no_idempotency_key(&by.headers)?;
    let right = by.caller.for_site(Permission::Manage)?;
    no_token(&by.caller)?;
    level::allows(&by.app, Level::DIRECTORY).await?;
    let (secret, invitation) = credential(CredentialKind::Invitation, None, "", HOURS);
    let expires_at = invitation.expires_at;
    let command =
        CredentialCommand::Issue { credential: Box::new(invitation), shown: None, first_only: true };
    let position = decided(&by.app, right, command).await?.position.to_string();
    Ok(Json(FirstInvited { code: secret.text(), expires_at, position }))
}

/// Who chooses a password.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedeemRequest {
    /// The invitation, `ti_…`.
    #[schemars(length(max = 100))]
    code: String,
    /// The person's name. The invitation of the first start is for whoever names themselves here, who becomes the first
    /// super-administrator.
    #[schemars(length(min = 1, max = bounds::USER_CHARS), pattern(bounds::USER_PATTERN))]
    person: String,
    /// The password, 12 to 200 characters, without the person's name.
    #[schemars(length(min = passwords::MIN_CHARS, max = passwords::MAX_CHARS))]
    password: String,
}

pub(super) async fn redeem(by: Stranger, Body(body): Body) -> Result<Response, Problem> {
    let RedeemRequest { code, person, password } = parse(body)?;
    let app = &by.app;
    by.shown.set(SESSION);
    let name = PersonName::try_from(person.as_str())
        .map_err(|error| Problem::field("person", &person, error.to_string()))?;
    by.shown.set_person(name.as_str());
    takes_password_of(app, &name)?;
    app.sign_in_limits.check(&name, by.address, Instant::now())?;
    passwords::check("password", &password, name.as_str())?;
    let shown = Secret::read(&code).filter(|secret| secret.kind == CredentialKind::Invitation);
    let held = match &shown {
        Some(secret) => match app.credential(&secret.id).await? {
            Some(held) => Some(held),
            None => app.newest_credential(&secret.id).await?,
        },
        None => None,
    };
    let is_hers = |of: &Option<PersonName>| of.as_ref().is_none_or(|of| *of == name);
    let fits = shown.as_ref().zip(held).filter(|(secret, held)| {
        let is_one = held.kind == CredentialKind::Invitation && is_hers(&held.person);
        is_one && crate::secret::is_equal(&held.hash, &secret.hash())
    });
    let Some((_, held)) = fits else {
        app.sign_in_limits.failed(&name, by.address, Instant::now());
        return Err(Problem::not_signed_in(
            "the invitation is not good, or for somebody else; ask for another one",
        ));
    };
    let hash = app.passwords.hash(password).await?;
    let (secret, session) = session_of(app, &name, "invitation");
    let command = CredentialCommand::Redeem {
        invitation: held.id.clone(),
        person: name.clone(),
        password: hash,
        session: Box::new(session.clone()),
    };
    match decided(app, Right::of_person(&name), command).await {
        // It was over, or another request has used it a moment ago.
        Err(problem) if problem.code == Rejection::unknown("", "").code() => {
            return Err(Problem::not_signed_in("the invitation was used or is over; ask for another one"));
        }
        done => done?,
    };
    let directory = app.people_known().await?.directory();
    let known = enabled(&directory, &name).map(|person| person.as_ref().clone());
    // Who has just been added may not be known here yet.
    let person = known.unwrap_or_else(|| Person::super_administrator(name));
    Ok(signed_in(app, &person, (&secret, &session)))
}
