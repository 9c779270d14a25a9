//! What answers look like. Rows of the tables in the words of the interface: times as RFC 3339, states as words.

mod batch;
mod bulk;
mod calendar;
mod dead_letter;
mod external_dependency;
mod job;
mod pool;
mod pull;
mod rerun;
mod version;
mod worker;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidemill_model::Timestamp;
use tidemill_store::Page;

use crate::propagation::Late;

pub(crate) use batch::{
    AttemptView, BatchDetail, BatchView, DependencyView, OutputView, ReturnView, UserCodeView,
};
pub(crate) use bulk::{BulkItemView, BulkView};
pub(crate) use calendar::{
    CalendarDetail, CalendarVersionDetail, CalendarVersionView, CalendarView, SkippedRunsView, calendar_of,
};
pub(crate) use dead_letter::{DeadLetterDetail, DeadLetterPlace, DeadLetterView, Redriven};
pub(crate) use external_dependency::{
    ExternalDependencyView, LateProbeView, OverrideView, QualityView, ThirdPartyView,
};
pub(crate) use job::{JobDetail, JobView, ParentView, PreviewRun, PreviewView, definition_of};
pub(crate) use pool::{GroupShare, HolderView, PoolDetail, PoolView, pool_of};
pub(crate) use pull::{
    LedgerView, OccurrenceView, PullGrantView, PullTaskView, PullUserDetail, PullUserView, TaskTemplateView,
    totals_of,
};
pub(crate) use rerun::{RerunBatchView, RerunJobView, RerunJobs, RerunSkipView, RerunView, groups_of};
pub(crate) use version::{ChildView, JobVersionDetail, JobVersionView, VersionDiff, version_of_submission};
pub(crate) use worker::{FreezeView, GroupView, KeyView, WorkerView};

/// A part of a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}List")]
pub(crate) struct List<T> {
    /// The rows.
    pub(crate) items: Vec<T>,
    /// Give this as `cursor` to go on; null: this was the last part.
    pub(crate) next: Option<String>,
}

impl<T> List<T> {
    pub(crate) fn of<R>(page: Page<R>, view: impl Fn(R) -> T) -> Self {
        Self {
            items: page.items.into_iter().map(view).collect(),
            next: page.next.map(|next| next.to_string()),
        }
    }
}

/// A write that has nothing else to say.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Written {
    /// Give this as `at_least` to reads that must show it.
    pub(crate) position: String,
    /// How far it is.
    #[serde(flatten)]
    pub(crate) late: Late,
}

/// A time of a row.
pub(crate) fn time(ms: i64) -> Timestamp {
    // Rows hold times that were timestamps; the bounds are the same.
    Timestamp::from_millisecond(ms).unwrap_or(if ms < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

fn string(text: Option<std::sync::Arc<str>>) -> Option<String> {
    text.map(|text| text.to_string())
}
