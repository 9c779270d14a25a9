//! `tidemill bulk …`.

use serde_json::{Value, json};
use tidemill_client::Method;

use super::{Session, wait};
use crate::args::{BatchesArgs, BulkCommand, JobsArgs, word};
use crate::exit::Exit;
use crate::failure::Done;
use crate::progress;
use crate::render;
use crate::server::Query;

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
        let bar = progress::bar(session, 0);
        let is_over = |operation: &Value| {
            let count = |field: &str| operation[field].as_u64().unwrap_or(0);
            bar.set_length(count("items"));
            bar.set_position(count("done") + count("refused"));
            bar.set_message(format!("{} refused", count("refused")));
            !operation["ended_at"].is_null()
        };
        let path = format!("/api/bulk/{bulk}");
        let ended = wait::until(session, &path, answer["position"].as_str(), is_over);
        bar.finish_and_clear();
        let ended = ended?;
        return Ok(session.show(&ended, |ended| render::fields(ended, &[])));
    }
    Ok(session.show(&answer, |answer| {
        format!("Operation {bulk} of {} items. Follow it with `tidemill bulk show {bulk}`.", answer["found"])
    }))
}
