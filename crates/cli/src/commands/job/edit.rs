//! `tidemill job edit`: one definition in an editor, and back, unless somebody else has changed it meanwhile (API-10).

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidemill_model::JobSpec;

use super::apply::changes;
use super::id_of;
use crate::commands::{Session, write};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::yaml;

pub(super) fn run(session: &Session<'_>, job: &str) -> Done<Exit> {
    let path = format!("/api/jobs/{}/definition", id_of(session, job)?);
    let (definition, tag) = session.server.get_tagged(&path)?;
    let text = yaml::write_whole::<JobSpec>(&definition)?;
    let file = File::new(&text)?;
    // Nobody wants to write it twice.
    let kept = |failure: Failure| {
        let hint = failure.hint.as_ref().map(|hint| format!("{hint}; ")).unwrap_or_default();
        failure.hint(format!("{hint}what you wrote is kept in {}", file.0.display()))
    };
    open(&file.0).map_err(kept)?;
    let edited = fs::read_to_string(&file.0).map_err(|error| kept(Failure::unreadable(&file.0, &error)))?;
    if edited == text {
        file.remove();
        output::line("Nothing to change.");
        return Ok(Exit::Success);
    }
    let written = yaml::object(&file.0).and_then(|body| session.server.put_tagged(&path, &body, &tag));
    let answer = written.map_err(kept)?;
    file.remove();
    Ok(write::show_warned(session, &answer, |answer| changes(answer, "changed")))
}

/// A definition in a file that nobody else reads.
struct File(PathBuf);

impl File {
    fn new(text: &str) -> Done<Self> {
        let cannot = |path: &Path, error: &std::io::Error| {
            Failure::caused(format!("cannot write the definition to {}", path.display()), error)
        };
        for number in 0.. {
            let path = env::temp_dir().join(format!("tidemill-job-{}-{number}.yaml", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => {
                    file.write_all(text.as_bytes()).map_err(|error| cannot(&path, &error))?;
                    return Ok(Self(path));
                }
                // Left by an edit that was refused.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 100 => {}
                Err(error) => return Err(cannot(&path, &error)),
            }
        }
        unreachable!("the loop ends by its count")
    }

    fn remove(&self) {
        // What is left there is the definition that was accepted.
        let _ = fs::remove_file(&self.0);
    }
}

/// Waits until the editor has ended.
fn open(file: &Path) -> Done {
    let named = |name| env::var(name).ok().filter(|editor| !editor.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    // It may have options of its own.
    let ended = Command::new("sh").args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(file).status();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(
            Exit::Failure,
            format!("the editor {editor} ended with {status}; nothing is changed"),
        )
        .hint("name another one in VISUAL or EDITOR")),
        Err(error) => Err(Failure::caused(format!("cannot start the editor {editor}"), &error)),
    }
}
