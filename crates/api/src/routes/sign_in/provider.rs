//! Sign-in through an OpenID Connect provider ([`tidemill_oidc`]).
//!
//! What the provider says of a person's role and departments is written to the directory at each sign-in, where it differs;
//! what it does not say stays. So rights follow from the directory alone, and from the journal.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{
    CredentialCommand, CredentialsToEnd, DirectoryChange, DirectoryCommand, Person, Rejection, Role, ShardId,
};
use tidemill_oidc::{Admission, Error, SignedIn};

use super::{decided, session_of};
use crate::Problem;
use crate::app::App;
use crate::credential::SESSION;
use crate::refusals::Shown;
use crate::rights::Right;
use crate::view::Answered;
use crate::write::Write;

/// Where the browser goes once somebody is signed in.
const HOME: &str = "/reference/";
/// Times that a change of the directory is tried, because somebody else has changed it meanwhile.
const MAX_CHANGES: usize = 5;

/// How one can sign in here.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SignInOptions {
    /// Whether everybody who has a password can sign in with it; false: those alone whom the configuration names.
    password: bool,
    /// Where a browser goes to sign in through the provider; absent: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'static str>,
}

pub(super) async fn options(State(app): State<Arc<App>>) -> Answered<SignInOptions> {
    let password = app.config.sign_in.password_for.is_empty();
    Ok(Json(SignInOptions { password, provider: app.oidc.is_some().then_some("/api/sign-in/oidc") }))
}

fn provider(app: &App) -> Result<&tidemill_oidc::Provider, Problem> {
    let detail = "no provider is configured (api.sign_in.oidc); sign in with a password";
    app.oidc.as_ref().ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "no_provider", detail))
}

fn sent_to(address: &str) -> Result<HeaderValue, Problem> {
    HeaderValue::try_from(address)
        .map_err(|_| Problem::internal("the provider's address cannot be sent to a browser"))
}

