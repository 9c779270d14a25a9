//! The environment of a job: [`JOB_VARIABLES`].
//!
//! Of the worker's own environment a job gets only `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `LANG`,
//! `LC_*`, `TZ` and `TMPDIR`, and then what its type's configuration says: never the worker's secrets.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ed25519_dalek::{Signer, SigningKey};
use sha2::{Digest as _, Sha256};
use tidemill_model::{RunSpec, Token, WorkerId, hex};

use crate::Error;
use crate::shim::check_secrets;

/// What an attempt adds to the environment of its processes, with what each is.
pub const JOB_VARIABLES: &[(&str, &str)] = &[
    ("TIDEMILL_JOB", "The job's name."),
    ("TIDEMILL_BATCH", "The batch's id."),
    ("TIDEMILL_ATTEMPT", "The attempt's number, from 1."),
    (
        "TIDEMILL_TOKEN",
        "The attempt's fence: it grows with every attempt, so whoever takes the job's writes can refuse an older one.",
    ),
    ("TIDEMILL_WORKER", "The worker's id."),
    ("TIDEMILL_LOGICAL_TIME", "RFC 3339, with the offset of the job's zone."),
    ("TIDEMILL_RUN", "Which run of the logical time, from 0."),
    (
        "TIDEMILL_PARAM_NAME",
        "Each parameter; its name in capitals, what is not a letter or digit of ASCII as `_`.",
    ),
    (
        "TIDEMILL_VALUES",
        "A file that the job may write: a JSON object of texts, at most 8 KB, which its batch passes to children. Not for final commands.",
    ),
    (
        "TIDEMILL_WORK_TAG",
        "Types with `external_work` only: the tag that whatever the job starts elsewhere has to carry, such as a label of a container.",
    ),
    (
        "TIDEMILL_WORK_IDS",
        "Types with `external_work` only: a file to which the job may append the ids of what it starts elsewhere, a line each.",
    ),
    ("TIDEMILL_API", "The address of the API."),
    (
        "TIDEMILL_ATTEMPT_KEY",
        "What `POST {TIDEMILL_API}/api/attempts/{TIDEMILL_TOKEN}/code` wants as its bearer, to report a code.",
    ),
    (
        "TIDEMILL_RESULT",
        "Final commands only: the batch's result, `success`, `failed`, `killed` or `skipped`.",
    ),
    (
        "TIDEMILL_EXIT_CODE",
        "Final commands only: the exit code of the last attempt; empty where there was none.",
    ),
    ("TIDEMILL_ATTEMPTS", "Final commands only: how many attempts the batch had."),
];

const INHERITED: [&str; 8] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR"];

/// What of the worker's own environment jobs get.
pub(crate) fn inherited() -> BTreeMap<String, String> {
    let known = |name: &str| INHERITED.contains(&name) || name.starts_with("LC_");
    let own = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    own.filter(|(name, _)| known(name)).collect()
}

/// The values of variables of the worker's own environment that no output shows.
pub(crate) fn masked(names: &[String]) -> Result<Vec<String>, Error> {
    masked_of(names, |name| std::env::var_os(name))
}

fn masked_of(names: &[String], of: impl Fn(&str) -> Option<OsString>) -> Result<Vec<String>, Error> {
    let value = |name: &String| {
        let refuse = |rule: String| Error::Config { field: "mask_env", value: name.clone(), rule };
        let value = of(name).ok_or_else(|| refuse("has to be set in the environment".to_owned()))?;
        let value = value.into_string().map_err(|_| refuse("has to be set to text in UTF-8".to_owned()))?;
        check_secrets(std::slice::from_ref(&value)).map_err(refuse)?;
        Ok(value)
    };
    let values = names.iter().map(value).collect::<Result<Vec<_>, Error>>()?;
    check_secrets(&values).map_err(|rule| Error::Config {
        field: "mask_env",
        value: names.join(", "),
        rule,
    })?;
    Ok(values)
}

/// Where a program may be, the first place first: with a slash, that one; else in each directory of the `PATH`.
pub(crate) fn places(program: &str, path: &str) -> Vec<PathBuf> {
    match program.contains('/') {
        true => vec![program.into()],
        false => std::env::split_paths(path).map(|dir| dir.join(program)).collect(),
    }
}

/// Stands before the token of an attempt.
pub(crate) const TOKEN_MARK: &str = "TIDEMILL_TOKEN=";

/// What only the processes of this attempt have: tokens are unique within one site, and a host may serve two.
pub(crate) fn marks(worker: &WorkerId, token: Token) -> [String; 2] {
    [mark(worker), format!("{TOKEN_MARK}{token}")]
}

/// What the processes of all attempts of this worker have.
pub(crate) fn mark(worker: &WorkerId) -> String {
    format!("TIDEMILL_WORKER={worker}")
}

