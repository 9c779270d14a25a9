use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use tidemill_model::{CatalogueCommand, Concerned, GroupName, Role, Timestamp, bounds};
use tidemill_store::ReadTables;

use super::reader::Reader;
use super::writer::Writer;
use crate::Problem;
use crate::body::{Body, parse};
use crate::parameter::Asked;
use crate::params::Params;
use crate::rights::{Caller, Right};
use crate::view::{FreezeView, List, Written};

pub(super) const REASON: Asked<String> =
    Asked::text("reason", "Why, for the record; at most 500 characters.");

/// What is frozen, of what the key reaches.
pub(super) async fn list(by: Reader) -> Result<Json<List<FreezeView>>, Problem> {
    let freezes = by.app.read(|tables| tables.freezes()).await?;
    let reached = freezes.into_iter().filter(|row| &*row.scope == "*" || by.caller.reaches(&row.scope));
    Ok(Json(List::all(reached)))
}

/// What is to be frozen.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FreezeRequest {
    /// The latest logical time that may be assigned; absent: now.
    #[serde(default)]
    latest: Option<Timestamp>,
    /// For the record; 1 to 500 characters.
    #[schemars(length(min = 1, max = bounds::REASON_CHARS))]
    reason: String,
}

/// Lets no batch beyond a logical time be assigned (BYD-17). When it answers 200, none is from then on.
pub(super) async fn set(
    by: Writer,
    Path(scope): Path<String>,
    Body(body): Body,
) -> Result<(StatusCode, Json<Written>), Problem> {
    let (FreezeRequest { latest, reason }, group) = (parse(body)?, frozen_group(&scope)?);
    let right = may_freeze(&by.caller, group.as_ref())?;
    let command = CatalogueCommand::Freeze { group: group.clone(), latest, reason };
    by.settled(right, command, concerned(group)).await
}

/// Ends a freeze; that of every group and that of one are two.
pub(super) async fn lift(
    by: Writer,
    Path(scope): Path<String>,
    params: Params,
) -> Result<(StatusCode, Json<Written>), Problem> {
    let (group, reason) = (frozen_group(&scope)?, params.get(REASON)?.unwrap_or_default());
    let right = may_freeze(&by.caller, group.as_ref())?;
    let command = CatalogueCommand::LiftFreeze { group: group.clone(), reason };
    by.settled(right, command, concerned(group)).await
}

/// The group that a scope names; `None`: it stands for all groups.
fn frozen_group(scope: &str) -> Result<Option<GroupName>, Problem> {
    if scope == "*" {
        return Ok(None);
    }
    let group = GroupName::try_from(scope);
    group.map(Some).map_err(|error| Problem::field("scope", scope, format!("{error}; or * for all groups")))
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
