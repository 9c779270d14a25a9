use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{Answer, Command, GroupName, GroupSettings, Role, ShardId};
use tidemill_store::ReadTables;

use crate::Problem;
use crate::app::App;
use crate::auth::Caller;
use crate::body::{Body, parse};
use crate::params::Params;
use crate::view::{GroupView, List};
use crate::write::Write;

/// The groups that the key reaches, by number.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json<List<GroupView>>, Problem> {
    params.only(&[])?;
    let groups = app.read(|tables| tables.groups()).await?;
    let reached = groups.into_iter().filter(|group| caller.reaches(&group.name));
    Ok(Json(List { items: reached.map(GroupView::from).collect(), next: None }))
}

/// A group to be created or changed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupRequest {
    /// Its name.
    name: GroupName,
    /// Ed25519 public key of its workers, 64 hexadecimal digits.
    worker_key: String,
    /// Its bounds; those that are absent have their defaults.
    #[serde(default)]
    settings: GroupSettings,
}

/// A group exists.
#[derive(Serialize, JsonSchema)]
pub(crate) struct GroupDefined {
    /// Its number.
    id: i32,
    /// The shard that does its work.
    shard: u16,
    /// Give this as `at_least` to reads that must show it.
    position: String,
}

/// Creates a group, or changes its key and bounds.
pub(super) async fn define(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Json<GroupDefined>, Problem> {
    params.only(&[])?;
    caller.has_role(Role::SuperAdministrator)?;
    let GroupRequest { name, worker_key, settings } = parse(body)?;
    let command = Command::DefineGroup { name, worker_key, settings };
    let done = Write::new(&app, &caller, &headers)?.send(ShardId::CATALOGUE, command).await?;
    match done.answer {
        Answer::Group { group, shard } => {
            Ok(Json(GroupDefined { id: group.0, shard: shard.0, position: done.position.to_string() }))
        }
        _ => Err(done.unexpected()),
    }
}
