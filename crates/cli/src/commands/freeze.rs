//! `tidemill freeze …`.

use serde_json::json;
use tidemill_client::{Method, segment};

use super::{Session, write};
use crate::args::FreezeCommand;
use crate::exit::Exit;
use crate::failure::Done;
use crate::render::{self, Column};

const FREEZES: &[Column] = &[
    Column("GROUP", &["/group"]),
    Column("LATEST LOGICAL TIME", &["/latest"]),
    Column("BY", &["/frozen_by"]),
    Column("SINCE", &["/frozen_at"]),
    Column("REASON", &["/reason"]),
];

pub(super) fn run(session: &Session<'_>, command: FreezeCommand) -> Done<Exit> {
    let what = |group: &Option<String>| match group {
        Some(group) => format!("Group {group}"),
        None => "Everything".to_owned(),
    };
    let scope = |group: &Option<String>| match group {
        Some(group) => format!("/api/freezes/{}", segment(group)),
        None => "/api/freezes/*".to_owned(),
    };
    match command {
        FreezeCommand::Ls => {
            let answer = session.server.get("/api/freezes", &[])?;
            Ok(session.show(&answer, |answer| render::list(answer, FREEZES, "Nothing is frozen.")))
        }
        FreezeCommand::Set { group, latest, reason } => {
            let body = json!({ "latest": latest, "reason": reason });
            let answer = session.server.write(Method::Put, &scope(&group), Some(&body), None)?;
            Ok(write::show(session, &answer, |_| format!("{} is frozen.", what(&group))))
        }
        FreezeCommand::Lift { group, reason } => {
            let path = format!("{}?reason={}", scope(&group), segment(&reason));
            let answer = session.server.write(Method::Delete, &path, None, None)?;
            Ok(write::show(session, &answer, |_| format!("{} is not frozen any more.", what(&group))))
        }
    }
}
