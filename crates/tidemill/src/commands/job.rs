//! `tidemill job …`.

use std::path::PathBuf;

use serde_json::{Value, json};
use tidemill_model::{FieldError, JobSpec, Rejection};

use super::{Session, wait, write};
use crate::cli::{JobCommand, OutputFormat, Parameter};
use crate::client::{Client, Method, Query, segment};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::render::{self, Column};
use crate::yaml::{self, JobFiles};

pub(super) fn run(session: &Session, command: JobCommand) -> Done<Exit> {
    match command {
        JobCommand::Validate { paths } => validate(session.format, &paths),
        JobCommand::Apply {
            file,
            prune,
            cancel,
            orphan_children,
            dry_run,
            allow_unknown_type,
            parameters,
        } => {
            let mut files = JobFiles::read(&file)?;
            files.set_parameters(&parameters);
            let terms = json!({
                "prune": prune,
                "cancel": cancel,
                "orphan_children": orphan_children,
                "allow_unknown_type": allow_unknown_type,
            });
            if dry_run {
                let answer = ask_to_apply(&session.client, &files, terms, "?dry_run=true")?;
                return Ok(session.show(&answer, |answer| changes(answer, "would change")));
            }
            let answer = ask_to_apply(&session.client, &files, terms, "")?;
            Ok(write::show_warned(session, &answer, |answer| changes(answer, "changed")))
        }
        JobCommand::Export { group } => export(session, group),
        JobCommand::Ls { group, name, job_type, enabled, limit } => {
            let mut query = Query::new();
            query.extend(name.map(|name| ("name", name)));
            query.extend(job_type.map(|job_type| ("type", job_type)));
            query.extend(enabled.map(|enabled| ("enabled", enabled.to_string())));
            let is_all = query.is_empty() && group.is_none();
            let answer = session.list_of_group("/api/jobs", group.as_deref(), query, limit)?;
            let nothing = match is_all {
                true => "No jobs. Add some with `tidemill job apply -f FILE`.",
                false => "No such jobs.",
            };
            Ok(session.show(&answer, |answer| render::list(answer, JOBS, nothing)))
        }
        JobCommand::Show { job, at_version: None } => Ok(session.show(&found(session, &job)?, one)),
        JobCommand::Show { job, at_version: Some(version) } => {
            let path = format!("/api/jobs/{}/versions/{version}", id_of(session, &job)?);
            let answer = session.client.get(&path, &[])?;
            Ok(session.show(&answer, |answer| {
                let definition = render::fields(&answer["definition"], &[]);
                format!("{}\ndefinition\n{definition}", render::fields(answer, &["definition"]))
            }))
        }
        JobCommand::Versions { job, limit } => {
            let path = format!("/api/jobs/{}/versions", id_of(session, &job)?);
            let answer = session.client.list(&path, &Query::new(), limit)?;
            Ok(session.show(&answer, |answer| render::list(answer, VERSIONS, "No version is on record.")))
        }
        JobCommand::Diff { job, from, to } => {
            let path = format!("/api/jobs/{}/versions/{from}/diff/{to}", id_of(session, &job)?);
            let answer = session.client.get(&path, &[])?;
            Ok(session.show(&answer, |answer| {
                let fields = json!({ "items": answer["fields"] });
                render::list(&fields, DIFF, &format!("Versions {from} and {to} do not differ."))
            }))
        }
        JobCommand::Children { job, limit } => {
            let path = format!("/api/jobs/{}/children", id_of(session, &job)?);
            let answer = session.client.list(&path, &Query::new(), limit)?;
            Ok(session.show(&answer, |answer| render::list(answer, CHILDREN, "No job names it as a parent.")))
        }
        JobCommand::Run { job, logical_time, parameters, concurrent, wait, idempotency_key } => {
            let mut body = json!({ "parameters": object(&parameters), "concurrent": concurrent });
            if let Some(time) = logical_time {
                body["logical_time"] = json!(time);
            }
            let path = format!("/api/jobs/{}/run", id_of(session, &job)?);
            let answer =
                session.client.write(Method::Post, &path, Some(&body), idempotency_key.as_deref())?;
            wait::show_batch(session, &answer, wait)
        }
        JobCommand::Enable { job } => act(session, &job, "enable", "enabled"),
        JobCommand::Disable { job } => act(session, &job, "disable", "disabled"),
        JobCommand::Rename { job, name } => {
            let path = format!("/api/jobs/{}/rename", id_of(session, &job)?);
            let answer = session.client.post(&path, Some(&json!({ "name": name })))?;
            Ok(write::show(session, &answer, |_| format!("Job {job} renamed to {name}.")))
        }
        JobCommand::Move { job, group } => {
            let path = format!("/api/jobs/{}/move", id_of(session, &job)?);
            let answer = session.client.post(&path, Some(&json!({ "group": group })))?;
            Ok(write::show(session, &answer, |_| format!("Job {job} moved to group {group}.")))
        }
        JobCommand::Preview { job, n, after, at } => {
            let query = match at {
                Some(at) => vec![("at", at.to_string())],
                None => {
                    let after = after.map(|after| ("after", after.to_string()));
                    [("n", n.to_string())].into_iter().chain(after).collect()
                }
            };
            let path = format!("/api/jobs/{}/preview", id_of(session, &job)?);
            let answer = session.client.get(&path, &query)?;
            Ok(session.show(&answer, preview))
        }
        JobCommand::Skipped { job } => {
            let path = format!("/api/jobs/{}/skipped-runs", id_of(session, &job)?);
            let answer = session.client.get(&path, &[])?;
            Ok(session.show(&answer, |answer| render::list(answer, SKIPPED, "No fire was skipped.")))
        }
        JobCommand::Delete { job, cancel, orphan_children } => {
            let path = format!(
                "/api/jobs/{}?cancel={cancel}&orphan_children={orphan_children}",
                id_of(session, &job)?
            );
            let answer = session.client.write(Method::Delete, &path, None, None)?;
            Ok(write::show(session, &answer, |_| format!("Job {job} deleted.")))
        }
    }
}

