use axum::Json;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{Answer, CatalogueCommand, Concerned, GroupName, GroupSettings, Role, ShardId, bounds};
use tidemill_store::ReadTables;

use super::reader::Reader;
use super::writer::Writer;
use crate::Problem;
use crate::body::{Body, parse};
use crate::propagation::{self, Late};
use crate::view::{GroupView, List};

/// The groups that the key reaches, by number.
pub(super) async fn list(by: Reader) -> Result<Json<List<GroupView>>, Problem> {
    let groups = by.app.read(|tables| tables.groups()).await?;
    let reached = groups.into_iter().filter(|group| by.caller.reaches(&group.name));
    Ok(Json(List::all(reached)))
}

/// A group to be created or changed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupRequest {
    /// Its name.
    name: GroupName,
    /// Ed25519 public key of its workers, 64 hexadecimal digits.
    #[schemars(regex(pattern = bounds::KEY_PATTERN))]
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
    /// How far it is.
    #[serde(flatten)]
    late: Late,
}

/// Creates a group, or changes its key and bounds. When it answers 200, its workers can register.
pub(super) async fn define(
    by: Writer,
    Body(body): Body,
) -> Result<(StatusCode, Json<GroupDefined>), Problem> {
    let right = by.caller.for_site(Role::SuperAdministrator)?;
    let GroupRequest { name, worker_key, settings } = parse(body)?;
    let command = CatalogueCommand::DefineGroup { name: name.clone(), worker_key, settings };
    let done = by.send(right, ShardId::CATALOGUE, command).await?;
    let Answer::Group { group, shard } = done.answer else { return Err(done.unexpected()) };
    let late = propagation::wait(&by.app, Concerned::Group(name), done.position).await;
    let position = done.position.to_string();
    Ok((late.status(), Json(GroupDefined { id: group.0, shard: shard.0, position, late })))
}
