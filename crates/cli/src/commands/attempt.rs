//! `tidemill attempt …`.

use serde_json::json;

use super::{Session, job};
use crate::args::{AttemptLsArgs, Global, ReportArgs};
use crate::exit::Exit;
use crate::failure::Done;
use crate::output;
use crate::server::{Query, Server};
use crate::target::Target;

const ATTEMPTS: &str = "TOKEN: id, batch, job, attempt, worker, result, EXIT: exit_code, signal, CODE: user_code, \
    STARTED: started_at, FINISHED: finished_at, message";

pub(super) fn list(session: &Session<'_>, args: AttemptLsArgs) -> Done<Exit> {
    let AttemptLsArgs { batch, job, worker, limit } = args;
    let mut query = Query::new();
    query.extend(batch.map(|batch| ("batch", batch.to_string())));
    if let Some(job) = job {
        query.push(("job", job::id_of(session, &job)?.to_string()));
    }
    query.extend(worker.map(|worker| ("worker", worker)));
    session.show_list(&session.server.list("/api/attempts", &query, limit)?, ATTEMPTS, "No attempts.")
}

/// What a program says of itself goes where the attempt's environment says, with the attempt's own key.
pub(super) fn report(global: &Global, args: ReportArgs) -> Done<Exit> {
    let ReportArgs { code, attempt, attempt_key, api } = args;
    let target = Target {
        server: api,
        server_from: "--api or TIDEMILL_API",
        key: Some(attempt_key),
        as_user: None,
        ca_file: global.ca_file.clone(),
    };
    let path = format!("/api/attempts/{attempt}/code");
    let answer = Server::new(target)?.report(&path, &json!({ "code": code })).map_err(|failure| {
        if failure.exit == Exit::Unreachable {
            failure.hint("--api has to be the address of an interface")
        } else {
            failure
        }
    })?;
    output::answer(global.output, &answer, |_| format!("Attempt {attempt} has reported code {code}."));
    Ok(Exit::Success)
}
