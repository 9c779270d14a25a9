//! `tidemill rerun …`, `tidemill cold-start` and `tidemill batch clear`.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidemill_client::Method;

use super::{Session, wait, write};
use crate::args::{ColdStartArgs, HowArgs, PlanArgs, RerunCommand, SpanArgs, word};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::progress;
use crate::render;
use crate::server::Query;

/// Between two looks at a rerun.
const LOOK_EVERY: Duration = Duration::from_millis(250);

const RERUNS: &str = "id, kind, state, planned, started, succeeded, failed, skipped, blocked, REQUESTED: requested_at, \
    BY: requested_by";
const BATCHES: &str = "NO: number, group, JOB: job_name, logical_time, run, after, state, batch, reason";
const PLAN: &str = "JOB: job_name | job, version, touches";
const LEFT_OUT: &str = "JOB: job_name | job, reason, batch, logical_time";

pub(super) fn run(session: &Session<'_>, command: RerunCommand) -> Done<Exit> {
    match command {
        RerunCommand::Plan(args) => plan(session, args),
        RerunCommand::Approve { rerun, wait } => {
            let path = format!("/api/reruns/{rerun}/approve");
            if wait {
                session.server.post(&path, None)?;
                return watch(session, rerun);
            }
            let done = format!("Rerun {rerun} runs. Watch it with `tidemill rerun watch {rerun}`.");
            write::post(session, &path, None, done)
        }
        RerunCommand::Ls { state, limit } => {
            let query: Query = state.map(|state| ("state", state)).into_iter().collect();
            let answer = session.server.list("/api/reruns", &query, limit)?;
            session.show_list(&answer, RERUNS, "No reruns.")
        }
        RerunCommand::Show { rerun } => {
            let mut answer = look(session, rerun)?;
            let jobs = session.server.get(&format!("/api/reruns/{rerun}/jobs"), &[])?;
            for field in ["plan", "left_out"] {
                answer[field] = jobs[field].clone();
            }
            Ok(session.show(&answer, one))
        }
        RerunCommand::Batches { rerun, state, limit } => {
            let query: Query = state.map(|state| ("state", state)).into_iter().collect();
            let answer = session.server.list(&format!("/api/reruns/{rerun}/batches"), &query, limit)?;
            session.show_list(&answer, BATCHES, "No batches.")
        }
        RerunCommand::Watch { rerun } => watch(session, rerun),
        RerunCommand::Pause { rerun } => {
            act(session, rerun, "pause", None, "Nothing more of it is started for now.")
        }
        RerunCommand::Resume { rerun } => act(session, rerun, "resume", None, "It goes on."),
        RerunCommand::Cancel { rerun, kill } => {
            act(session, rerun, "cancel", Some(&json!({ "kill": kill })), "Nothing more of it is started.")
        }
    }
}

fn act(session: &Session<'_>, rerun: i64, what: &str, body: Option<&Value>, told: &str) -> Done<Exit> {
    write::post(session, &format!("/api/reruns/{rerun}/{what}"), body, format!("Rerun {rerun}: {told}"))
}

/// Jobs by id or by name, as the server takes them.
fn refs(jobs: &[String]) -> Value {
    jobs.iter().map(|job| job.parse::<i64>().map_or_else(|_| json!(job), |id| json!(id))).collect()
}

fn span(body: &mut Value, span: &SpanArgs) {
    body["from"] = json!(span.from);
    body["to"] = json!(span.to);
    body["only"] = json!(word(&span.only));
    body["order"] = json!(span.order);
    how(body, &span.how);
}

fn how(body: &mut Value, how: &HowArgs) {
    body["concurrency"] = json!(how.concurrency);
    body["reason"] = json!(how.reason);
    body["approve"] = json!(how.yes);
}

fn plan(session: &Session<'_>, args: PlanArgs) -> Done<Exit> {
    let mut body = json!({
        "jobs": refs(&args.jobs),
        "cascade": word(&args.cascade),
        "subset": refs(&args.subset),
        "definition": word(&args.definition),
    });
    if let Some(reach) = args.reach {
        body["reach"] = json!(reach);
    }
    span(&mut body, &args.span);
    spec(session, "/api/reruns", &body, &args.span.how)
}

pub(super) fn cold_start(session: &Session<'_>, args: &ColdStartArgs) -> Done<Exit> {
    let mut body = json!({ "period": args.period });
    if let Some(group) = &args.group {
        body["group"] = json!(group);
    }
    if !args.jobs.is_empty() {
        body["jobs"] = refs(&args.jobs);
    }
    span(&mut body, &args.span);
    spec(session, "/api/cold-starts", &body, &args.span.how)
}

pub(super) fn clear(session: &Session<'_>, batch: i64, args: &HowArgs) -> Done<Exit> {
    let mut body = json!({});
    how(&mut body, args);
    spec(session, &format!("/api/batches/{batch}/clear"), &body, args)
}

