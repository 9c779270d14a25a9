//! `tidemill freeze …`.

use serde_json::json;
use tidemill_client::{Method, segment};

use super::{Session, write};
use crate::args::FreezeCommand;
use crate::exit::Exit;
use crate::failure::Done;

const FREEZES: &str = "group, LATEST LOGICAL TIME: latest, BY: frozen_by, SINCE: frozen_at, reason";

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
            session.show_list(&session.server.get("/api/freezes", &[])?, FREEZES, "Nothing is frozen.")
        }
        FreezeCommand::Set { group, latest, reason } => {
            let body = json!({ "latest": latest, "reason": reason });
            let answer = session.server.write(Method::Put, &scope(&group), Some(&body), None)?;
            Ok(write::show(session, &answer, |_| format!("{} is frozen.", what(&group))))
        }
        FreezeCommand::Lift { group, reason } => {
            let path = format!("{}?reason={}", scope(&group), segment(&reason));
            write::delete(session, &path, format!("{} is not frozen any more.", what(&group)))
        }
    }
}
