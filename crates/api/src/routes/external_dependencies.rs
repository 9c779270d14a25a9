//! What batches wait for outside: overrides, the quality service's call back, third parties, and checks of paths.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use schemars::JsonSchema;
use serde::Deserialize;
use tidemill_model::{
    BatchCommand, BatchId, CatalogueCommand, ObservationCommand, Permission, ShardId, ThirdPartyReport,
    Waiver, bounds,
};
use tidemill_store::ReadTables;

use super::requests::{Reader, Writer};
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::parameter::Asked;
use crate::params::Params;
use crate::view::{Answered, LateProbeView, List, ThirdPartyView, Written};

pub(super) const CODE: Asked<String> = Asked::text("code", "Of this code.");

/// Without which of its conditions a batch is to run, and why.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverrideRequest {
    /// `"all"`, `"quality"`, `{"path": …}`, `{"third_party": …}` or `{"parent": {"job": …, "logical_time": …}}`,
    /// where the time may be left out.
    #[schemars(with = "Waiver")]
    what: serde_json::Value,
    /// For the record; 1 to 500 characters.
    #[schemars(length(min = 1, max = bounds::REASON_CHARS))]
    reason: String,
}

/// Lets a batch run without some of its unmet conditions (DEP-7).
pub(super) async fn waive(by: Writer, Path(text): Path<String>, Body(body): Body) -> Answered<Written> {
    let (batch, shard, right) = by.batch(&text, Permission::Override).await?;
    let OverrideRequest { what, reason } = parse(body)?;
    let rule = "must be \"all\", \"quality\", {\"path\": …}, {\"third_party\": …} or \
                {\"parent\": {\"job\": …, \"logical_time\": …}}";
    let given = what.to_string();
    let what: Waiver = serde_json::from_value(what).map_err(|_| Problem::field("what", given, rule))?;
    let command = BatchCommand::OverrideDependency { batch, what, reason };
    by.written(right, shard, command).await
}

/// What the quality service says of a batch.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QualityRequest {
    /// Whether it may run.
    allowed: bool,
    /// Why; at most 500 characters are kept.
    #[serde(default)]
    reason: String,
}

/// The quality service's call back (DQ-2).
pub(super) async fn quality(by: Writer, Path(text): Path<String>, Body(body): Body) -> Answered<Written> {
    let (batch, shard, right) = by.batch(&text, Permission::Answer).await?;
    let QualityRequest { allowed, reason } = parse(body)?;
    let command = BatchCommand::AnswerQuality { batch, allowed, reason };
    by.written(right, shard, command).await
}

/// A third party says that something is ready, or is so no longer (DEP-2).
pub(super) async fn report(by: Writer, Body(body): Body) -> Answered<Written> {
    let right = by.caller.for_site(Permission::Answer)?;
    let report: ThirdPartyReport = parse(body)?;
    let command = CatalogueCommand::ReportThirdParty(report);
    by.written(right, ShardId::CATALOGUE, command).await
}

pub(super) async fn reports(by: Reader, params: Params) -> Answered<List<ThirdPartyView>> {
    let code = params.get(CODE)?;
    List::part(&by.app, &params, move |tables, request| tables.third_party_reports(code.as_deref(), request))
        .await
}

/// What is to be probed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProbeRequest {
    /// What this batch waits for; absent: everything, which takes an administrator's key that is bound to no group.
    #[serde(default)]
    batch: Option<i64>,
}

/// Paths are probed at once (DEP-9).
pub(super) async fn probe_now(by: Writer, Body(body): Body) -> Answered<Written> {
    let ProbeRequest { batch } = parse(body)?;
    let batch = batch.map(BatchId);
    let (shard, right) = match batch {
        Some(batch) => by.shard_of(batch, Permission::Operate).await?,
        None => (ShardId::CATALOGUE, by.caller.for_site(Permission::Administer)?),
    };
    by.written(right, shard, ObservationCommand::ProbeNow { batch }).await
}

/// Checks of paths that fail or are late (DEP-5), of all groups: a prober's report names paths, and no group.
pub(super) async fn late_probes(State(app): State<Arc<App>>) -> Answered<List<LateProbeView>> {
    let rows = app.read(|tables| tables.late_probes()).await?;
    Ok(Json(List::all(rows)))
}
