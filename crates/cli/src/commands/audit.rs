//! `tidemill audit …`.

use std::io::{BufRead as _, BufReader};

use tidemill_client::segment;

use super::Session;
use crate::args::{AuditCommand, AuditFilterArgs};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::server::Query;

const ROWS: &str = "id, at, app, person, kind, object, group, NAME: detail/name | detail/job_name, count, REASON: detail/reason";

pub(super) fn run(session: &Session<'_>, command: AuditCommand) -> Done<Exit> {
    match command {
        AuditCommand::Ls { filter, limit } => {
            let answer = session.server.list("/api/audit", &query(filter), limit)?;
            session.show_list(&answer, ROWS, "No rows.")
        }
        AuditCommand::Show { id } => session.show_fields(&format!("/api/audit/{}", segment(&id))),
        AuditCommand::Export { filter, after } => {
            let mut query = query(filter);
            query.extend(after.map(|after| ("after", after)));
            for line in BufReader::new(session.server.export_audit(&query)?).lines() {
                output::line(line.map_err(|error| {
                    Failure::caused("the export broke off", &error)
                        .hint("it goes on with --after and the id of the last row that was written")
                })?);
            }
            Ok(Exit::Success)
        }
    }
}

fn query(filter: AuditFilterArgs) -> Query<'static> {
    let AuditFilterArgs { app, person, kind, object, group, since, until } = filter;
    let texts = [("app", app), ("person", person), ("kind", kind), ("object", object), ("group", group)];
    let times =
        [("since", since), ("until", until)].map(|(name, time)| (name, time.map(|time| time.to_string())));
    texts.into_iter().chain(times).filter_map(|(name, value)| Some((name, value?))).collect()
}
