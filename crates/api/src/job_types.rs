//! JOB-2: whether anything can run a job's type: a guard against typing errors.
//!
//! A job whose type nobody runs is sound, and waits: workers of a new type may come after its jobs. So the catalogue
//! takes every type, and this is no rule of its decisions: it is asked before they are asked for, and its answer is what
//! the configuration of this interface and the read tables say, which may be behind by [`crate::freshness`]. Who writes
//! commands to the log without this interface is not asked.

use std::collections::BTreeSet;

use tidemill_model::{FieldError, JobType};
use tidemill_store::rows::WorkerRow;
use tidemill_store::{ReadTables, Tables, WorkerFilter};

use crate::Problem;
use crate::app::App;
use crate::problem::TABLES_UNAVAILABLE;
use crate::view::for_each_row;

/// Errors, and warnings, that are told at once.
const TOLD: usize = 20;

pub(crate) struct Named<'a> {
    /// Where it stands, as `jobs[3].type`.
    pub(crate) field: String,
    /// In a job of this group.
    pub(crate) group: &'a str,
    pub(crate) job_type: &'a JobType,
}

/// Types by what workers have registered.
#[derive(Default)]
struct Registered {
    /// Of any worker of any group that is on record.
    ever: BTreeSet<String>,
    /// Of live workers, by group.
    live: BTreeSet<(String, String)>,
}

/// Refuses types that neither the configuration nor any worker knows, unless they are allowed; gives warnings for those
/// that no live worker of the job's group has.
pub(crate) async fn check(
    app: &App,
    named: &[Named<'_>],
    allow_unknown: bool,
) -> Result<Vec<String>, Problem> {
    // The engine itself completes anchors.
    let named: Vec<&Named<'_>> = named.iter().filter(|named| !named.job_type.is_anchor()).collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let registered = app.read(registered).await?;
    if !allow_unknown {
        let is_unknown = |named: &&&Named<'_>| {
            !is_configured(app, named.job_type) && !registered.ever.contains(named.job_type.as_str())
        };
        let unknown = named.iter().filter(is_unknown).take(TOLD);
        let errors: Vec<FieldError> = unknown
            .map(|named| FieldError::new(&named.field, named.job_type, rule(app, &registered)))
            .collect();
        if !errors.is_empty() {
            return Err(Problem::fields(errors));
        }
    }
    let wanted: BTreeSet<(String, String)> =
        named.iter().map(|named| (named.group.to_owned(), named.job_type.to_string())).collect();
    let mut missing = wanted.difference(&registered.live);
    let told = missing.by_ref().take(TOLD).map(|(group, job_type)| {
        format!(
            "no live worker of group {group} takes jobs of type {job_type}: their batches wait until one does"
        )
    });
    let mut warnings: Vec<String> = told.collect();
    match missing.count() {
        0 => {}
        more => warnings.push(format!("so it is with {more} more types of groups")),
    }
    Ok(warnings)
}

/// The same for one ad-hoc job; the tables are looked at only for a type that is not configured.
pub(crate) async fn check_one(app: &App, field: &str, job_type: &JobType) -> Result<(), Problem> {
    if is_configured(app, job_type) {
        return Ok(());
    }
    let registered = match app.read(registered).await {
        Ok(registered) => registered,
        // Nothing but a guard against typing errors is missing, and work goes on without the tables (OPS-4).
        Err(problem) if problem.code == TABLES_UNAVAILABLE => {
            tracing::warn!(%job_type, "whether any worker knows the type {job_type} cannot be looked up, so it is taken");
            return Ok(());
        }
        Err(problem) => return Err(problem),
    };
    match registered.ever.contains(job_type.as_str()) {
        true => Ok(()),
        false => Err(Problem::field(field, job_type, rule(app, &registered))),
    }
}

fn is_configured(app: &App, job_type: &JobType) -> bool {
    JobType::BUILT_IN.contains(&job_type.as_str()) || app.config.job_types.contains(job_type)
}

fn rule(app: &App, registered: &Registered) -> String {
    let configured = app.config.job_types.iter().map(JobType::as_str);
    let known: BTreeSet<&str> = JobType::BUILT_IN
        .iter()
        .copied()
        .chain(configured)
        .chain(registered.ever.iter().map(String::as_str))
        .collect();
    let known = known.into_iter().collect::<Vec<_>>().join(", ");
    format!(
        "is a type that neither the configuration nor any worker knows; known are {known}. Correct it, add it to \
         executor.types or api.job_types, or allow it with allow_unknown_type (--allow-unknown-type)"
    )
}

fn registered(tables: &dyn Tables) -> Result<Registered, tidemill_store::Error> {
    let mut registered = Registered::default();
    let note = |row: WorkerRow| {
        let slots: serde_json::Value = serde_json::from_str(&row.slots).unwrap_or_default();
        for name in slots.as_object().into_iter().flatten().map(|(name, _)| name) {
            registered.ever.insert(name.clone());
            if &*row.state == "live" {
                registered.live.insert((row.group_name.to_string(), name.clone()));
            }
        }
    };
    for_each_row(|request| tables.workers(&WorkerFilter::default(), request), note)?;
    Ok(registered)
}
