//! BYD-3: one action for all batches or jobs that fit a filter, as one operation.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{
    Answer, BulkAction, BulkCommand, BulkId, MAX_BULK_ITEMS, OverriddenResult, ShardId, bounds,
};
use tidemill_store::ReadTables;

use super::bulk_matches::{BulkFilter, BulkMatch, matches};
use super::requests::{Reader, Writer};
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::parameter::Asked;
use crate::params::{Params, id};
use crate::rights::Caller;
use crate::view::{Answered, BulkItemView, BulkView, List};

pub(super) const OUTCOME: Asked<String> =
    Asked::word("outcome", "Only `left`, `done` or `refused`.", &["left", "done", "refused"]);

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BulkVerb {
    /// End batches.
    Kill,
    /// Override the result of batches.
    Mark,
    /// Plan to run batches, and what comes after them, again, as `POST /api/batches/{id}/clear` does, and approve that;
    /// at most 50.
    Clear,
    /// Switch jobs on.
    Enable,
    /// Switch jobs off.
    Disable,
}

/// One action for all that fit a filter.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkRequest {
    /// What to do.
    action: BulkVerb,
    /// Of `mark`: the result.
    #[serde(default)]
    result: Option<OverriddenResult>,
    /// To which.
    #[schemars(extend("minProperties" = 1))]
    filter: BulkFilter,
    /// Why, for the record; 1 to 500 bytes.
    #[serde(default)]
    #[schemars(length(max = bounds::REQUEST_REASON_BYTES))]
    reason: String,
    /// Only list what would be done.
    #[serde(default)]
    dry_run: bool,
    /// Refused where more fit; 1 to 5,000.
    #[serde(default = "most")]
    #[schemars(range(min = 1, max = MAX_BULK_ITEMS))]
    limit: usize,
}

fn most() -> usize {
    MAX_BULK_ITEMS
}

/// What would be done.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BulkPlan {
    /// How many fit.
    found: usize,
    /// Each of them.
    items: Vec<BulkMatch>,
}

/// An operation has begun.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BulkStarted {
    /// Its id: `GET /api/bulk/{id}` follows it.
    bulk: i64,
    /// How many batches or jobs it concerns.
    found: usize,
    /// Give this as `at_least` to reads that must show it.
    position: String,
}

/// Begins an operation, or with `dry_run` lists what it would do.
pub(super) async fn begin(by: Writer, Body(body): Body) -> Result<Response, Problem> {
    let request: BulkRequest = parse(body)?;
    let action = action(&request)?;
    if !(1..=MAX_BULK_ITEMS).contains(&request.limit) {
        return Err(Problem::field("limit", request.limit, "must be 1 to 5000"));
    }
    if request.reason.len() > bounds::REQUEST_REASON_BYTES {
        let rule = format!("must be at most {} bytes", bounds::REQUEST_REASON_BYTES);
        return Err(Problem::field("reason", request.reason, rule));
    }
    if action == BulkAction::Clear && !by.caller.is_of_site() {
        let rule = "clear reaches on into what the caller may not reach, who approves it once it is planned; clear single batches";
        return Err(Problem::field("action", "clear", rule));
    }
    let (right, items) = matches(&by.app, &by.caller, action, (&request.filter, request.limit)).await?;
    let found = items.len();
    if request.dry_run {
        return Ok(Json(BulkPlan { found, items }).into_response());
    }
    // Where nothing fits any more this may be a repeat, which the catalogue knows.
    let items = items.iter().map(|item| item.id).collect();
    let command = BulkCommand::Request { action, items, reason: request.reason };
    let done = by.send(right, ShardId::CATALOGUE, command).await?;
    let Answer::Bulk { bulk } = done.answer else { return Err(done.unexpected()) };
    by.app.bulks.begun(bulk);
    let started = BulkStarted { bulk: bulk.0, found, position: done.position.to_string() };
    Ok((StatusCode::ACCEPTED, Json(started)).into_response())
}

fn action(request: &BulkRequest) -> Result<BulkAction, Problem> {
    let action = match (request.action, request.result) {
        (BulkVerb::Mark, Some(result)) => BulkAction::Mark(result),
        (BulkVerb::Mark, None) => {
            return Err(Problem::field("result", "", "is missing; it must be success, failed or skipped"));
        }
        (_, Some(_)) => return Err(Problem::field("result", "", "is of mark only; leave it out")),
        (BulkVerb::Kill, None) => BulkAction::Kill,
        (BulkVerb::Clear, None) => BulkAction::Clear,
        (BulkVerb::Enable, None) => BulkAction::Enable,
        (BulkVerb::Disable, None) => BulkAction::Disable,
    };
    if request.filter == BulkFilter::default() {
        return Err(Problem::field("filter", "", "is empty; give at least one of its fields"));
    }
    let BulkFilter { state, result, from, to, .. } = &request.filter;
    let of_batches = [
        ("filter.state", state.is_some()),
        ("filter.result", result.is_some()),
        ("filter.from", from.is_some()),
        ("filter.to", to.is_some()),
    ];
    match of_batches.iter().find(|(_, is_given)| *is_given && action.is_of_jobs()) {
        Some((field, _)) => {
            let rule = format!("is of batches, and {action} is for jobs; leave it out");
            Err(Problem::field(*field, "", rule))
        }
        None => Ok(action),
    }
}

/// Operations, the newest first: each may concern every group.
pub(super) async fn list(by: Reader, params: Params) -> Answered<List<BulkView>> {
    List::part(&by.app, &params, move |tables, request| tables.bulk_operations(request)).await
}

pub(super) async fn get(by: Reader, Path(text): Path<String>) -> Answered<BulkView> {
    shown(&by.app, &by.caller, id("bulk", &text)?).await.map(Json)
}

pub(super) async fn items(
    by: Reader,
    Path(text): Path<String>,
    params: Params,
) -> Answered<List<BulkItemView>> {
    let outcome = params.get(OUTCOME)?;
    let bulk = shown(&by.app, &by.caller, id("bulk", &text)?).await?.row.0.id;
    List::part(&by.app, &params, move |tables, request| tables.bulk_items(bulk, outcome.as_deref(), request))
        .await
}

async fn shown(app: &App, caller: &Caller, bulk: BulkId) -> Result<BulkView, Problem> {
    let row = app.find("bulk operation", bulk, |tables, bulk| tables.bulk_operation(bulk.0)).await?;
    if *row.requested_by != *caller.name() && !caller.is_of_site() {
        return Err(Problem::unknown("bulk operation", bulk).foreign());
    }
    Ok(BulkView::from(row))
}
