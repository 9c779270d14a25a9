//! The calls of the interface: `calls` has the table of them, each other file what answers those of one resource.

mod admin;
mod apply;
mod apply_body;
mod attempts;
mod batches;
mod bulk;
mod bulk_matches;
mod calendars;
mod calls;
mod codes;
mod dead_letters;
mod defined;
mod events;
mod external_dependencies;
mod freezes;
mod groups;
mod jobs;
mod keys;
mod logs;
mod open;
mod pools;
mod pull;
mod pull_tasks;
mod pull_templates;
mod pull_users;
mod rerun_plans;
mod reruns;
mod run;
mod staged;
mod status;
mod versions;
mod workers;

pub(crate) use calls::{admin_calls, attempt_calls, calls, open_calls};
pub(crate) use logs::{LINES, download_attempt, newest_attempt, read_part};
pub(crate) use open::Document;
pub(crate) use run::{JobPlace, job_place};
