//! What answers look like: rows of the tables as [`row::View`] shows them, alone or with what is found beside them.

mod audit;
mod beside;
mod dead_letter;
mod defined;
mod job;
mod pull;
mod row;
mod version;

use axum::Json;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::Timestamp;
use tidemill_store::rows::{
    AppKeyRow, AssignmentReturnRow, AttemptRow, BatchOutputRow, BatchQualityRow, BatchRow, BulkItemRow,
    CalendarRow, CalendarVersionRow, GroupRow, JobVersionRow, LateProbeRow, OverrideRow, PullGrantRow,
    PullUserRow, RerunBatchRow, RerunRow, SkippedRunsRow, TaskTemplateRow, ThirdPartyReportRow, UserCodeRow,
    WorkerRow,
};
use tidemill_store::{Page, PageRequest, Row, Table, Tables};

use crate::Problem;
use crate::app::App;
use crate::params::{MAX_LIMIT, Params};
use crate::propagation::Late;

pub(crate) use audit::{AuditPlace, AuditView};
pub(crate) use beside::{
    BatchDetail, BulkView, DependencyView, ExternalDependencyView, FreezeView, RerunJobView, RerunJobs,
    RerunSkipView, batch_result, batch_state, groups_of,
};
pub(crate) use dead_letter::{DeadLetterDetail, DeadLetterPlace, DeadLetterView, Redriven};
pub(crate) use defined::{
    CalendarDetail, CalendarVersionDetail, GroupShare, HolderView, PoolDetail, PoolView, calendar_of, pool_of,
};
pub(crate) use job::{
    JobDetail, JobView, ParentView, PreviewRun, PreviewView, definition_of, full_name, name_of,
};
pub(crate) use pull::{LedgerView, OccurrenceView, PullTaskView, PullUserDetail, totals_of};
pub(crate) use row::View;
pub(crate) use version::{ChildView, JobVersionDetail, VersionDiff, version_of_submission};

row::views! {
    AttemptView: AttemptRow,
    BatchView: BatchRow,
    BulkItemView: BulkItemRow,
    CalendarVersionView: CalendarVersionRow,
    CalendarView: CalendarRow,
    GroupView: GroupRow,
    JobVersionView: JobVersionRow,
    KeyView: AppKeyRow,
    LateProbeView: LateProbeRow,
    OutputView: BatchOutputRow,
    OverrideView: OverrideRow,
    PullGrantView: PullGrantRow,
    PullUserView: PullUserRow,
    QualityView: BatchQualityRow,
    RerunBatchView: RerunBatchRow,
    RerunView: RerunRow,
    ReturnView: AssignmentReturnRow,
    SkippedRunsView: SkippedRunsRow,
    TaskTemplateView: TaskTemplateRow,
    ThirdPartyView: ThirdPartyReportRow,
    UserCodeView: UserCodeRow,
    WorkerView: WorkerRow,
}

/// What a handler answers.
pub(crate) type Answered<T> = Result<Json<T>, Problem>;
/// What a handler answers that waits until it is in effect in every group.
pub(crate) type Settled<T> = Result<(StatusCode, Json<T>), Problem>;

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
    /// All rows: nothing follows.
    pub(crate) fn all<R: Into<T>>(rows: impl IntoIterator<Item = R>) -> Self {
        Self { items: rows.into_iter().map(Into::into).collect(), next: None }
    }

    /// The part that the parameters ask for.
    pub(crate) async fn part<R: Send + 'static>(
        app: &App,
        params: &Params,
        ask: impl FnOnce(&dyn Tables, &PageRequest) -> Result<Page<R>, tidemill_store::Error> + Send + 'static,
    ) -> Answered<Self>
    where
        T: From<R>,
    {
        let request = params.page()?;
        let page = app.read(move |tables| ask(tables, &request)).await?;
        Ok(Json(page.into()))
    }
}

impl<R, T: From<R>> From<Page<R>> for List<T> {
    fn from(page: Page<R>) -> Self {
        Self { next: page.next.map(|next| next.to_string()), ..Self::all(page.items) }
    }
}

/// Gives every row of a list to `each`, part by part.
pub(crate) fn for_each_row<R>(
    part: impl Fn(&PageRequest) -> Result<Page<R>, tidemill_store::Error>,
    each: impl FnMut(R),
) -> Result<(), tidemill_store::Error> {
    let (mut request, mut each) = (PageRequest::first(MAX_LIMIT), each);
    loop {
        let page = part(&request)?;
        page.items.into_iter().for_each(&mut each);
        request.after = page.next;
        if request.after.is_none() {
            return Ok(());
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

pub(crate) fn time(ms: i64) -> Timestamp {
    // Rows hold times that were timestamps; the bounds are the same.
    Timestamp::from_millisecond(ms).unwrap_or(if ms < 0 { Timestamp::MIN } else { Timestamp::MAX })
}
