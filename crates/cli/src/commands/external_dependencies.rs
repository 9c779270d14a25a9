//! `tidemill batch override`, `tidemill third-party …` and `tidemill probe run`.

use serde_json::json;

use super::{Session, job, write};
use crate::args::{Condition, OverrideArgs, ProbeCommand, QualityWord, ThirdPartyCommand};
use crate::exit::Exit;
use crate::failure::Done;
use crate::server::Query;

pub(super) fn waive(session: &Session<'_>, args: &OverrideArgs) -> Done<Exit> {
    let OverrideArgs { batch, what, logical_time, reason } = args;
    let what = match what {
        Condition { path: Some(path), .. } => json!({ "path": path }),
        Condition { third_party: Some(code), .. } => json!({ "third_party": code }),
        Condition { parent: Some(parent), .. } => {
            let mut parent = json!({ "job": job::id_of(session, parent)? });
            if let Some(time) = logical_time {
                parent["logical_time"] = json!(time.to_string());
            }
            json!({ "parent": parent })
        }
        Condition { quality: true, .. } => json!("quality"),
        Condition { .. } => json!("all"),
    };
    let (path, body) = (format!("/api/batches/{batch}/override"), json!({ "what": what, "reason": reason }));
    write::post(session, &path, Some(&body), format!("Batch {batch} does not wait for it any more."))
}

pub(super) fn quality(session: &Session<'_>, batch: i64, word: QualityWord, reason: &str) -> Done<Exit> {
    let body = json!({ "allowed": word == QualityWord::Allow, "reason": reason });
    let said = match word {
        QualityWord::Allow => "is allowed",
        QualityWord::Refuse => "is refused",
    };
    let path = format!("/api/batches/{batch}/quality");
    write::post(session, &path, Some(&body), format!("Batch {batch} {said}."))
}

const REPORTS: &str = "code, logical_time, ready, REPORTED: reported_at, BY: reported_by";

pub(super) fn third_party(session: &Session<'_>, command: ThirdPartyCommand) -> Done<Exit> {
    match command {
        ThirdPartyCommand::Report { code, logical_time, not_ready } => {
            let ready = !not_ready;
            let body = json!({ "code": code, "logical_time": logical_time.to_string(), "ready": ready });
            let what = if ready { "ready" } else { "not ready" };
            let done = format!("{code} is {what} for {logical_time}.");
            write::post(session, "/api/third-party", Some(&body), done)
        }
        ThirdPartyCommand::Ls { code, limit } => {
            let query: Query = code.map(|code| ("code", code)).into_iter().collect();
            let answer = session.server.list("/api/third-party", &query, limit)?;
            session.show_list(&answer, REPORTS, "No reports.")
        }
    }
}

const LATE: &str = "authority, prober, late_ms, since, REPORTED: reported_at, failure";

pub(super) fn probe(session: &Session<'_>, command: &ProbeCommand) -> Done<Exit> {
    match command {
        ProbeCommand::Run { batch } => {
            let body = batch.map_or_else(|| json!({}), |batch| json!({ "batch": batch }));
            let done = match batch {
                Some(batch) => format!("The paths that batch {batch} waits for are probed at once."),
                None => "All paths are probed at once.".to_owned(),
            };
            write::post(session, "/api/probes", Some(&body), done)
        }
        ProbeCommand::Late => {
            session.show_list(&session.server.get("/api/probes/late", &[])?, LATE, "All probes are in time.")
        }
    }
}
