//! The example's files, carried by the program, and the directory that the demo's jobs work in.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidemill_cli::{Done, Exit, Failure};

macro_rules! example_files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("../../../../examples/git-history/", $path)))),*]
    };
}

/// The files of `examples/git-history`, by their path there.
const FILES: &[(&str, &[u8])] = example_files![
    "README.md",
    "bundled/history.tsv.gz",
    "extract.sh",
    "jobs.yaml",
    "scripts/attempt.py",
    "scripts/authors.py",
    "scripts/check_extract.py",
    "scripts/churn_per_file.py",
    "scripts/commits_per_day.py",
    "scripts/history.py",
    "scripts/load.py",
    "scripts/message_words.py",
];

/// While this file is there, the analysis of message words fails.
const BREAK_FILE: &str = "break-message-words";

/// What the jobs read and write, ready to run.
#[derive(Debug)]
pub(super) struct Workplace {
    /// Their directory.
    pub(super) dir: PathBuf,
    /// What the extract was made of, for people.
    pub(super) input: String,
}

impl Workplace {
    /// Writes the example's files into `data_dir` and takes the history of the repository around here, or
    /// the bundled extract.
    pub(super) fn prepare(data_dir: &Path) -> Done<Self> {
        let cannot = |error: io::Error| {
            Failure::caused(format!("cannot write the example into {}", data_dir.display()), &error)
        };
        let example = data_dir.join("example");
        for (path, bytes) in FILES {
            let path = example.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&example)).map_err(cannot)?;
            fs::write(&path, bytes).map_err(cannot)?;
        }
        let script = example.join("extract.sh");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(cannot)?;
        // The demo may run inside somebody's repository, which is none of its business.
        fs::write(data_dir.join(".gitignore"), "*\n").map_err(cannot)?;
        let dir = data_dir.join("work");
        let input = extract(&script, &dir)?;
        Ok(Self { dir, input })
    }

    /// The jobs, with the paths filled in.
    pub(super) fn jobs_file(&self) -> PathBuf {
        self.dir.join("jobs.yaml")
    }

    /// The tables that the two loads fill.
    pub(super) fn database(&self) -> PathBuf {
        self.dir.join("history.db")
    }

    /// Where the file is that breaks the analysis of message words.
    pub(super) fn break_file(&self) -> PathBuf {
        self.dir.join(BREAK_FILE)
    }

    /// Makes the analysis of message words fail from now on, or work again.
    pub(super) fn set_broken(&self, broken: bool) -> Done {
        let path = self.break_file();
        let outcome = if broken { fs::write(&path, "") } else { fs::remove_file(&path) };
        match outcome {
            Err(error) if broken || error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::caused(format!("cannot change {}", path.display()), &error))
            }
            _ => Ok(()),
        }
    }
}

fn extract(script: &Path, dir: &Path) -> Done<String> {
    let output = Command::new("bash")
        .arg(script)
        .arg("--repository")
        .arg(std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")))
        .arg("--dir")
        .arg(dir)
        .output()
        .map_err(|error| {
            Failure::caused("cannot run bash, which prepares the demo's input", &error)
                .hint("the demo needs bash and python3 on the PATH")
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let mut failure =
        Failure::new(Exit::Failure, format!("preparing the demo's input ended with {}", output.status));
    for line in String::from_utf8_lossy(&output.stderr).lines().take(10) {
        failure = failure.detail(line);
    }
    Err(failure.hint("the demo needs bash and python3 on the PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A1: what the program carries is the whole example.
    #[test]
    fn every_script_of_the_example_is_carried() {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/git-history/scripts");
        for entry in fs::read_dir(scripts).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".py") {
                assert!(FILES.iter().any(|(path, _)| *path == format!("scripts/{name}")), "{name}");
            }
        }
    }

    #[test]
    fn breaking_and_mending_may_be_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let workplace = Workplace { dir: dir.path().to_owned(), input: String::new() };
        for broken in [false, true, true, false, false] {
            workplace.set_broken(broken).unwrap();
            assert_eq!(workplace.break_file().exists(), broken);
        }
    }
}
