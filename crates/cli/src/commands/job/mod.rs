//! `tidemill job …`.

mod apply;
mod edit;
mod find;
mod submit;

pub use apply::apply_jobs;
pub(super) use apply::validate;
pub(super) use find::id_of;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidemill_client::Method;
use tidemill_model::JobSpec;

use super::{Session, batch, wait, write};
use crate::args::{JobCommand, JobLsArgs, JobRunArgs};
use crate::exit::Exit;
use crate::failure::Done;
use crate::output;
use crate::render;
use crate::server::Query;
use crate::yaml;
use find::found;

pub(super) fn run(session: &Session<'_>, command: JobCommand) -> Done<Exit> {
    match command {
        JobCommand::Validate { paths } => validate(session.host, session.format, &paths),
        JobCommand::Apply(args) => apply::run(session, args),
        JobCommand::Export { group } => export(session, group),
        JobCommand::Ls(args) => list(session, args),
        JobCommand::Show { job, at_version: None } => Ok(session.show(&found(session, &job)?, one)),
        JobCommand::Show { job, at_version: Some(version) } => show_version(session, &job, version),
        JobCommand::Versions { job, limit } => {
            let answer = below(session, &job, "versions", limit)?;
            session.show_list(&answer, VERSIONS, "No version is on record.")
        }
        JobCommand::Diff { job, from, to } => diff(session, &job, from, to),
        JobCommand::Children { job, limit } => {
            let answer = below(session, &job, "children", limit)?;
            session.show_list(&answer, CHILDREN, "No job names it as a parent.")
        }
        JobCommand::Edit { job } => edit::run(session, &job),
        JobCommand::Run(args) => run_once(session, &args),
        JobCommand::Submit(args) => submit::run(session, args),
        JobCommand::Enable { job } => act(session, &job, "enable", None, "enabled"),
        JobCommand::Disable { job } => act(session, &job, "disable", None, "disabled"),
        JobCommand::Rename { job, name } => {
            act(session, &job, "rename", Some(&json!({ "name": name })), &format!("renamed to {name}"))
        }
        JobCommand::Move { job, group } => {
            act(session, &job, "move", Some(&json!({ "group": group })), &format!("moved to group {group}"))
        }
        JobCommand::Preview { job, n, after, at } => {
            let query = match at {
                Some(at) => vec![("at", at.to_string())],
                None => {
                    let after = after.map(|after| ("after", after.to_string()));
                    [("n", n.to_string())].into_iter().chain(after).collect()
                }
            };
            preview(session, &job, &query)
        }
        JobCommand::Skipped { job } => {
            let path = format!("/api/jobs/{}/skipped-runs", id_of(session, &job)?);
            let answer = session.server.get(&path, &[])?;
            session.show_list(&answer, SKIPPED, "No fire was skipped.")
        }
        JobCommand::Delete { job, cancel, orphan_children } => {
            let path = format!(
                "/api/jobs/{}?cancel={cancel}&orphan_children={orphan_children}",
                id_of(session, &job)?
            );
            write::delete(session, &path, format!("Job {job} deleted."))
        }
    }
}

fn list(session: &Session<'_>, args: JobLsArgs) -> Done<Exit> {
    let JobLsArgs { group, name, job_type, enabled, submitted, limit } = args;
    let mut query = Query::new();
    query.extend(name.map(|name| ("name", name)));
    query.extend(job_type.map(|job_type| ("type", job_type)));
    query.extend(enabled.map(|enabled| ("enabled", enabled.to_string())));
    query.extend(submitted.map(|submitted| ("submitted", submitted.to_string())));
    let is_all = query.is_empty() && group.is_none();
    let answer = session.list_of_group("/api/jobs", group.as_deref(), query, limit)?;
    let nothing = match is_all {
        true => "No jobs. Add some with `tidemill job apply -f FILE`.",
        false => "No such jobs.",
    };
    session.show_list(&answer, JOBS, nothing)
}

/// What there is several of below a job.
fn below(session: &Session<'_>, job: &str, what: &str, limit: usize) -> Done<Value> {
    let path = format!("/api/jobs/{}/{what}", id_of(session, job)?);
    session.server.list(&path, &Query::new(), limit)
}

fn show_version(session: &Session<'_>, job: &str, version: u32) -> Done<Exit> {
    let path = format!("/api/jobs/{}/versions/{version}", id_of(session, job)?);
    let answer = session.server.get(&path, &[])?;
    Ok(session.show(&answer, |answer| {
        let definition = render::fields(&answer["definition"], &[]);
        format!("{}\ndefinition\n{definition}", render::fields(answer, &["definition"]))
    }))
}