/// Sends the browser to the provider.
pub(super) async fn begin(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let begun = provider(&app)?.begin(jiff::Timestamp::now()).await.map_err(|error| told(&error))?;
    let pending = serde_json::to_vec(&begun.pending).expect("it is plain data");
    let headers = [
        (header::LOCATION, sent_to(&begun.url)?),
        (header::SET_COOKIE, app.cookie().begun(&app.flow_seal.seal(&pending))),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// The browser comes back from the provider.
pub(super) async fn done(
    State(app): State<Arc<App>>,
    Extension(shown): Extension<Shown>,
    Query(said): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let provider = provider(&app)?;
    shown.set(SESSION);
    if let Some(error) = said.get("error") {
        let more = said.get("error_description").map(|more| format!(": {more}")).unwrap_or_default();
        let detail: String = format!("the provider says {error}{more}").chars().take(500).collect();
        return Err(Problem::not_signed_in(detail));
    }
    let pending = app.cookie().was_begun(&headers).and_then(|sealed| app.flow_seal.open(&sealed));
    let pending = pending.and_then(|json| serde_json::from_slice(&json).ok()).ok_or_else(|| {
        Problem::not_signed_in(
            "no sign-in was begun in this browser, or too long ago; begin at /api/sign-in/oidc",
        )
    })?;
    let part = |name: &str| said.get(name).map(String::as_str).unwrap_or_default();
    let signed_in = provider.finish(&pending, part("code"), part("state"), jiff::Timestamp::now()).await;
    let signed_in = signed_in.map_err(|error| told(&error))?;
    let name = signed_in.name.clone();
    shown.set_person(name.as_str());
    in_the_directory(&app, &signed_in).await?;
    let (secret, session) = session_of(&app, &name, "provider");
    let seconds = super::seconds_left(&session);
    let command = CredentialCommand::Issue { credential: Box::new(session), shown: None, first_only: false };
    decided(&app, Right::of_person(&name), command).await?;
    let mut response =
        (StatusCode::SEE_OTHER, [(header::LOCATION, HeaderValue::from_static(HOME))]).into_response();
    for cookie in [app.cookie().set(&secret, seconds), app.cookie().begun_no_more()] {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn told(error: &Error) -> Problem {
    match error {
        Error::Away { source, .. } => {
            tracing::warn!(error = source.as_ref(), "{error}");
            Problem::unavailable(
                "provider_away",
                format!("{error}; sessions go on, and so do passwords where they are allowed"),
            )
        }
        Error::Refused(refusal) => Problem::not_signed_in(refusal.to_string()),
        Error::Misconfigured(fault) => {
            tracing::error!("nobody can sign in through the provider: {fault}");
            let detail = "nobody can sign in through the provider as it is configured; the reason is in the log of this instance";
            Problem::unavailable("provider_misconfigured", detail)
        }
    }
}

/// Makes the person what the provider says.
async fn in_the_directory(app: &App, said: &SignedIn) -> Result<(), Problem> {
    let refused = |detail: String| Problem::not_signed_in(detail);
    for _ in 0..MAX_CHANGES {
        let directory = app.people_known().await?.directory();
        let known = directory.people().get(&said.name);
        let before = match known {
            Some(person) if person.enabled => Some(person.as_ref().clone()),
            Some(_) => return Err(refused(format!("{} is disabled in the directory", said.name))),
            None if app.config.sign_in.adds_people => None,
            None => {
                let detail = format!(
                    "{} is not in the directory; an administrator has to add the person first",
                    said.name
                );
                return Err(refused(detail));
            }
        };
        if said.role == Some(Admission::Denied) {
            return Err(kept_out(app, said, before.is_some()).await?);
        }
        let wanted = as_said(before.clone(), said);
        if before.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let change = DirectoryChange::Person(Box::new(wanted));
        let command = DirectoryCommand::Change { revision: directory.revision(), changes: vec![change] };
        let write = Write::fresh(app, Right::of_provider(&said.name));
        match write.send_once(ShardId::CATALOGUE, command.into()).await? {
            Ok(done) => {
                app.takes(done.position).await;
                return Ok(());
            }
            // Somebody else was faster, and is heard of in a moment.
            Err(Rejection::RevisionChanged { .. }) => app.catch_up().await,
            Err(rejection) => {
                tracing::error!(
                    "what the provider says of {} is no entry of the directory: {rejection}",
                    said.name
                );
                let detail = format!(
                    "what the provider says of {} does not fit the directory: {rejection}",
                    said.name
                );
                return Err(refused(detail));
            }
        }
    }
    let detail = "the directory is being changed by others all the time; try again in a moment";
    Err(Problem::unavailable("directory_busy", detail).retry_after(1))
}

/// Whoever may not sign in any more is signed out, too.
async fn kept_out(app: &App, said: &SignedIn, is_there: bool) -> Result<Problem, Problem> {
    if is_there {
        let (person, which) = (said.name.clone(), CredentialsToEnd::Everything);
        decided(app, Right::of_provider(&said.name), CredentialCommand::End { person, which }).await?;
    }
    let detail = format!("the provider gives {} no role that may sign in here", said.name);
    Ok(Problem::not_signed_in(detail))
}

/// What is not said stays; a person who is new is a user of no department.
fn as_said(before: Option<Person>, said: &SignedIn) -> Person {
    let new = || Person { role: Role::User, ..Person::super_administrator(said.name.clone()) };
    let mut person = before.unwrap_or_else(new);
    if let Some(Admission::As(role)) = said.role {
        person.role = role;
    }
    if let Some(mail) = &said.mail {
        person.mail = Some(mail.clone());
    }
    if let Some(departments) = &said.departments {
        // The first is the main one: the order that was chosen stays.
        person.departments.retain(|of| departments.contains(of));
        let new: Vec<_> = departments.iter().filter(|of| !person.departments.contains(of)).cloned().collect();
        person.departments.extend(new);
    }
    person
}

#[cfg(test)]
mod tests {
    use tidemill_model::{DepartmentName, PersonName};

    use super::*;

    fn names(names: &[&str]) -> Vec<DepartmentName> {
        names.iter().map(|name| DepartmentName::try_from(*name).unwrap()).collect()
    }

    /// API-5: what the provider says counts, what it does not say stays, and no claim is not an empty one.
    #[test]
    fn what_the_provider_says_is_what_the_directory_has() {
        let name = PersonName::try_from("ann").unwrap();
        let known = Person {
            role: Role::Viewer,
            departments: names(&["web", "data"]),
            mail: Some("old@example.org".to_owned()),
            ..Person::super_administrator(name.clone())
        };
        let said = SignedIn { subject: "1".to_owned(), name, mail: None, role: None, departments: None };
        assert_eq!(as_said(Some(known.clone()), &said), known);
        let more = SignedIn {
            mail: Some("new@example.org".to_owned()),
            role: Some(Admission::As(Role::Administrator)),
            departments: Some(names(&["bi", "data"]).into_iter().collect()),
            ..said.clone()
        };
        let person = as_said(Some(known.clone()), &more);
        assert_eq!((person.role, person.mail.as_deref()), (Role::Administrator, Some("new@example.org")));
        assert_eq!(person.departments, names(&["data", "bi"]));
        let of_none = SignedIn { departments: Some(Default::default()), ..said.clone() };
        assert_eq!(as_said(Some(known), &of_none).departments, names(&[]));
        let new = as_said(None, &said);
        assert_eq!((new.role, new.enabled, new.departments.len()), (Role::User, true, 0));
    }
}