/// What work carries that an attempt starts elsewhere: tokens are unique within one site, and a cluster may serve several. The same
/// on all workers of a group.
pub(crate) fn work_tag(key: &SigningKey, token: Token) -> String {
    let of_group = hex(&Sha256::digest(key.verifying_key().as_bytes())[..6]);
    format!("tidemill-{of_group}-{token}")
}

/// What an attempt adds of which the type starts work elsewhere.
pub(crate) fn of_external_work(tag: &str, ids: &Path) -> [(String, String); 2] {
    [("TIDEMILL_WORK_TAG", tag.to_owned()), ("TIDEMILL_WORK_IDS", ids.to_string_lossy().into_owned())]
        .map(|(name, value)| (name.to_owned(), value))
}

/// What an attempt adds.
pub(crate) fn of_attempt(
    spec: &RunSpec,
    worker: &WorkerId,
    api_url: &str,
    key: &SigningKey,
    values: &Path,
) -> BTreeMap<String, String> {
    let mut env = spec.variables();
    let own = [
        ("TIDEMILL_TOKEN", spec.token.to_string()),
        ("TIDEMILL_WORKER", worker.to_string()),
        ("TIDEMILL_API", api_url.to_owned()),
        ("TIDEMILL_ATTEMPT_KEY", attempt_key(spec.token, key)),
    ];
    env.extend(own.map(|(name, value)| (name.to_owned(), value)));
    if spec.ending.is_none() {
        env.insert("TIDEMILL_VALUES".to_owned(), values.to_string_lossy().into_owned());
    }
    env
}

/// The group's signature over the token: no secret has to be kept for it, and whoever knows the group's public key
/// can tell that one of its workers gave it out.
fn attempt_key(token: Token, key: &SigningKey) -> String {
    hex(&key.sign(token.attempt_key_text().as_bytes()).to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BYD-15: a variable that cannot be masked is named, with the rule, and its value is not shown.
    #[test]
    fn variable_that_cannot_be_masked_is_refused_by_name() {
        let of = |name: &str| match name {
            "GOOD" => Some("a secret".into()),
            "SHORT" => Some("short".into()),
            "LONG" | "LONGER" => Some("x".repeat(40_000).into()),
            _ => None,
        };
        let masked = |name: &str| masked_of(&[name.to_owned()], of);
        assert_eq!(masked("GOOD").unwrap(), ["a secret"]);
        for (name, rule) in [("SHORT", "5 bytes"), ("NONE", "has to be set")] {
            let error = masked(name).unwrap_err().to_string();
            assert!(error.contains(&format!("mask_env is {name}, but")) && error.contains(rule), "{error}");
            assert!(!error.contains("short"), "{error}");
        }
        let error = masked_of(&["LONG".to_owned(), "LONGER".to_owned()], of).unwrap_err().to_string();
        let expected = "mask_env is LONG, LONGER, but the secrets to be masked are of 80000 bytes together";
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn every_variable_of_an_attempt_is_documented() {
        let spec = RunSpec {
            token: Token(4097),
            batch: tidemill_model::BatchId(1),
            attempt: 1,
            job: tidemill_model::JobId(1),
            job_name: "load".to_owned().try_into().unwrap(),
            group: "demo".to_owned().try_into().unwrap(),
            job_type: "shell".to_owned().try_into().unwrap(),
            program: tidemill_model::Program::None,
            logical_time: tidemill_model::Timestamp::UNIX_EPOCH,
            logical_time_text: String::new(),
            run: 0,
            parameters: BTreeMap::from([("name".to_owned(), String::new())]),
            execution_timeout_ms: None,
            memory_mb: None,
            run_as: None,
            output_path: None,
            limits: tidemill_model::Limits::default(),
            group_limits: tidemill_model::GroupLimits::default(),
            ending: Some(tidemill_model::Ending {
                result: tidemill_model::BatchResult::Failed,
                attempts: 2,
                exit_code: Some(3),
            }),
            unconfirmed: Vec::new(),
        };
        let key = SigningKey::from_bytes(&[7; 32]);
        let names = |spec: &RunSpec| of_attempt(spec, &WorkerId::new("w"), "", &key, Path::new("/v"));
        let of_final = names(&spec);
        assert!(!of_final.contains_key("TIDEMILL_VALUES"), "a final command passes nothing on");
        let mut names: BTreeMap<_, _> = names(&RunSpec { ending: None, ..spec });
        names.extend(of_final);
        names.extend(of_external_work("t", Path::new("/i")));
        let names: Vec<_> = names.into_keys().collect();
        let mut documented: Vec<_> = JOB_VARIABLES.iter().map(|(name, _)| *name).collect();
        documented.sort_unstable();
        assert_eq!(names, documented);
    }
}
