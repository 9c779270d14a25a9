//! BYD-3: one action for all batches or jobs that fit a filter, as one operation.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{
    Answer, BatchResult, BatchState, BulkAction, BulkCommand, BulkId, Command, MAX_BULK_ITEMS,
    OverriddenResult, Role, ShardId, Timestamp, bounds,
};
use tidemill_store::rows::{BatchRow, JobRow};
use tidemill_store::{BatchFilter, JobFilter, PageRequest, ReadTables, Tables};

use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::params::{Params, id};
use crate::rights::{Caller, Right};
use crate::view::{BulkItemView, BulkView, List};
use crate::write::Write;

/// Rows that are looked at for one filter.
const MAX_ROWS: usize = 200_000;
const PAGE: usize = 1_000;
/// What may have come of an item, as the tables name it.
pub(super) const OUTCOMES: &[&str] = &["left", "done", "refused"];

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

/// Which batches or jobs; what is absent lets all pass. At least one field has to be given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BulkFilter {
    /// Of this group.
    group: Option<String>,
    /// Of jobs whose name fits; `*` stands for any letters, `?` for one.
    job: Option<String>,
    /// Of jobs of this type.
    #[serde(rename = "type")]
    job_type: Option<String>,
    /// Of jobs of this owner.
    owner: Option<String>,
    /// Batches in this state.
    state: Option<BatchState>,
    /// Batches that ended with this result.
    result: Option<BatchResult>,
    /// Batches of logical times from this one on.
    from: Option<Timestamp>,
    /// Batches of logical times before this one.
    to: Option<Timestamp>,
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

/// A batch or job that fits.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BulkMatch {
    /// The batch; of `enable` and `disable` the job.
    id: i64,
    /// The job, `group/name`.
    job_name: String,
    /// The batch's logical time.
    #[serde(skip_serializing_if = "Option::is_none")]
    logical_time: Option<Timestamp>,
    /// The batch's state and, once it has finished, result; of a job `enabled` or `disabled`.
    now: String,
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
pub(super) async fn begin(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let request: BulkRequest = parse(body)?;
    let action = action(&request)?;
    if !(1..=MAX_BULK_ITEMS).contains(&request.limit) {
        return Err(Problem::field("limit", request.limit, "must be 1 to 5000"));
    }
    if request.reason.len() > bounds::REQUEST_REASON_BYTES {
        let rule = format!("must be at most {} bytes", bounds::REQUEST_REASON_BYTES);
        return Err(Problem::field("reason", request.reason, rule));
    }
    if action == BulkAction::Clear && !caller.is_of_site() {
        let rule = "clear reaches on into other groups, which a key that is bound to groups approves once it is planned; \
                    clear single batches";
        return Err(Problem::field("action", "clear", rule));
    }
    let (right, items) = matches(&app, &caller, action, &request).await?;
    let found = items.len();
    if request.dry_run {
        return Ok(Json(BulkPlan { found, items }).into_response());
    }
    // Where nothing fits any more this may be a repeat, which the catalogue knows.
    let items = items.iter().map(|item| item.id).collect();
    let command = Command::Bulk(BulkCommand::Request { action, items, reason: request.reason });
    let done = Write::new(&app, right, &headers)?.send(ShardId::CATALOGUE, command).await?;
    let Answer::Bulk { bulk } = done.answer else { return Err(done.unexpected()) };
    app.bulks.begun(bulk);
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

/// All that fit and that the caller may act on; where more fit than the limit, it is refused.
async fn matches(
    app: &App,
    caller: &Caller,
    action: BulkAction,
    request: &BulkRequest,
) -> Result<(Right, Vec<BulkMatch>), Problem> {
    let mut filter = request.filter.clone();
    filter.group = caller.listed_group(filter.group)?;
    let right = match &filter.group {
        Some(group) => caller.for_group(group)?,
        None => caller.for_site(Role::User)?,
    };
    let most = request.limit.min(action.most());
    let found = app
        .read(move |tables| match action.is_of_jobs() {
            true => jobs(tables, &filter, action),
            false => batches(tables, &filter, action),
        })
        .await?;
    let rule = match found {
        Found::All(items) if items.len() <= most => return Ok((right, items)),
        Found::All(items) => {
            let rule = "narrow it, or plan one rerun for a range of logical times";
            let rule = if action == BulkAction::Clear { rule } else { "narrow it" };
            format!("{} or more fit, and {action} takes at most {most} here; {rule}", items.len())
        }
        Found::TooWide => {
            format!("more than {MAX_ROWS} rows would be looked at; narrow it by group, state or times")
        }
    };
    Err(Problem::field("filter", "", rule))
}

enum Found {
    All(Vec<BulkMatch>),
    TooWide,
}

fn jobs(
    tables: &dyn Tables,
    filter: &BulkFilter,
    action: BulkAction,
) -> Result<Found, tidemill_store::Error> {
    let wanted = JobFilter {
        group: filter.group.clone(),
        name: None,
        job_type: filter.job_type.clone(),
        enabled: Some(action == BulkAction::Disable),
        submitted: Some(false),
    };
    let mut items = Vec::new();
    let mut request = PageRequest::first(PAGE);
    for _ in 0..MAX_ROWS / PAGE {
        let page = tables.jobs(&wanted, &request)?;
        let fitting = page.items.iter().filter(|job| filter.fits_job(job));
        items.extend(fitting.map(|job| BulkMatch {
            id: job.id,
            job_name: format!("{}/{}", job.group_name, job.name),
            logical_time: None,
            now: if job.enabled { "enabled" } else { "disabled" }.to_owned(),
        }));
        match page.next {
            Some(next) if items.len() <= MAX_BULK_ITEMS => request.after = Some(next),
            Some(_) | None => return Ok(Found::All(items)),
        }
    }
    Ok(Found::TooWide)
}

fn batches(
    tables: &dyn Tables,
    filter: &BulkFilter,
    action: BulkAction,
) -> Result<Found, tidemill_store::Error> {
    // What has finished cannot be ended, and what has not cannot be run once more.
    let states: &[i64] = match (filter.state, action) {
        (Some(state), _) => &[i64::from(state.number())],
        (None, BulkAction::Kill) => &[0, 1, 2],
        (None, BulkAction::Clear) => &[3],
        (None, _) => &[0, 1, 2, 3],
    };
    let mut items = Vec::new();
    let mut known: BTreeMap<i64, bool> = BTreeMap::new();
    let mut rows = 0;
    for state in states {
        let wanted = BatchFilter {
            job: None,
            group: filter.group.clone(),
            state: Some(*state),
            result: filter.result.map(|result| result.as_str().to_owned()),
            blocked: false,
            from: filter.from.map(Timestamp::as_millisecond),
            to: filter.to.map(Timestamp::as_millisecond),
        };
        let mut request = PageRequest::first(PAGE);
        loop {
            let page = tables.batches(&wanted, &request)?;
            rows += page.items.len();
            for row in &page.items {
                let fits = match known.get(&row.job_id) {
                    Some(fits) => *fits,
                    None => {
                        let fits = !filter.is_of_jobs()
                            || tables.job(row.job_id)?.is_some_and(|job| filter.fits_job(&job));
                        known.insert(row.job_id, fits);
                        fits
                    }
                };
                items.extend(fits.then(|| of_batch(row)));
            }
            match page.next {
                Some(_) if items.len() > MAX_BULK_ITEMS => return Ok(Found::All(items)),
                Some(_) if rows >= MAX_ROWS => return Ok(Found::TooWide),
                Some(next) => request.after = Some(next),
                None => break,
            }
        }
    }
    Ok(Found::All(items))
}

fn of_batch(row: &BatchRow) -> BulkMatch {
    let states = [BatchState::Waiting, BatchState::Assigned, BatchState::Running, BatchState::Finished];
    let state = states.into_iter().find(|state| i64::from(state.number()) == row.state);
    let state = state.map_or("", BatchState::as_str);
    BulkMatch {
        id: row.id,
        job_name: format!("{}/{}", row.group_name, row.job_name),
        logical_time: Timestamp::from_millisecond(row.logical_time).ok(),
        now: row.result.as_deref().unwrap_or(state).to_owned(),
    }
}

impl BulkFilter {
    /// Whether it asks for what only the definition of a batch's job says.
    fn is_of_jobs(&self) -> bool {
        self.job.is_some() || self.owner.is_some() || self.job_type.is_some()
    }

    fn fits_job(&self, job: &JobRow) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        self.job.as_deref().is_none_or(|pattern| fits(pattern, &job.name))
            && same(&self.owner, &job.owner)
            && same(&self.job_type, &job.job_type)
    }
}

