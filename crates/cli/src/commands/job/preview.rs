//! `tidemill job preview`: the times to come, with all that is resolved for them.

use serde_json::{Value, json};

use super::id_of;
use crate::commands::Session;
use crate::exit::Exit;
use crate::failure::Done;
use crate::render;
use crate::server::Query;

pub(super) fn show(session: &Session<'_>, job: &str, query: &Query<'_>) -> Done<Exit> {
    let path = format!("/api/jobs/{}/preview", id_of(session, job)?);
    let answer = session.server.get(&path, query)?;
    Ok(session.show(&answer, told))
}

/// One logical time with all that is resolved for it, several as a table.
fn told(answer: &Value) -> String {
    let fires = answer["fires"].as_array().map_or(&[][..], Vec::as_slice);
    if fires.is_empty() {
        return "No time is left on its schedule.".to_owned();
    }
    let mut head = format!("Zone {}", render::one_line(&answer["zone"]));
    for (field, what) in [("calendar", "calendar"), ("follows", "logical times of")] {
        if let Some(name) = answer[field].as_str() {
            head.push_str(&format!(", {what} {}", render::one_line(&json!(name))));
        }
    }
    if let [only] = fires {
        let mut text = format!("{head}\n{}", render::fields(only, &["program", "environment"]));
        text.push_str("environment\n");
        for (name, value) in only["environment"].as_object().into_iter().flatten() {
            text.push_str(&format!("    {name}={}\n", render::one_line(value)));
        }
        let program = &only["program"];
        let arguments = ["script", "path"].map(|kind| &program[kind]["arguments"]);
        if let Some(arguments) = arguments.into_iter().find_map(Value::as_array) {
            text.push_str("arguments\n");
            for argument in arguments {
                text.push_str(&format!("    {}\n", render::one_line(argument)));
            }
        }
        if let Some(path) = program["path"]["path"].as_str() {
            text.push_str(&format!("program  {}\n", render::one_line(&json!(path))));
        }
        return text;
    }
    let rows = fires.iter().map(|fire| {
        ["at", "logical_time", "command", "parameters"].map(|field| render::one_line(&fire[field])).to_vec()
    });
    format!("{head}\n{}", render::table(&["AT", "LOGICAL TIME", "COMMAND", "PARAMETERS"], rows))
}
