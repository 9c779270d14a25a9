//! `tidemill bulk …`.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidemill_client::Method;

use super::Session;
use crate::args::{BatchesArgs, BulkCommand, JobsArgs, word};
use crate::exit::Exit;
use crate::failure::Done;
use crate::render;
use crate::server::Query;

/// Between two looks at an operation.
const LOOK_EVERY: Duration = Duration::from_millis(250);

const OPERATIONS: &str =
    "id, action, result, items, done, refused, left, REQUESTED: requested_at, BY: requested_by, reason";
const ITEMS: &str = "id, outcome, rerun, reason";
const MATCHES: &str = "id, JOB: job_name, logical_time, now";

pub(super) fn run(session: &Session<'_>, command: BulkCommand) -> Done<Exit> {
    match command {
        BulkCommand::Kill(batches) => of_batches(session, json!({ "action": "kill" }), &batches),
        BulkCommand::Mark { marked, batches } => {
            of_batches(session, json!({ "action": "mark", "result": word(&marked) }), &batches)
        }
        BulkCommand::Clear(batches) => of_batches(session, json!({ "action": "clear" }), &batches),
        BulkCommand::Enable(jobs) => begin(session, json!({ "action": "enable" }), json!({}), &jobs),
        BulkCommand::Disable(jobs) => begin(session, json!({ "action": "disable" }), json!({}), &jobs),
        BulkCommand::Ls { limit } => {
            let answer = session.server.list("/api/bulk", &Query::new(), limit)?;
            session.show_list(&answer, OPERATIONS, "No operations.")
        }
        BulkCommand::Show { bulk } => session.show_fields(&format!("/api/bulk/{bulk}")),
        BulkCommand::Items { bulk, outcome, limit } => {
            let query: Query = outcome.map(|outcome| ("outcome", outcome)).into_iter().collect();
            let answer = session.server.list(&format!("/api/bulk/{bulk}/items"), &query, limit)?;
            session.show_list(&answer, ITEMS, "No such items.")
        }
    }
}

fn of_batches(session: &Session<'_>, body: Value, args: &BatchesArgs) -> Done<Exit> {
    let mut filter = json!({});
    for (field, value) in [
        ("state", args.state.as_ref().map(|state| json!(state))),
        ("result", args.result.as_ref().map(|result| json!(result))),
        ("from", args.from.map(|time| json!(time))),
        ("to", args.to.map(|time| json!(time))),
    ] {
        if let Some(value) = value {
            filter[field] = value;
        }
    }
    begin(session, body, filter, &args.jobs)
}

fn begin(session: &Session<'_>, mut body: Value, mut filter: Value, args: &JobsArgs) -> Done<Exit> {
    let given =
        [("group", &args.group), ("job", &args.job), ("type", &args.job_type), ("owner", &args.owner)];
    for (field, value) in given {
        if let Some(value) = value {
            filter[field] = json!(value);
        }
    }
    body["filter"] = filter;
    body["reason"] = json!(args.reason.as_deref().unwrap_or_default());
    body["dry_run"] = json!(args.dry_run);
    body["limit"] = json!(args.limit);
    let answer =
        session.server.write(Method::Post, "/api/bulk", Some(&body), args.idempotency_key.as_deref())?;
    if args.dry_run {
        return session.show_list(&answer, MATCHES, "Nothing fits.");
    }
    let bulk = answer["bulk"].as_i64().unwrap_or_default();
    if args.wait {
        return wait(session, bulk, &answer["position"]);
    }
    Ok(session.show(&answer, |answer| {
        format!("Operation {bulk} of {} items. Follow it with `tidemill bulk show {bulk}`.", answer["found"])
    }))
}

fn wait(session: &Session<'_>, bulk: i64, position: &Value) -> Done<Exit> {
    let path = format!("/api/bulk/{bulk}");
    let mut query = vec![("at_least", position.as_str().unwrap_or_default().to_owned())];
    loop {
        let answer = session.server.get(&path, &query)?;
        if !answer["ended_at"].is_null() {
            return Ok(session.show(&answer, |answer| render::fields(answer, &[])));
        }
        query.clear();
        thread::sleep(LOOK_EVERY);
    }
}
