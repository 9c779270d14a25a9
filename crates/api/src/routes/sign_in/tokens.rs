//! Tokens, with which programs of a person call, and what else the person signs in with.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::Path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_directory::Held;
use tidemill_model::{
    CredentialCommand, CredentialId, CredentialKind, CredentialProof, CredentialsToEnd, Permission,
    PersonName, Timestamp, bounds,
};

use super::sessions::SignedInCaller;
use super::{CredentialView, credential, credentials, decided, no_idempotency_key, person_named, to_act_for};
use crate::Problem;
use crate::body::{Body, parse};
use crate::rights::{Caller, Right};
use crate::routes::requests::{Reader, Writer, written};
use crate::view::{Answered, List, Written};

/// How long a token is good where nothing is said, days.
const DAYS: u16 = 90;
const MAX_DAYS: u16 = (CredentialKind::Token.max_hours() / 24) as u16;

/// A token to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenRequest {
    /// What it is for, 1 to 100 characters.
    #[schemars(length(min = 1, max = bounds::CREDENTIAL_TITLE_CHARS), pattern(bounds::VISIBLE_PATTERN))]
    title: String,
    /// What it may of what the person may; it may `view` in any case. Default all of it.
    #[serde(default)]
    may: BTreeSet<Permission>,
    /// For how many days it is good, 1 to 366. Default 90.
    #[serde(default)]
    #[schemars(range(min = 1, max = MAX_DAYS))]
    days: Option<u16>,
}

/// A token.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TokenIssued {
    /// Its id.
    id: CredentialId,
    /// `tm_…`, for `Authorization: Bearer`; shown this once.
    token: String,
    /// From then on it is not good.
    expires_at: Timestamp,
    /// Give this as `at_least` to reads that must show it.
    position: String,
}

/// For the person, who is signed in: a token makes no other token, which would be good longer or for more.
pub(super) async fn issue(by: Writer, Body(body): Body) -> Answered<TokenIssued> {
    no_idempotency_key(&by.headers)?;
    let caller = SignedInCaller::of(&by.caller, "to make a token")?;
    let TokenRequest { title, may, days } = parse(body)?;
    let days = days.unwrap_or(DAYS);
    if !(1..=MAX_DAYS).contains(&days) {
        return Err(Problem::field("days", days, format!("must be 1 to {MAX_DAYS}")));
    }
    if title.trim().is_empty() {
        return Err(Problem::field("title", title, "must say what the token is for"));
    }
    let hours = i64::from(days) * 24;
    let (secret, mut token) = credential(CredentialKind::Token, Some(&caller.person.name), &title, hours);
    token.may = may;
    let (id, expires_at) = (token.id.clone(), token.expires_at);
    let shown = Some(CredentialProof::Session(caller.session.id.clone()));
    let command = CredentialCommand::Issue { credential: Box::new(token), shown, first_only: false };
    let position = decided(&by.app, caller.right, command).await?.position.to_string();
    Ok(Json(TokenIssued { id, token: secret.text(), expires_at, position }))
}

/// Who calls by what is their own, and by what.
fn own_of(caller: &Caller) -> Result<(PersonName, &Arc<Held>), Problem> {
    let person = caller.person().map(|person| person.name.clone());
    let detail =
        "this is about what a person signs in with, and an application calls; sign in, or use a token";
    person.zip(caller.own()).ok_or_else(|| Problem::forbidden(detail))
}

pub(super) async fn own(by: Reader) -> Answered<List<CredentialView>> {
    let (person, held) = own_of(&by.caller)?;
    credentials(&by.app, &person, Some(held)).await.map(Json)
}

/// A token ends itself alone: one that was stolen keeps nobody out.
pub(super) async fn end_own(by: Writer, Path(id): Path<String>) -> Answered<Written> {
    let (person, held) = own_of(&by.caller)?;
    if held.kind == CredentialKind::Token && held.id.as_str() != id {
        return Err(Problem::forbidden("a token ends itself alone; sign in to end another one"));
    }
    end(&by, by.caller.to_act(Permission::View)?, person, one(&id)?).await
}

/// Ends only what is there.
async fn of_other(by: &Writer, name: &str) -> Result<(PersonName, Right), Problem> {
    let person = person_named(&*by.app.people().await?, name)?;
    Ok((person.name.clone(), to_act_for(&by.caller, &person)?))
}

pub(super) async fn of_person(by: Reader, Path(name): Path<String>) -> Answered<List<CredentialView>> {
    let person = person_named(&*by.app.people().await?, &name)?;
    credentials(&by.app, &person.name, by.caller.own()).await.map(Json)
}

pub(super) async fn end_all(by: Writer, Path(name): Path<String>) -> Answered<Written> {
    let (person, right) = of_other(&by, &name).await?;
    end(&by, right, person, CredentialsToEnd::Everything).await
}

pub(super) async fn end_one(by: Writer, Path((name, id)): Path<(String, String)>) -> Answered<Written> {
    let (person, right) = of_other(&by, &name).await?;
    end(&by, right, person, one(&id)?).await
}

fn one(id: &str) -> Result<CredentialsToEnd, Problem> {
    let read = CredentialId::try_from(id);
    read.map(CredentialsToEnd::One).map_err(|_| Problem::unknown("credential", id))
}

async fn end(by: &Writer, right: Right, person: PersonName, which: CredentialsToEnd) -> Answered<Written> {
    let command = CredentialCommand::End { person, which };
    let done = by.write(right)?.send(tidemill_model::ShardId::CATALOGUE, command.into()).await?;
    by.app.takes(done.position).await;
    written(done)
}