/// Requests it, waits for its plan, and shows that or, on request, its progress to the end.
fn spec(session: &Session<'_>, path: &str, body: &Value, args: &HowArgs) -> Done<Exit> {
    let answer = session.server.write(Method::Post, path, Some(body), args.idempotency_key.as_deref())?;
    let Some(rerun) = answer["rerun"].as_i64() else {
        return Err(Failure::new(Exit::Failure, format!("the server's answer names no rerun: {answer}")));
    };
    if args.wait {
        if !session.format.is_for_programs() && answer["warnings"].is_array() {
            output::line(wait::warnings(&answer).trim_start());
        }
        return watch(session, rerun);
    }
    let path = format!("/api/reruns/{rerun}");
    let mut shown = wait::until(session, &path, None, |rerun| rerun["state"] != "planning")?;
    if shown["state"] == "refused" {
        session.show(&shown, |shown| {
            format!("Rerun {rerun} is refused: {}.", render::one_line(&shown["message"]))
        });
        return Ok(Exit::Refused);
    }
    let next = if args.yes { "watch" } else { "approve" };
    if answer["warnings"].is_array() {
        shown["warnings"] = answer["warnings"].clone();
    }
    Ok(session.show(&shown, |shown| {
        let left_out = match (shown["jobs_skipped"].as_u64(), shown["jobs_left_out"].as_u64()) {
            (Some(0) | None, Some(0) | None) => String::new(),
            (skipped, beyond) => format!(
                ", {} jobs left out, and {} downstream that the key does not reach",
                skipped.unwrap_or(0),
                beyond.unwrap_or(0)
            ),
        };
        format!(
            "Rerun {rerun}: {} batches of {} jobs are planned{left_out}. See them with `tidemill rerun batches {rerun}`, \
             what is left out with `tidemill rerun show {rerun}`, then `tidemill rerun {next} {rerun}`.{}",
            shown["planned"],
            shown["jobs"],
            wait::warnings(shown)
        )
    }))
}

fn look(session: &Session<'_>, rerun: i64) -> Done<Value> {
    session.server.get(&format!("/api/reruns/{rerun}"), &[])
}

/// Fields, then jobs.
fn one(rerun: &Value) -> String {
    let mut text = render::fields(rerun, &["plan", "left_out", "spec"]);
    text.push_str(&format!("request  {}\n", rerun["spec"]));
    for (field, columns) in [("plan", PLAN), ("left_out", LEFT_OUT)] {
        text.push_str(&render::section(field, &rerun[field], columns));
    }
    text
}

/// A bar on stderr until it is over, then how it ended.
fn watch(session: &Session<'_>, rerun: i64) -> Done<Exit> {
    let bar = progress::bar(session, 0);
    let ended = loop {
        let shown = look(session, rerun)?;
        let count = |field: &str| shown[field].as_u64().unwrap_or(0);
        bar.set_length(count("planned"));
        let settled = ["succeeded", "failed", "skipped", "blocked"].map(count);
        bar.set_position(settled.iter().sum());
        let state = shown["state"].as_str().unwrap_or("?");
        let running = count("started").saturating_sub(settled[..3].iter().sum());
        bar.set_message(format!("{state}, {running} run, {} failed, {} blocked", settled[1], settled[3]));
        if !shown["ended_at"].is_null() {
            break shown;
        }
        thread::sleep(LOOK_EVERY);
    };
    bar.finish_and_clear();
    session.show(&ended, |ended| summary(rerun, ended));
    Ok(exit_of(&ended))
}

/// What the end of a rerun is to scripts.
pub(super) fn exit_of(ended: &Value) -> Exit {
    match ended["state"].as_str().unwrap_or("?") {
        "done" => Exit::Success,
        "done_with_failures" => Exit::BatchFailed,
        "cancelled" => Exit::BatchKilled,
        "refused" => Exit::Refused,
        _ => Exit::Failure,
    }
}

fn summary(rerun: i64, ended: &Value) -> String {
    let message = ended["message"].as_str().filter(|message| !message.is_empty());
    let message = message.map(|message| format!(" {message}")).unwrap_or_default();
    format!(
        "Rerun {rerun}: {}. {} planned, {} succeeded, {} failed, {} skipped, {} blocked.{message}",
        ended["state"].as_str().unwrap_or("?").replace('_', " "),
        ended["planned"],
        ended["succeeded"],
        ended["failed"],
        ended["skipped"],
        ended["blocked"]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_named_by_id_or_name() {
        assert_eq!(refs(&["4096".to_owned(), "g/a".to_owned()]), json!([4096, "g/a"]));
    }

    #[test]
    fn list_has_every_counter() {
        let counters = ["planned", "started", "succeeded", "failed", "skipped", "blocked"];
        let rerun: Value =
            counters.into_iter().zip(11..).map(|(name, count)| (name.to_owned(), json!(count))).collect();
        let listed = render::items(&json!([rerun]), RERUNS, "");
        let row = listed.lines().last().unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>().join(" "), "- - - 11 12 13 14 15 16 - -");
    }

    #[test]
    fn end_is_told_with_its_counters() {
        let ended = json!({
            "state": "done_with_failures", "planned": 5, "succeeded": 3, "failed": 1, "skipped": 0, "blocked": 1,
            "message": "",
        });
        expect_test::expect![
            "Rerun 7: done with failures. 5 planned, 3 succeeded, 1 failed, 0 skipped, 1 blocked."
        ]
        .assert_eq(&summary(7, &ended));
    }
}
