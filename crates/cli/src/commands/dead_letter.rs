//! `tidemill dead-letters …`.

use tidemill_client::segment;

use super::Session;
use crate::args::{DeadLetterCommand, word};
use crate::exit::Exit;
use crate::failure::Done;
use crate::render;
use crate::server::Query;

const LETTERS: &str = "id, kind, subject, SINCE: recorded_at, open, reason";

pub(super) fn run(session: &Session<'_>, command: DeadLetterCommand) -> Done<Exit> {
    match command {
        DeadLetterCommand::Ls { kind, all, limit } => {
            let mut query = Query::new();
            query.extend(kind.map(|kind| ("kind", word(&kind))));
            query.extend((!all).then(|| ("open", "true".to_owned())));
            let answer = session.server.list("/api/dead-letters", &query, limit)?;
            session.show_list(&answer, LETTERS, "No dead letters.")
        }
        DeadLetterCommand::Show { id } => session.show_fields(&format!("/api/dead-letters/{}", segment(&id))),
        DeadLetterCommand::Redrive { id } => {
            let path = format!("/api/dead-letters/{}/redrive", segment(&id));
            let answer = session.server.post(&path, None)?;
            Ok(session.show(&answer, |answer| render::one_line(&answer["message"])))
        }
    }
}