const JOBS: &[Column] = &[
    Column("ID", &["/id"]),
    Column("GROUP", &["/group"]),
    Column("NAME", &["/name"]),
    Column("TYPE", &["/type"]),
    Column("SCHEDULE", &["/cron", "/period"]),
    Column("ZONE", &["/zone"]),
    Column("ENABLED", &["/enabled"]),
    Column("VERSION", &["/version"]),
    Column("PARENTS", &["/parent_count"]),
    Column("OWNER", &["/owner"]),
];

const VERSIONS: &[Column] =
    &[Column("VERSION", &["/version"]), Column("DEFINED", &["/defined_at"]), Column("BY", &["/defined_by"])];

const DIFF: &[Column] = &[Column("FIELD", &["/field"]), Column("OLD", &["/old"]), Column("NEW", &["/new"])];

const CHILDREN: &[Column] = &[
    Column("ID", &["/job"]),
    Column("JOB", &["/name"]),
    Column("ENABLED", &["/enabled"]),
    Column("MAPPING", &["/mapping"]),
];

const SKIPPED: &[Column] = &[
    Column("FROM", &["/from"]),
    Column("TO", &["/to"]),
    Column("COUNT", &["/count"]),
    Column("REASON", &["/reason"]),
    Column("RECORDED", &["/skipped_at"]),
];

/// Fields of the job, then its parents and its newest batch.
fn one(job: &Value) -> String {
    let mut text = render::fields(job, &["parents", "newest_batch"]);
    let items = |value: &Value| json!({ "items": value });
    if job["parent_count"].as_i64().unwrap_or(0) > 0 {
        text.push_str(&format!("\nparents\n{}\n", render::list(&items(&job["parents"]), PARENTS, "")));
    }
    if job["newest_batch"].is_object() {
        let newest = items(&json!([job["newest_batch"]]));
        text.push_str(&format!("\nnewest batch\n{}\n", render::list(&newest, super::batch::BATCHES, "")));
    }
    text
}

const PARENTS: &[Column] =
    &[Column("ID", &["/job"]), Column("PARENT", &["/name"]), Column("MAPPING", &["/mapping"])];

/// Applies jobs; errors name file and job.
pub(crate) fn apply(client: &Client, files: &JobFiles, prune: &[String], cancel: bool) -> Done<Value> {
    ask_to_apply(client, files, json!({ "prune": prune, "cancel": cancel }), "")
}

/// `terms` are the fields of the body beside the jobs.
fn ask_to_apply(client: &Client, files: &JobFiles, terms: Value, query: &str) -> Done<Value> {
    let mut body = terms;
    body["jobs"] = json!(files.jobs);
    let path = format!("/api/jobs/apply{query}");
    client.post(&path, Some(&body)).map_err(|failure| files.explain(failure))
}