fn diff(session: &Session<'_>, job: &str, from: u32, to: u32) -> Done<Exit> {
    let path = format!("/api/jobs/{}/versions/{from}/diff/{to}", id_of(session, job)?);
    let answer = session.server.get(&path, &[])?;
    Ok(session.show(&answer, |answer| {
        render::items(&answer["fields"], DIFF, &format!("Versions {from} and {to} do not differ."))
    }))
}

fn run_once(session: &Session<'_>, args: &JobRunArgs) -> Done<Exit> {
    let parameters: BTreeMap<_, _> = args.parameters.iter().map(|it| (&it.name, &it.value)).collect();
    let mut body = json!({ "parameters": parameters, "concurrent": args.concurrent });
    if let Some(time) = args.logical_time {
        body["logical_time"] = json!(time);
    }
    let path = format!("/api/jobs/{}/run", id_of(session, &args.job)?);
    let answer = session.server.write(Method::Post, &path, Some(&body), args.idempotency_key.as_deref())?;
    wait::show_batch(session, &answer, args.wait)
}

const JOBS: &str =
    "id, group, name, type, SCHEDULE: cron | period, zone, enabled, version, PARENTS: parent_count, owner";

const VERSIONS: &str = "version, DEFINED: defined_at, BY: defined_by";

const DIFF: &str = "field, old, new";

const CHILDREN: &str = "ID: job, JOB: name, enabled, mapping";

const SKIPPED: &str = "from, to, count, reason, RECORDED: skipped_at";

/// Fields of the job, then its parents and its newest batch.
fn one(job: &Value) -> String {
    let fields = render::fields(job, &["parents", "newest_batch"]);
    let newest: Value =
        Some(&job["newest_batch"]).filter(|newest| newest.is_object()).into_iter().cloned().collect();
    let parents = render::section("parents", &job["parents"], PARENTS);
    fields + &parents + &render::section("newest batch", &newest, batch::BATCHES)
}

const PARENTS: &str = "ID: job, PARENT: name, mapping";

fn export(session: &Session<'_>, group: Option<String>) -> Done<Exit> {
    let query: Query<'_> = group.iter().map(|group| ("group", group.clone())).collect();
    let answer = session.server.get("/api/jobs/export", &query)?;
    let jobs = json!({ "jobs": answer["jobs"] });
    if let Some(group) = group.filter(|_| jobs["jobs"].as_array().is_some_and(Vec::is_empty)) {
        session.check_group(&group)?;
    }
    match session.format.is_for_programs() {
        true => output::value(session.format, &jobs),
        false => output::line(yaml::write::<JobSpec>("jobs", jobs["jobs"].clone())?),
    }
    Ok(Exit::Success)
}

fn act(session: &Session<'_>, job: &str, verb: &str, body: Option<&Value>, done: &str) -> Done<Exit> {
    let path = format!("/api/jobs/{}/{verb}", id_of(session, job)?);
    write::post(session, &path, body, format!("Job {job} {done}."))
}

fn preview(session: &Session<'_>, job: &str, query: &Query<'_>) -> Done<Exit> {
    let path = format!("/api/jobs/{}/preview", id_of(session, job)?);
    let answer = session.server.get(&path, query)?;
    Ok(session.show(&answer, preview_told))
}

/// One logical time with all that is resolved for it, several as a table.
fn preview_told(answer: &Value) -> String {
    let fires = answer["fires"].as_array().map_or(&[][..], Vec::as_slice);
    if fires.is_empty() {
        return "No time is left on its schedule.".to_owned();
    }
    let mut head = format!("Zone {}", render::one_line(&answer["zone"]));
    for (field, what) in [("calendar", "calendar"), ("follows", "logical times of")] {
        if let Some(name) = answer[field].as_str() {
            head.push_str(&format!(", {what} {}", render::one_line(&json!(name))));
        }
    }
    if let [only] = fires {
        let mut text = format!("{head}\n{}", render::fields(only, &["program", "environment"]));
        text.push_str("environment\n");
        for (name, value) in only["environment"].as_object().into_iter().flatten() {
            text.push_str(&format!("    {name}={}\n", render::one_line(value)));
        }
        let program = &only["program"];
        let arguments = ["script", "path"].map(|kind| &program[kind]["arguments"]);
        if let Some(arguments) = arguments.into_iter().find_map(Value::as_array) {
            text.push_str("arguments\n");
            for argument in arguments {
                text.push_str(&format!("    {}\n", render::one_line(argument)));
            }
        }
        if let Some(path) = program["path"]["path"].as_str() {
            text.push_str(&format!("program  {}\n", render::one_line(&json!(path))));
        }
        return text;
    }
    let rows = fires.iter().map(|fire| {
        ["at", "logical_time", "command", "parameters"].map(|field| render::one_line(&fire[field])).to_vec()
    });
    format!("{head}\n{}", render::table(&["AT", "LOGICAL TIME", "COMMAND", "PARAMETERS"], rows))
}