/// Whether a name fits a pattern: `*` stands for any letters, `?` for one.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                // The last star takes one letter more.
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|rest| *rest == '*')
}

/// Operations, the newest first: each may concern every group.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Json<List<BulkView>>, Problem> {
    params.only(&["limit", "cursor"])?;
    let request = params.page()?;
    let page = app.read(move |tables| tables.bulk_operations(&request)).await?;
    Ok(Json(List::of(page, BulkView::from)))
}

/// How far an operation is.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(text): Path<String>,
    params: Params,
) -> Result<Json<BulkView>, Problem> {
    params.only(&[])?;
    shown(&app, &caller, id("bulk", &text)?).await.map(Json)
}

/// What came of each batch or job of an operation.
pub(super) async fn items(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(text): Path<String>,
    params: Params,
) -> Result<Json<List<BulkItemView>>, Problem> {
    params.only(&["limit", "cursor", "outcome"])?;
    let outcome = params.word("outcome", OUTCOMES)?;
    let bulk = shown(&app, &caller, id("bulk", &text)?).await?.id;
    let request = params.page()?;
    let page = app.read(move |tables| tables.bulk_items(bulk, outcome.as_deref(), &request)).await?;
    Ok(Json(List::of(page, BulkItemView::from)))
}

async fn shown(app: &App, caller: &Caller, bulk: BulkId) -> Result<BulkView, Problem> {
    let row = app.read(move |tables| tables.bulk_operation(bulk.0)).await?;
    let row = row.ok_or_else(|| Problem::unknown("bulk operation", bulk))?;
    if *row.requested_by != *caller.name() {
        caller.reaches_all()?;
    }
    Ok(BulkView::from(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_letters_and_question_mark_for_one() {
        for (pattern, name, expected) in [
            ("load-*", "load-1", true),
            ("load-*", "load-", true),
            ("*", "", true),
            ("l?ad", "load", true),
            ("l?ad", "lad", false),
            ("*-daily", "a-daily-b-daily", true),
            ("*-daily", "a-daily-b", false),
            ("a*b*c", "aXbYbZc", true),
            ("load", "load-1", false),
            ("报*", "报表", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
