//! `tidemill job submit`: a job that is in no file (API-1).

use std::collections::BTreeMap;
use std::io::{self, Read as _};

use serde_json::{Value, json};
use tidemill_client::Method;

use super::id_of;
use crate::args::JobSubmitArgs;
use crate::commands::Session;
use crate::exit::Exit;
use crate::failure::{Done, Failure};

/// Most bytes of a command that is read from standard input; the server takes fewer.
const MAX_COMMAND_BYTES: u64 = 1 << 20;

pub(super) fn run(session: &Session<'_>, args: JobSubmitArgs) -> Done<Exit> {
    let parents = args.parents.iter().map(|job| id_of(session, job)).collect::<Done<Vec<_>>>()?;
    let parameters: BTreeMap<_, _> = args.parameters.iter().map(|it| (&it.name, &it.value)).collect();
    let body = json!({
        "job_name": args.name,
        "user": args.user,
        "job_type": args.job_type,
        "command": if args.command == "-" { typed()? } else { args.command },
        "group_id": number_of(session, &args.group)?,
        "cron_expression": args.cron,
        "dependency_jobids": parents,
        "priority": args.priority,
        "parameters": parameters,
    });
    let request = args.idempotency_key.as_deref();
    let answer = session.server.write(Method::Post, "/api/job/submit", Some(&body), request)?;
    if answer["accept"] != true {
        return Err(refused(&answer));
    }
    let job = &answer["job_id"];
    Ok(session.show(&answer, |_| {
        format!(
            "Job {job} is submitted. Look at it with `tidemill job show {job}`, and at its batches with `tidemill batch ls \
             --job {job}`."
        )
    }))
}

fn typed() -> Done<String> {
    let mut text = String::new();
    let read = io::stdin().lock().take(MAX_COMMAND_BYTES).read_to_string(&mut text);
    read.map_err(|error| {
        Failure::caused("--command -: cannot read standard input", &error).with_exit(Exit::BadInput)
    })?;
    Ok(text)
}

/// The number of a group that is named by it, or by its name.
fn number_of(session: &Session<'_>, group: &str) -> Done<i64> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let groups = session.server.get("/api/groups", &[])?;
    let known = groups["items"].as_array().into_iter().flatten().find(|known| known["name"] == group);
    known.and_then(|known| known["id"].as_i64()).ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("--group: there is no group {group}"))
            .hint("`tidemill group ls` lists the groups")
    })
}

/// The call says in its answer that it refuses.
fn refused(answer: &Value) -> Failure {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let exit = match answer["code"].as_str() {
        Some("forbidden") => Exit::Refused,
        Some("not_found") => Exit::NotFound,
        _ if answer["errors"].as_array().is_some_and(|errors| !errors.is_empty()) => Exit::BadInput,
        _ => Exit::Refused,
    };
    let failure = Failure::new(exit, format!("the job is not accepted: {}", text(&answer["message"])));
    let errors = answer["errors"].as_array().into_iter().flatten();
    errors.fold(failure, |failure, error| {
        let value = error.get("value").map(|value| format!(" {value}")).unwrap_or_default();
        failure.detail(format!("{}:{value} {}", text(&error["field"]), text(&error["rule"])))
    })
}
