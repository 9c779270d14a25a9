use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidemill_model::Timestamp;
use tidemill_store::rows::{
    BatchExternalDependencyRow, BatchQualityRow, ExternalDependencyRow, LateProbeRow, OverrideRow,
    ThirdPartyReportRow,
};

use super::{json, string, time};

/// An external dependency that a batch waits for, or waited for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExternalDependencyView {
    /// Its number; all batches of a group that wait for it share it.
    pub(crate) external_dependency: i64,
    /// `path` or `third_party`.
    pub(crate) kind: String,
    /// The path, templates resolved.
    pub(crate) path: Option<String>,
    /// Name of the file in it that has to exist.
    pub(crate) mark: Option<String>,
    /// What a third party reports.
    pub(crate) code: Option<String>,
    /// For which logical time.
    pub(crate) logical_time: Option<Timestamp>,
    /// Whether it is there, or was when nobody waited for it any more.
    pub(crate) satisfied: bool,
    /// When it came the last time.
    pub(crate) satisfied_at: Option<Timestamp>,
    /// When it went the last time.
    pub(crate) revoked_at: Option<Timestamp>,
    /// The worker that found it gone.
    pub(crate) revoked_by: Option<String>,
    /// When a person let this batch run without it.
    pub(crate) overridden_at: Option<Timestamp>,
}

impl ExternalDependencyView {
    pub(crate) fn new(of_batch: &BatchExternalDependencyRow, row: ExternalDependencyRow) -> Self {
        Self {
            external_dependency: row.id,
            kind: row.kind.to_string(),
            path: string(row.path),
            mark: string(row.mark),
            code: string(row.code),
            logical_time: row.logical_time.map(time),
            satisfied: row.satisfied,
            satisfied_at: row.satisfied_at.map(time),
            revoked_at: row.revoked_at.map(time),
            revoked_by: string(row.revoked_by),
            overridden_at: of_batch.overridden_at.map(time),
        }
    }
}

/// How the quality service stands to a batch.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QualityView {
    /// `waiting` (something else is unmet), `requested`, `sent`, `allowed`, `refused` or `overridden`.
    pub(crate) state: String,
    /// How often it was asked.
    pub(crate) asked: i64,
    /// When it was to be asked, the last time.
    pub(crate) requested_at: Option<Timestamp>,
    /// When somebody sent the question, the last time. A crash may have come in between.
    pub(crate) sent_at: Option<Timestamp>,
    /// When it is asked again, unless it answers.
    pub(crate) again_at: Option<Timestamp>,
    /// When it answered.
    pub(crate) answered_at: Option<Timestamp>,
    /// Who called back.
    pub(crate) answered_by: Option<String>,
    /// Why.
    pub(crate) reason: String,
}

impl From<BatchQualityRow> for QualityView {
    fn from(row: BatchQualityRow) -> Self {
        Self {
            state: row.state.to_string(),
            asked: row.asked,
            requested_at: row.requested_at.map(time),
            sent_at: row.sent_at.map(time),
            again_at: row.again_at.map(time),
            answered_at: row.answered_at.map(time),
            answered_by: string(row.answered_by),
            reason: row.reason.to_string(),
        }
    }
}

/// What a person let a batch run without.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OverrideView {
    /// Things outside, by number.
    pub(crate) external_dependencies: Value,
    /// Parents and their logical times.
    pub(crate) parents: Value,
    /// Also any of the parents that it counts and does not list.
    pub(crate) counted_parents: bool,
    /// The quality service's word.
    pub(crate) quality: bool,
    /// Who.
    pub(crate) by: String,
    /// Why.
    pub(crate) reason: String,
    /// When.
    pub(crate) at: Timestamp,
}

impl From<OverrideRow> for OverrideView {
    fn from(row: OverrideRow) -> Self {
        Self {
            external_dependencies: json(&row.external_dependencies),
            parents: json(&row.parents),
            counted_parents: row.counted_parents,
            quality: row.quality,
            by: row.overridden_by.to_string(),
            reason: row.reason.to_string(),
            at: time(row.overridden_at),
        }
    }
}

/// What a third party said last.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ThirdPartyView {
    /// What it is about.
    pub(crate) code: String,
    /// For which logical time.
    pub(crate) logical_time: Timestamp,
    /// Whether it is ready.
    pub(crate) ready: bool,
    /// When it said so.
    pub(crate) reported_at: Timestamp,
    /// Who.
    pub(crate) reported_by: String,
}

impl From<ThirdPartyReportRow> for ThirdPartyView {
    fn from(row: ThirdPartyReportRow) -> Self {
        Self {
            code: row.code.to_string(),
            logical_time: time(row.logical_time),
            ready: row.ready,
            reported_at: time(row.reported_at),
            reported_by: row.reported_by.to_string(),
        }
    }
}

/// Checks of paths that fail or are late.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LateProbeView {
    /// Whom they ask: a name node, a mount, a bucket.
    pub(crate) authority: String,
    /// Who probes.
    pub(crate) prober: String,
    /// By how much the oldest is late, milliseconds.
    pub(crate) late_ms: i64,
    /// Why they fail.
    pub(crate) failure: String,
    /// Since when.
    pub(crate) since: Timestamp,
    /// When the prober said so the last time.
    pub(crate) reported_at: Timestamp,
}

impl From<LateProbeRow> for LateProbeView {
    fn from(row: LateProbeRow) -> Self {
        Self {
            authority: row.authority.to_string(),
            prober: row.prober.to_string(),
            late_ms: row.late_ms,
            failure: row.failure.to_string(),
            since: time(row.since),
            reported_at: time(row.reported_at),
        }
    }
}