/// `+ added  ~ changed  - deleted`, for a change the fields with old and new value, and a sum.
fn changes(answer: &Value, verb: &str) -> String {
    let mut lines = Vec::new();
    let mut unchanged = 0;
    let changes = answer["changes"].as_array().map_or(&[][..], Vec::as_slice);
    for change in changes {
        let name = render::one_line(&change["name"]);
        let (version, fields) = (render::one_line(&change["version"]), render::one_line(&change["fields"]));
        match change["change"].as_str() {
            Some("added") => lines.push(format!("+ {name}")),
            Some("changed") => {
                lines.push(format!("~ {name}  version {version}: {fields}"));
                lines.extend(change["diff"].as_array().into_iter().flatten().map(field));
            }
            Some("deleted") => lines.push(format!("- {name}")),
            _ => unchanged += 1,
        }
    }
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        lines.push(format!("warning: {}", render::one_line(warning)));
    }
    let changed = changes.len() - unchanged;
    lines.push(match changed {
        0 => format!("Nothing to change, {unchanged} as before."),
        changed => format!("{changed} {verb}, {unchanged} as before."),
    });
    lines.join("\n")
}

fn field(diff: &Value) -> String {
    let value = |side: &str| match diff[side].as_str() {
        None | Some("") => "(none)".to_owned(),
        Some(_) => render::one_line(&diff[side]),
    };
    format!("    {}: {} → {}", render::one_line(&diff["field"]), value("old"), value("new"))
}

/// Errors that are told at once.
const TOLD: usize = 20;

/// Checks files as the catalogue would check an `apply`, as far as that needs no server.
pub(super) fn validate(format: OutputFormat, paths: &[PathBuf]) -> Done<Exit> {
    let files = JobFiles::read_all(paths)?;
    let warnings = checked(&files).map_err(|failure| files.explain(failure))?;
    let warnings: Vec<String> = warnings.iter().map(|warning| files.locate(warning)).collect();
    let (jobs, count) = (files.jobs.len(), files.count());
    match format {
        OutputFormat::Json => output::json(&json!({ "jobs": jobs, "files": count, "warnings": warnings })),
        OutputFormat::Table => {
            let warned = warnings.iter().map(|warning| format!("warning: {warning}\n"));
            output::line(format!("{}{jobs} jobs in {count} files are good.", warned.collect::<String>()));
        }
    }
    Ok(Exit::Success)
}

fn checked(files: &JobFiles) -> Done<Vec<String>> {
    let refused = |errors: Vec<FieldError>| {
        let failure = Failure::bad_input("these jobs cannot be accepted");
        errors.iter().take(TOLD).fold(failure, |failure, error| failure.detail(error.to_string()))
    };
    let mut jobs = Vec::with_capacity(files.jobs.len());
    let mut errors = Vec::new();
    for (index, value) in files.jobs.iter().enumerate() {
        match JobSpec::from_value(value.clone()) {
            Ok(job) => jobs.push(job),
            Err(error) => errors.push(error.within(&format!("jobs[{index}]"))),
        }
    }
    if !errors.is_empty() {
        return Err(refused(errors));
    }
    tidemill_engine::check_jobs(&jobs, tidemill_journal::now()).map_err(|rejection| match rejection {
        Rejection::Invalid { fields } => refused(fields),
        other => Failure::bad_input(other.to_string()),
    })
}

fn export(session: &Session, group: Option<String>) -> Done<Exit> {
    let query: Query<'_> = group.iter().map(|group| ("group", group.clone())).collect();
    let answer = session.client.get("/api/jobs/export", &query)?;
    let jobs = json!({ "jobs": answer["jobs"] });
    if let Some(group) = group.filter(|_| jobs["jobs"].as_array().is_some_and(Vec::is_empty)) {
        session.check_group(&group)?;
    }
    match session.format {
        crate::cli::OutputFormat::Json => output::json(&jobs),
        crate::cli::OutputFormat::Table => output::line(yaml::write(jobs)?),
    }
    Ok(Exit::Success)
}

fn act(session: &Session, job: &str, verb: &str, done: &str) -> Done<Exit> {
    let path = format!("/api/jobs/{}/{verb}", id_of(session, job)?);
    let answer = session.client.post(&path, None)?;
    Ok(write::show(session, &answer, |_| format!("Job {job} {done}.")))
}

