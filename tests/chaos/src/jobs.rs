//! The jobs of the workload, and the program that leaves its marks on disk.

use std::path::{Path, PathBuf};

use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Each start and end is one line; a lock, which the kernel gives up only when the last process of the attempt
/// is gone, tells two live attempts of one logical time.
const PROGRAM: &str = r#"#!/bin/sh
# job.sh SECONDS FAILS: marks its start and end; of 101 tokens, FAILS fail in the first two attempts.
here=$(dirname "$0")/witness
name=$(printf '%s@%s' "$TIDEMILL_JOB" "$TIDEMILL_LOGICAL_TIME" | tr '/:' '__')
exec 9>>"$here/lock.$name"
flock -n 9 || echo "overlap $TIDEMILL_TOKEN $TIDEMILL_BATCH $name" >>"$here/lines"
echo "start $TIDEMILL_TOKEN $TIDEMILL_BATCH $TIDEMILL_ATTEMPT" >>"$here/lines"
echo "attempt $TIDEMILL_ATTEMPT of $name"
sleep "$1"
if [ $((TIDEMILL_TOKEN % 101)) -lt "$2" ] && [ "$TIDEMILL_ATTEMPT" -lt 3 ]; then
  echo "fail $TIDEMILL_TOKEN $TIDEMILL_BATCH $TIDEMILL_ATTEMPT" >>"$here/lines"
  exit 7
fi
echo "end $TIDEMILL_TOKEN $TIDEMILL_BATCH $TIDEMILL_ATTEMPT" >>"$here/lines"
"#;

/// Writes the program beside the directory of its marks, and makes the one of the paths that are waited for.
pub(crate) fn write_program(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(inputs(dir))?;
    Ok(std::fs::write(program(dir), PROGRAM)?)
}

fn program(dir: &Path) -> PathBuf {
    dir.join("job.sh")
}

/// The command of a job that takes so long and fails so often.
pub(crate) fn command(dir: &Path, seconds: &str, fails: u32) -> String {
    format!("exec sh {} {seconds} {fails}", program(dir).display())
}

/// Jobs that clients run by hand, as group/name.
pub(crate) const BY_HAND: [&str; 4] = ["alpha/extract", "alpha/flaky", "alpha/long", "beta/quick"];
/// Jobs that run by themselves while they are enabled.
pub(crate) const SCHEDULED: [&str; 2] = ["alpha/tick", "beta/tock"];
/// Waits for a report of [`CODE`] and for [`input`].
pub(crate) const GATED: &str = "alpha/gated";
/// What a third party tells of.
pub(crate) const CODE: &str = "books";
/// A pool that jobs of both groups share.
pub(crate) const POOL: &str = "lane";
/// Anyone may switch it and change its comment.
pub(crate) const SWITCHED: &str = "beta/switched";

fn inputs(dir: &Path) -> PathBuf {
    dir.join("inputs")
}

/// The path that [`GATED`] waits for at this logical time.
pub(crate) fn input(dir: &Path, time: Timestamp) -> PathBuf {
    inputs(dir).join(time.strftime("%Y%m%d%H%M%S").to_string())
}

/// All definitions.
pub(crate) fn specs(dir: &Path) -> Vec<Value> {
    let job = |group: &str, name: &str, seconds: &str, fails: u32| {
        json!({
            "group": group, "name": name, "type": "shell", "command": command(dir, seconds, fails),
            "max_concurrent": 4, "retries": 5, "retry_interval_s": 1,
        })
    };
    let with = |mut job: Value, field: &str, value: Value| {
        job[field] = value;
        job
    };
    vec![
        job("alpha", "extract", "0.2", 10),
        with(job("alpha", "load", "0.3", 10), "parents", json!(["extract"])),
        with(job("alpha", "report", "0.1", 0), "parents", json!(["extract", "load"])),
        with(job("alpha", "flaky", "0.1", 40), "pools", json!([POOL])),
        with(
            with(job("alpha", "gated", "0.1", 10), "third_party", json!([CODE])),
            "inputs",
            json!([format!("{}/${{yyyyMMddHHmmss}}", inputs(dir).display())]),
        ),
        job("alpha", "long", "5", 0),
        json!({"group": "beta", "name": "quick", "type": "noop", "max_concurrent": 50}),
        with(job("alpha", "tick", "0.1", 5), "schedule", json!({"cron": "*/4 * * * * ?"})),
        json!({
            "group": "beta", "name": "tock", "type": "noop", "max_concurrent": 50,
            "schedule": {"cron": "* * * * * ?"},
        }),
        switched(""),
    ]
}

/// A job that waits for one of another group.
pub(crate) fn across(dir: &Path) -> Value {
    json!({
        "group": "beta", "name": "across", "type": "shell", "command": command(dir, "0.1", 10),
        "max_concurrent": 4, "retries": 5, "retry_interval_s": 1, "parents": ["alpha/extract"], "pools": [POOL],
    })
}

/// The job that changes, with this comment.
pub(crate) fn switched(comment: &str) -> Value {
    json!({"group": "beta", "name": "switched", "type": "noop", "comment": comment})
}
