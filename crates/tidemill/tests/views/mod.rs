//! Three jobs, and what the views of the tables show of one batch of each (TBL-2). The SQL is that of both databases.

/// Those that are run by hand. The third comes with its parent, for which it waits.
pub(crate) const JOBS: [&str; 2] = ["done", "runs"];

/// As a file of jobs.
pub(crate) fn jobs(group: &str) -> String {
    format!(
        "jobs:
- {{name: done, group: {group}, type: shell, command: 'true'}}
- {{name: runs, group: {group}, type: shell, command: 'sleep 600'}}
- {{name: waits, group: {group}, type: noop, parents: [{group}/runs]}}
"
    )
}

/// A view, a query of it, and what that gives once all have come as far as they come.
pub(crate) const EXPECTED: [(&str, &str, &[&str]); 4] = [
    (
        "job_status_now",
        "SELECT CONCAT_WS(' ', name, state, result) FROM job_status_now ORDER BY name",
        &["done 3 success", "runs 2", "waits 0"],
    ),
    (
        "running_jobs",
        "SELECT CONCAT_WS(' ', job_name, attempt) FROM running_jobs WHERE worker_id <> '' AND started_at LIKE '20%'",
        &["runs 1"],
    ),
    (
        "waiting_batches",
        "SELECT CONCAT_WS(' ', job_name, waits_for) FROM waiting_batches",
        &["waits dependency"],
    ),
    (
        "batch_history",
        "SELECT CONCAT_WS(' ', job_name, result) FROM batch_history \
         WHERE waited_ms >= 0 AND ran_ms >= 0 AND finished_at LIKE '20%'",
        &["done success"],
    ),
];
