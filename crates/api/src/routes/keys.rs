use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{
    Account, CatalogueCommand, DepartmentName, GroupName, Permission, Role, ShardId, bounds,
};
use tidemill_store::ReadTables;

use super::no_token;
use super::requests::{Writer, written};
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::rights::Right;
use crate::secret::hash_of;
use crate::view::{Answered, KeyView, List, Written};

/// The shortest secret that is taken.
const MIN_SECRET_CHARS: usize = 16;

/// Application keys, by name; never their secrets.
pub(super) async fn list(State(app): State<Arc<App>>) -> Answered<List<KeyView>> {
    let keys = app.read(|tables| tables.app_keys()).await?;
    Ok(Json(List::all(keys)))
}

/// A key to be created or replaced.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyRequest {
    /// Its name.
    #[schemars(length(min = 1, max = bounds::APP_CHARS), regex(pattern = bounds::APP_PATTERN))]
    app: String,
    /// Its secret, at least 16 characters; absent: one is drawn, and shown in the answer only.
    #[serde(default)]
    #[schemars(length(min = MIN_SECRET_CHARS))]
    secret: Option<String>,
    /// What it allows.
    role: Role,
    /// The groups that it is bound to; empty: all.
    #[serde(default)]
    #[schemars(length(max = bounds::KEY_GROUPS))]
    groups: Vec<GroupName>,
    /// The accounts that jobs may run as which it applies; of a super administrator's any. Default none.
    #[serde(default)]
    #[schemars(length(max = bounds::KEY_ACCOUNTS))]
    run_as: BTreeSet<Account>,
    /// What it may beside what the role gives, within what it reaches: `override`, `answer`, `declare_dead` and others that are
    /// not of the whole site; `depend` counts beyond what it reaches, too. Default nothing.
    #[serde(default)]
    may: BTreeSet<Permission>,
    /// The department that it belongs to: it reaches the jobs of that alone, and speaks for nobody else. Absent: of none.
    #[serde(default)]
    department: Option<DepartmentName>,
}

/// A key is good.
#[derive(Serialize, JsonSchema)]
pub(crate) struct KeyDefined {
    /// Its name.
    app: String,
    /// The secret that was drawn; shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// Give this as `at_least` to reads that must show it.
    position: String,
}

/// Creates or replaces a key. The log holds its hash only.
pub(super) async fn define(by: Writer, Body(body): Body) -> Answered<KeyDefined> {
    let right = by.caller.for_site(Permission::Manage)?;
    no_token(&by.caller)?;
    let KeyRequest { app: name, secret, role, groups, run_as, may, department } = parse(body)?;
    if secret.as_ref().is_some_and(|secret| secret.chars().count() < MIN_SECRET_CHARS) {
        let rule = format!("must have at least {MIN_SECRET_CHARS} characters; leave it out and one is drawn");
        return Err(Problem::field("secret", "(not shown)", rule));
    }
    if secret.is_none() && by.headers.contains_key("idempotency-key") {
        // The stored answer of a repeat could not name the secret that the first one drew.
        return Err(Problem::field("secret", "", "must be given together with an Idempotency-Key"));
    }
    // 122 bits of the operating system's random numbers: not a UUID with the time in it, which others could guess.
    let drawn = secret.is_none().then(|| uuid::Uuid::new_v4().simple().to_string());
    let hash = hash_of(secret.as_ref().or(drawn.as_ref()).expect("given, or else drawn"));
    let app = name.clone();
    let command =
        CatalogueCommand::DefineKey { app, hash, role, groups, run_as, may, department, first_only: false };
    let Json(Written { position, .. }) = taken(&by, right, command).await?;
    Ok(Json(KeyDefined { app: name, secret: drawn, position }))
}

/// Ends a key; this instance stops taking it with the answer, the others within a second.
pub(super) async fn revoke(by: Writer, Path(name): Path<String>) -> Answered<Written> {
    let right = by.caller.for_site(Permission::Manage)?;
    taken(&by, right, CatalogueCommand::RevokeKey { app: name }).await
}

/// Changes a key, and waits for a moment until that counts here.
async fn taken(by: &Writer, right: Right, command: CatalogueCommand) -> Answered<Written> {
    let done = by.send(right, ShardId::CATALOGUE, command).await?;
    by.app.takes(done.position).await;
    written(done)
}
