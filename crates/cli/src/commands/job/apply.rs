//! `tidemill job apply`: what goes to the server, and what has changed; `tidemill job validate`: what a server would check, as
//! far as that needs none.

use std::path::PathBuf;

use serde_json::{Value, json};
use tidemill_model::{FieldError, JobSpec, Rejection};

use crate::args::{ApplyArgs, OutputFormat};
use crate::commands::{Session, write};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::progress;
use crate::render;
use crate::server::Server;
use crate::session::Host;
use crate::yaml::JobFiles;

const TOLD: usize = 20;

/// Applies jobs; what cannot be accepted is told by file and job.
///
/// # Errors
/// As the server says.
pub fn apply_jobs(server: &Server, files: &JobFiles, prune: &[String], cancel: bool) -> Done<Value> {
    ask(server, files, json!({ "prune": prune, "cancel": cancel }), "")
}

pub(super) fn run(session: &Session<'_>, args: ApplyArgs) -> Done<Exit> {
    let ApplyArgs { file, prune, cancel, orphan_children, dry_run, allow_unknown_type, parameters } = args;
    let mut files = JobFiles::read(&file)?;
    files.set_parameters(&parameters);
    let terms = json!({
        "prune": prune,
        "cancel": cancel,
        "orphan_children": orphan_children,
        "allow_unknown_type": allow_unknown_type,
    });
    let bar = progress::call(session, format!("{} jobs of {} files", files.jobs.len(), files.count()));
    let answer = ask(&session.server, &files, terms, if dry_run { "?dry_run=true" } else { "" });
    bar.finish_and_clear();
    let answer = answer?;
    if dry_run {
        return Ok(session.show(&answer, |answer| changes(answer, "would change")));
    }
    Ok(write::show_warned(session, &answer, |answer| changes(answer, "changed")))
}

/// `terms` are the fields of the body beside the jobs.
fn ask(server: &Server, files: &JobFiles, terms: Value, query: &str) -> Done<Value> {
    let mut body = terms;
    body["jobs"] = json!(files.jobs);
    let path = format!("/api/jobs/apply{query}");
    server.post(&path, Some(&body)).map_err(|failure| files.explain(failure))
}

/// `+ added  ~ changed  - deleted`, for a change the fields with old and new value, and a sum.
pub(super) fn changes(answer: &Value, verb: &str) -> String {
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
                lines.extend(change["diff"].as_array().into_iter().flatten().map(render::difference));
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

/// Checks files as the catalogue would check an `apply`, as far as that needs no server.
pub(in crate::commands) fn validate(host: &dyn Host, format: OutputFormat, paths: &[PathBuf]) -> Done<Exit> {
    let files = JobFiles::read_all(paths)?;
    let warnings = checked(host, &files).map_err(|failure| files.explain(failure))?;
    let warnings: Vec<String> = warnings.iter().map(|warning| files.locate(warning)).collect();
    let (jobs, count) = (files.jobs.len(), files.count());
    match format.is_for_programs() {
        true => output::value(format, &json!({ "jobs": jobs, "files": count, "warnings": warnings })),
        false => {
            let warned = warnings.iter().map(|warning| format!("warning: {warning}\n"));
            output::line(format!("{}{jobs} jobs in {count} files are good.", warned.collect::<String>()));
        }
    }
    Ok(Exit::Success)
}

fn checked(host: &dyn Host, files: &JobFiles) -> Done<Vec<String>> {
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
    host.check_jobs(&jobs).map_err(|rejection| match rejection {
        Rejection::Invalid { fields } => refused(fields),
        other => Failure::bad_input(other.to_string()),
    })
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
}
