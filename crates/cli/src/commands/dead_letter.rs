//! `tidemill dead-letters …`.

use tidemill_client::segment;

use super::Session;
use crate::args::{DeadLetterCommand, word};
use crate::exit::Exit;
use crate::failure::Done;
use crate::render::{self, Column};
use crate::server::Query;

const LETTERS: &[Column] = &[
    Column("ID", &["/id"]),
    Column("KIND", &["/kind"]),
    Column("SUBJECT", &["/subject"]),
    Column("SINCE", &["/recorded_at"]),
    Column("OPEN", &["/open"]),
    Column("REASON", &["/reason"]),
];

pub(super) fn run(session: &Session<'_>, command: DeadLetterCommand) -> Done<Exit> {
    match command {
        DeadLetterCommand::Ls { kind, all, limit } => {
            let mut query = Query::new();
            query.extend(kind.map(|kind| ("kind", word(&kind))));
            query.extend((!all).then(|| ("open", "true".to_owned())));
            let answer = session.server.list("/api/dead-letters", &query, limit)?;
            Ok(session.show(&answer, |answer| render::list(answer, LETTERS, "No dead letters.")))
        }
        DeadLetterCommand::Show { id } => {
            let answer = session.server.get(&format!("/api/dead-letters/{}", segment(&id)), &[])?;
            Ok(session.show(&answer, |letter| render::fields(letter, &[])))
        }
        DeadLetterCommand::Redrive { id } => {
            let path = format!("/api/dead-letters/{}/redrive", segment(&id));
            let answer = session.server.post(&path, None)?;
            Ok(session.show(&answer, |answer| render::one_line(&answer["message"])))
        }
    }
}
