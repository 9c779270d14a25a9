use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;
use tidemill_model::{Command, Concerned, GroupName, Role, ShardId, Timestamp, bounds};
use tidemill_store::ReadTables;

use super::run::settled;
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::params::Params;
use crate::rights::{Caller, Right};
use crate::view::{FreezeView, List, Written};
use crate::write::Write;

/// What is frozen, of what the key reaches.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json<List<FreezeView>>, Problem> {
    params.only(&[])?;
    let freezes = app.read(|tables| tables.freezes()).await?;
    let reached = freezes.into_iter().filter(|row| &*row.scope == "*" || caller.reaches(&row.scope));
    Ok(Json(List { items: reached.map(FreezeView::from).collect(), next: None }))
}

/// What is to be frozen.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FreezeRequest {
    /// This group; absent: every group, which takes a super administrator.
    #[serde(default)]
    group: Option<GroupName>,
    /// The latest logical time that may be assigned; absent: now.
    #[serde(default)]
    latest: Option<Timestamp>,
    /// For the record; 1 to 500 characters.
    #[schemars(length(min = 1, max = bounds::REASON_CHARS))]
    reason: String,
}

/// Lets no batch beyond a logical time be assigned (BYD-17). When it answers 200, none is from then on.
pub(super) async fn freeze(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<(StatusCode, Json<Written>), Problem> {
    params.only(&[])?;
    let FreezeRequest { group, latest, reason } = parse(body)?;
    let right = may_freeze(&caller, group.as_ref())?;
    let command = Command::Freeze { group: group.clone(), latest, reason };
    let done = Write::new(&app, right, &headers)?.send(ShardId::CATALOGUE, command).await?;
    settled(&app, concerned(group), done).await
}

/// What is to be thawed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThawRequest {
    /// This group; absent: the freeze of every group, which takes a super administrator.
    #[serde(default)]
    group: Option<GroupName>,
    /// For the record.
    #[serde(default)]
    reason: String,
}

/// Ends a freeze; that of every group and that of one are two.
pub(super) async fn thaw(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<(StatusCode, Json<Written>), Problem> {
    params.only(&[])?;
    let ThawRequest { group, reason } = parse(body)?;
    let right = may_freeze(&caller, group.as_ref())?;
    let command = Command::Thaw { group: group.clone(), reason };
    let done = Write::new(&app, right, &headers)?.send(ShardId::CATALOGUE, command).await?;
    settled(&app, concerned(group), done).await
}

fn concerned(group: Option<GroupName>) -> Concerned {
    group.map_or(Concerned::Everyone, Concerned::Group)
}

fn may_freeze(caller: &Caller, group: Option<&GroupName>) -> Result<Right, Problem> {
    match group {
        Some(group) => caller.for_group(group.as_str()),
        None => caller.for_site(Role::SuperAdministrator),
    }
}
