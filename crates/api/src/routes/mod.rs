//! The calls of the interface: `calls` has the table of them, with what each does in a sentence, each other file what answers
//! those of one resource.

mod apply;
mod apply_body;
mod attempts;
mod audit;
mod batch_commands;
mod batches;
mod bulk;
mod bulk_matches;
mod calls;
mod codes;
mod dead_letters;
mod defined;
mod directory;
mod edit;
mod events;
mod external_dependencies;
mod groups;
mod hosts;
mod jobs;
mod keys;
mod level;
mod log_tail;
mod logs;
mod me;
mod pools;
mod pull;
mod pull_tasks;
mod pull_users;
mod requests;
mod rerun_plans;
mod reruns;
mod run;
mod sign_in;
mod site;
mod staged;
mod versions;

pub(crate) use calls::{admin_calls, attempt_calls, calls, open_calls};
pub(crate) use edit::TAG_PATTERN;
pub(crate) use logs::{MAX_LINES, PART_LINES, asked_range, download_attempt};
pub(crate) use run::{JobPlace, job_place};
pub(crate) use sign_in::{no_token, open_calls as sign_in_calls};
pub(crate) use site::Document;
