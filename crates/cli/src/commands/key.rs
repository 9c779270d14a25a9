//! `tidemill key …`.

use serde_json::{Value, json};
use tidemill_client::segment;

use super::{Session, write};
use crate::args::{KeyCommand, word};
use crate::exit::Exit;
use crate::failure::Done;
use crate::secret;

const KEYS: &str = "app, role, groups, run_as, DEFINED: defined_at";

pub(super) fn run(session: &Session<'_>, command: KeyCommand) -> Done<Exit> {
    match command {
        KeyCommand::Ls => session.show_list(&session.server.get("/api/keys", &[])?, KEYS, "No keys."),
        KeyCommand::Apply { app, role, groups, run_as, operator } => {
            let secret = secret::draw::<24>();
            let body = json!({ "app": app, "secret": secret, "role": word(&role), "groups": groups, "run_as": run_as });
            let mut answer = match operator {
                true => session.with_operator_key()?.post("/api/admin/keys", Some(&body))?,
                false => session.server.post("/api/keys", Some(&body))?,
            };
            if let Value::Object(fields) = &mut answer {
                fields.insert("key".to_owned(), json!(format!("{app}:{secret}")));
            }
            Ok(session.show(&answer, |_| format!("{app}:{secret}\nKeep it: only its hash is on record.")))
        }
        KeyCommand::Delete { app } => {
            write::delete(session, &format!("/api/keys/{}", segment(&app)), format!("Key {app} is deleted."))
        }
    }
}
