use axum::Json;
use axum::extract::Path;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use tidemill_journal::now;
use tidemill_model::{
    CatalogueCommand, FieldError, GroupName, LiveAnswer, LiveQuery, Permission, ShardId, UserName,
    UserStanding, bounds,
};
use tidemill_store::ReadPullTables;
use tidemill_store::rows::PullUserRow;

use super::requests::{Reader, Writer, written};
use crate::Problem;
use crate::app::{App, shard_in};
use crate::body::{Body, parse};
use crate::known::homeless;
use crate::object::Object;
use crate::parameter::Asked;
use crate::params::Params;
use crate::rights::Caller;
use crate::view::{Answered, List, PullUserDetail, PullUserView, Written};

/// A user's name from a path or a body.
pub(super) fn user_name(text: &str) -> Result<UserName, Problem> {
    UserName::try_from(text).map_err(|error| Problem::field("user", text, error.to_string()))
}

pub(super) const GROUP: Asked<String> = Asked::text("group", "Of this home group.");

pub(super) async fn list(by: Reader, params: Params) -> Answered<List<PullUserView>> {
    let (group, seen) = (params.get(GROUP)?, by.caller.seen());
    List::part(&by.app, &params, move |tables, request| {
        tables.pull_users(group.as_deref(), seen.as_ref(), request)
    })
    .await
}

/// The row of a user that the caller may see.
async fn user_row(app: &App, caller: &Caller, user: &UserName) -> Result<PullUserRow, Problem> {
    let name = user.clone();
    let row = app.read(move |tables| tables.pull_user(name.as_str())).await?;
    let row = row.ok_or_else(|| homeless(user))?;
    if caller.reaches(&row.group_name) { Ok(row) } else { Err(homeless(user).foreign()) }
}

fn object(user: &UserName, row: &PullUserRow) -> Object {
    Object::new("user", user, Arc::clone(&row.group_name))
}

/// A user: what it has now, and what it gets next, as the owner of its home group says.
pub(super) async fn get(by: Reader, Path(text): Path<String>) -> Answered<PullUserDetail> {
    let user = user_name(&text)?;
    let row = user_row(&by.app, &by.caller, &user).await?;
    let standing = standing(&by.app, user, row.shard).await;
    Ok(Json(PullUserDetail { user: row.into(), standing }))
}

async fn standing(app: &App, user: UserName, shard: i64) -> Option<UserStanding> {
    match app.ask(shard_in(shard), LiveQuery::User { user, at: now() }).await {
        Ok(LiveAnswer::User(standing)) => Some(*standing),
        Ok(_) | Err(_) => None,
    }
}

/// Users that are to have a home group.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AssignRequest {
    /// Which group.
    group: GroupName,
    /// 1 to 500 names, each 1 to 128 of `A-Z a-z 0-9 . _ @ -`.
    #[schemars(with = "Vec<UserName>", length(min = 1, max = bounds::USERS))]
    users: Vec<String>,
}

/// Gives users their home group, all or none. Those who have it already stay as they are.
pub(super) async fn assign(by: Writer, Body(body): Body) -> Answered<Written> {
    let AssignRequest { group, users } = parse(body)?;
    let right = by.caller.may(Permission::Administer, &Object::group_called(group.as_str()))?;
    if !(1..=bounds::USERS).contains(&users.len()) {
        return Err(Problem::field("users", users.len(), format!("must be 1 to {} names", bounds::USERS)));
    }
    let (mut named, mut faults) = (Vec::with_capacity(users.len()), Vec::new());
    for (index, user) in users.iter().enumerate() {
        match UserName::try_from(user.as_str()) {
            Ok(user) => named.push(user),
            Err(error) => faults.push(FieldError::new(format!("users[{index}]"), user, error.to_string())),
        }
    }
    if !faults.is_empty() {
        return Err(Problem::fields(faults));
    }
    let command = CatalogueCommand::AssignUsers { group, users: named };
    by.written(right, ShardId::CATALOGUE, command).await
}

/// Where a user is to go.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveRequest {
    /// The group that is to be its home.
    to: GroupName,
}

/// Moves a user with its history and its own tasks to another group; refused while it has a live grant.
pub(super) async fn relocate(by: Writer, Path(text): Path<String>, Body(body): Body) -> Answered<Written> {
    let MoveRequest { to } = parse(body)?;
    let user = user_name(&text)?;
    let from = object(&user, &user_row(&by.app, &by.caller, &user).await?);
    let right = by.caller.may_all(Permission::Administer, [&from, &Object::group_called(to.as_str())])?;
    let command = CatalogueCommand::MoveUser { user: user.clone(), to };
    let done = by.send(right, ShardId::CATALOGUE, command).await;
    written(done?)
}

/// Takes a user out of its group, and its own tasks with it; refused while it has a live grant.
pub(super) async fn remove(by: Writer, Path(text): Path<String>) -> Answered<Written> {
    let user = user_name(&text)?;
    let row = user_row(&by.app, &by.caller, &user).await?;
    let right = by.caller.may(Permission::Administer, &object(&user, &row))?;
    let command = CatalogueCommand::DeleteUser { user: user.clone() };
    let done = by.send(right, ShardId::CATALOGUE, command).await;
    written(done?)
}
