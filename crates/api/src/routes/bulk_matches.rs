//! Which batches or jobs one action is for: all that fit a filter, as the tables have them (BYD-3).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{BatchResult, BatchState, BulkAction, MAX_BULK_ITEMS, Permission, Timestamp};
use tidemill_store::rows::{BatchRow, JobRow};
use tidemill_store::{BatchFilter, JobFilter, PageRequest, Reach, ReadTables, Tables};

use crate::Problem;
use crate::app::App;
use crate::rights::{Caller, Right};
use crate::view::{batch_state, full_name};

/// Rows that are looked at for one filter.
const MAX_ROWS: usize = 200_000;
const PAGE: usize = 1_000;
/// Which batches or jobs; what is absent lets all pass. At least one field has to be given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BulkFilter {
    /// Of this group.
    pub(super) group: Option<String>,
    /// Of jobs whose name fits; `*` stands for any letters, `?` for one.
    pub(super) job: Option<String>,
    /// Of jobs of this type.
    #[serde(rename = "type")]
    pub(super) job_type: Option<String>,
    /// Of jobs of this owner.
    pub(super) owner: Option<String>,
    /// Batches in this state.
    pub(super) state: Option<BatchState>,
    /// Batches that ended with this result.
    pub(super) result: Option<BatchResult>,
    /// Batches of logical times from this one on.
    pub(super) from: Option<Timestamp>,
    /// Batches of logical times before this one.
    pub(super) to: Option<Timestamp>,
}

/// A batch or job that fits.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BulkMatch {
    /// The batch; of `enable` and `disable` the job.
    pub(super) id: i64,
    /// The job, `group/name`.
    job_name: String,
    /// The batch's logical time.
    #[serde(skip_serializing_if = "Option::is_none")]
    logical_time: Option<Timestamp>,
    /// The batch's state and, once it has finished, result; of a job `enabled` or `disabled`.
    now: String,
}

/// All that fit and that the caller may act on; where more fit than the limit, it is refused.
pub(super) async fn matches(
    app: &App,
    caller: &Caller,
    action: BulkAction,
    (filter, limit): (&BulkFilter, usize),
) -> Result<(Right, Vec<BulkMatch>), Problem> {
    let filter = filter.clone();
    let needed = if action.is_of_jobs() { Permission::Edit } else { Permission::Operate };
    let (right, reach) = (caller.to_act(needed)?, caller.reach_for(needed));
    let most = limit.min(action.most());
    let found = app
        .read(move |tables| match action.is_of_jobs() {
            true => jobs(tables, (&filter, reach), action),
            false => batches(tables, (&filter, reach), action),
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
    (filter, reach): (&BulkFilter, Option<Reach>),
    action: BulkAction,
) -> Result<Found, tidemill_store::Error> {
    let wanted = JobFilter {
        group: filter.group.clone(),
        name: None,
        job_type: filter.job_type.clone(),
        enabled: Some(action == BulkAction::Disable),
        submitted: Some(false),
        reach,
    };
    let mut items = Vec::new();
    let mut request = PageRequest::first(PAGE);
    for _ in 0..MAX_ROWS / PAGE {
        let page = tables.jobs(&wanted, &request)?;
        let fitting = page.items.iter().filter(|job| filter.fits_job(job));
        items.extend(fitting.map(|job| BulkMatch {
            id: job.id,
            job_name: full_name(job),
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
    (filter, reach): (&BulkFilter, Option<Reach>),
    action: BulkAction,
) -> Result<Found, tidemill_store::Error> {
    // What has finished cannot be ended, and what has not cannot be run once more.
    let states = BatchState::ALL.into_iter().filter(|state| match (filter.state, action) {
        (Some(wanted), _) => *state == wanted,
        (None, BulkAction::Kill) => *state != BatchState::Finished,
        (None, BulkAction::Clear) => *state == BatchState::Finished,
        (None, _) => true,
    });
    let mut items = Vec::new();
    let mut known: BTreeMap<i64, bool> = BTreeMap::new();
    let mut rows = 0;
    for state in states {
        let wanted = BatchFilter {
            job: None,
            group: filter.group.clone(),
            state: Some(i64::from(state.number())),
            result: filter.result.map(|result| result.as_str().to_owned()),
            blocked: false,
            triggered_by: None,
            reach: reach.clone(),
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
    BulkMatch {
        id: row.id,
        job_name: format!("{}/{}", row.group_name, row.job_name),
        logical_time: Timestamp::from_millisecond(row.logical_time).ok(),
        now: row.result.as_deref().unwrap_or(batch_state(row).as_str()).to_owned(),
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
