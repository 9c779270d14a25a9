//! The level of what is written, and which processes read it (OPS-9).

use axum::Json;
use schemars::JsonSchema;
use serde::Deserialize;
use tidemill_model::{Level, LevelCommand, LevelState, LiveAnswer, LiveQuery, Permission, ShardId, bounds};

use super::groups::REASON;
use super::requests::{Reader, Writer};
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::params::Params;
use crate::view::{Answered, Written};

/// The level that stands, and who reads how much.
pub(super) async fn get(by: Reader) -> Answered<LevelState> {
    match by.app.ask(ShardId::CATALOGUE, LiveQuery::Level).await? {
        LiveAnswer::Level(state) => Ok(Json(*state)),
        _ => {
            let reason = "the owner of the catalogue does not answer; try again later";
            Err(Problem::unavailable("owner_unavailable", reason))
        }
    }
}

/// Refuses what is new in a level before that stands: an owner may not read it (rule 13).
pub(super) async fn allows(app: &App, needed: Level) -> Result<(), Problem> {
    let Ok(LiveAnswer::Level(state)) = app.ask(ShardId::CATALOGUE, LiveQuery::Level).await else {
        let reason = "the owner of the catalogue does not say which level stands; try again later";
        return Err(Problem::unavailable("owner_unavailable", reason));
    };
    if state.level.allows(needed) {
        return Ok(());
    }
    let rule = format!(
        "must be {needed} for this call; it is raised once every process reads that and nobody holds it (`tidemill level show`)"
    );
    Err(Problem::field("level", state.level, rule))
}

/// Why the level is held.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HoldRequest {
    /// For the record; 1 to 500 characters.
    #[schemars(length(min = 1, max = bounds::REASON_CHARS))]
    reason: String,
}

/// Keeps the level as it is, so that what runs now can be gone back to.
pub(super) async fn hold(by: Writer, Body(body): Body) -> Answered<Written> {
    let right = by.caller.for_site(Permission::Manage)?;
    let HoldRequest { reason } = parse(body)?;
    by.written(right, ShardId::CATALOGUE, LevelCommand::Hold { reason }).await
}

/// Lets the level be raised as soon as every process reads the next one.
pub(super) async fn release(by: Writer, params: Params) -> Answered<Written> {
    let right = by.caller.for_site(Permission::Manage)?;
    let reason = params.get(REASON)?.unwrap_or_default();
    by.written(right, ShardId::CATALOGUE, LevelCommand::Release { reason }).await
}