/// One logical time with all that is resolved for it, several as a table.
fn preview(answer: &Value) -> String {
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

fn object(parameters: &[Parameter]) -> Value {
    let fields: serde_json::Map<_, _> =
        parameters.iter().map(|parameter| (parameter.name.clone(), json!(parameter.value))).collect();
    fields.into()
}

fn path_of(job: &str) -> String {
    match job.split_once('/') {
        Some((group, name)) => format!("/api/groups/{}/jobs/{}", segment(group), segment(name)),
        None => format!("/api/jobs/{}", segment(job)),
    }
}

/// The id of a job named by id or `group/name`.
pub(super) fn id_of(session: &Session, job: &str) -> Done<i64> {
    if let Ok(id) = job.parse() {
        return Ok(id);
    }
    found(session, job)?["id"]
        .as_i64()
        .ok_or_else(|| Failure::new(Exit::Failure, format!("the server's answer about job {job} has no id")))
}

/// The job named by id or `group/name`; where there is none, the name that comes closest is told.
fn found(session: &Session, job: &str) -> Done<Value> {
    if !job.contains('/') && job.parse::<i64>().is_err() {
        return Err(Failure::bad_input(format!("job {job:?}: must be an id or group/name"))
            .hint(close_to(session, job).unwrap_or_else(|| "`tidemill job ls` lists both".to_owned())));
    }
    session.client.get(&path_of(job), &[]).map_err(|failure| match failure.exit {
        Exit::NotFound => match close_to(session, job) {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
        _ => failure,
    })
}

/// Jobs looked at for a name that comes close.
const NAMES: usize = 10_000;

fn close_to(session: &Session, job: &str) -> Option<String> {
    let answer = session.client.list("/api/jobs", &Query::new(), NAMES).ok()?;
    let names = answer["items"]
        .as_array()?
        .iter()
        .filter_map(|row| Some(format!("{}/{}", row["group"].as_str()?, row["name"].as_str()?)));
    closest(job, names).map(|name| format!("did you mean {name}? `tidemill job ls` lists all"))
}

/// The name that takes the fewest changes, if they are few. Without a group, any group's will do.
fn closest(wanted: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let distance = |name: &str| match wanted.contains('/') {
        true => changes_between(wanted, name),
        false => changes_between(wanted, name.split_once('/').map_or(name, |(_, name)| name)),
    };
    let most = wanted.chars().count() / 3 + 1;
    names
        .map(|name| (distance(&name), name))
        .filter(|(changes, _)| *changes <= most)
        .min()
        .map(|(_, name)| name)
}

/// Letters to add, take away or replace to make one text of the other.
fn changes_between(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apply_shows_what_changed() {
        let answer = json!({
            "changes": [
                {"job": 1, "name": "g/a", "change": "added", "version": 1},
                {"job": 2, "name": "g/b", "change": "changed", "version": 3, "fields": ["command", "priority"],
                    "diff": [{"field": "command", "old": "", "new": "exit\n0"}, {"field": "priority", "old": "5", "new": "3"}]},
                {"job": 3, "name": "g/c", "change": "unchanged", "version": 1},
                {"job": 4, "name": "g/d", "change": "deleted", "version": 2},
            ],
            "warnings": ["g/a: the offset is left out"],
        });
        expect_test::expect![[r#"
            + g/a
            ~ g/b  version 3: command, priority
                command: (none) → exit\n0
                priority: 5 → 3
            - g/d
            warning: g/a: the offset is left out
            3 changed, 1 as before."#]]
        .assert_eq(&changes(&answer, "changed"));
        let nothing =
            json!({"changes": [{"name": "g/c", "change": "unchanged", "version": 1}], "warnings": []});
        assert_eq!(changes(&nothing, "changed"), "Nothing to change, 1 as before.");
    }

    #[test]
    fn jobs_are_found_by_id_or_by_group_and_name() {
        assert_eq!(path_of("4097"), "/api/jobs/4097");
        assert_eq!(path_of("demo/load-1"), "/api/groups/demo/jobs/load-1");
        assert_eq!(path_of("demo/报"), "/api/groups/demo/jobs/%E6%8A%A5");
    }

    #[test]
    fn name_that_comes_close_is_found() {
        let names = || ["demo/load-1", "demo/message-words", "etl/load-1"].map(str::to_owned).into_iter();
        assert_eq!(closest("demo/mesage-word", names()).as_deref(), Some("demo/message-words"));
        assert_eq!(closest("load1", names()).as_deref(), Some("demo/load-1"));
        assert_eq!(closest("demo/nothing-like-it", names()), None);
        assert_eq!((changes_between("", "abc"), changes_between("abc", "axc")), (3, 1));
    }
}
