//! `tidemill batch override`, `tidemill third-party …` and `tidemill probe run`.

use serde_json::{Value, json};

use super::{Session, job};
use crate::args::{Condition, ProbeCommand, QualityWord, ThirdPartyCommand};
use crate::exit::Exit;
use crate::failure::Done;
use crate::render::{self, Column};
use crate::server::Query;

pub(super) struct Override<'a> {
    pub(super) batch: i64,
    pub(super) what: &'a Condition,
    pub(super) logical_time: Option<tidemill_model::Timestamp>,
    pub(super) reason: &'a str,
}

pub(super) fn waive(session: &Session<'_>, request: &Override<'_>) -> Done<Exit> {
    let Override { batch, what, logical_time, reason } = request;
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
    let body = json!({ "what": what, "reason": reason });
    let answer = session.server.post(&format!("/api/batches/{batch}/override"), Some(&body))?;
    Ok(session.show(&answer, |_| format!("Batch {batch} does not wait for it any more.")))
}

pub(super) fn quality(session: &Session<'_>, batch: i64, word: QualityWord, reason: &str) -> Done<Exit> {
    let body = json!({ "allowed": word == QualityWord::Allow, "reason": reason });
    let answer = session.server.post(&format!("/api/batches/{batch}/quality"), Some(&body))?;
    let said = match word {
        QualityWord::Allow => "is allowed",
        QualityWord::Refuse => "is refused",
    };
    Ok(session.show(&answer, |_| format!("Batch {batch} {said}.")))
}

const REPORTS: &[Column] = &[
    Column("CODE", &["/code"]),
    Column("LOGICAL TIME", &["/logical_time"]),
    Column("READY", &["/ready"]),
    Column("REPORTED", &["/reported_at"]),
    Column("BY", &["/reported_by"]),
];

pub(super) fn third_party(session: &Session<'_>, command: ThirdPartyCommand) -> Done<Exit> {
    match command {
        ThirdPartyCommand::Report { code, logical_time, not_ready } => {
            let ready = !not_ready;
            let body = json!({ "code": code, "logical_time": logical_time.to_string(), "ready": ready });
            let answer = session.server.post("/api/third-party", Some(&body))?;
            let what = if ready { "ready" } else { "not ready" };
            Ok(session.show(&answer, |_| format!("{code} is {what} for {logical_time}.")))
        }
        ThirdPartyCommand::Ls { code, limit } => {
            let mut query = Query::new();
            query.extend(code.map(|code| ("code", code)));
            let answer = session.server.list("/api/third-party", &query, limit)?;
            Ok(session.show(&answer, |answer| render::list(answer, REPORTS, "No reports.")))
        }
    }
}

const LATE: &[Column] = &[
    Column("AUTHORITY", &["/authority"]),
    Column("PROBER", &["/prober"]),
    Column("LATE MS", &["/late_ms"]),
    Column("SINCE", &["/since"]),
    Column("REPORTED", &["/reported_at"]),
    Column("FAILURE", &["/failure"]),
];

pub(super) fn probe(session: &Session<'_>, command: &ProbeCommand) -> Done<Exit> {
    match command {
        ProbeCommand::Run { batch } => {
            let body = batch.map_or_else(|| json!({}), |batch| json!({ "batch": batch }));
            let answer = session.server.post("/api/probes", Some(&body))?;
            let said = |_: &Value| match batch {
                Some(batch) => format!("The paths that batch {batch} waits for are probed at once."),
                None => "All paths are probed at once.".to_owned(),
            };
            Ok(session.show(&answer, said))
        }
        ProbeCommand::Late => {
            let answer = session.server.get("/api/probes/late", &[])?;
            Ok(session.show(&answer, |answer| render::list(answer, LATE, "All probes are in time.")))
        }
    }
}
