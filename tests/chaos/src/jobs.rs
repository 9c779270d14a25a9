//! The jobs of the workload, and the program that leaves its marks on disk.

use std::path::{Path, PathBuf};

use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};
use tidemill_model::LogStream;

/// Each start and end is one line, and how many lines it has printed until then is one; a lock, which the kernel gives up only
/// when the last process of the attempt is gone, tells two live attempts of one logical time.
const PROGRAM: &str = r#"#!/bin/sh
# job.sh ROUNDS FAILS: marks its start and end, and what it prints in rounds of a tenth of a second; of 101 tokens, FAILS fail
# in the first two attempts.
here=$(dirname "$0")/witness
name=$(printf '%s@%s' "$TIDEMILL_JOB" "$TIDEMILL_LOGICAL_TIME" | tr '/:' '__')
exec 9>>"$here/lock.$name"
flock -n 9 || echo "overlap $TIDEMILL_TOKEN $TIDEMILL_BATCH $name" >>"$here/lines"
echo "start $TIDEMILL_TOKEN $TIDEMILL_BATCH $TIDEMILL_ATTEMPT" >>"$here/lines"
out=0 err=0 round=0
print() {
  last=$((out + $1))
  while [ "$out" -lt "$last" ]; do
    out=$((out + 1))
    echo "$TIDEMILL_TOKEN stdout $out ................................"
    if [ $((out % 3)) -eq 0 ]; then
      err=$((err + 1))
      echo "$TIDEMILL_TOKEN stderr $err ................................" >&2
    fi
  done
  echo "printed $TIDEMILL_TOKEN $out $err" >>"$here/lines"
}
while [ "$round" -lt "$1" ]; do
  print $((1 + (TIDEMILL_TOKEN + round) % 5))
  # The shell says on its stderr that the program was ended, where the signal comes to that first.
  { sleep 0.1; } 2>/dev/null
  round=$((round + 1))
done
# More than a pipe holds, and more than has one sum.
[ $((TIDEMILL_TOKEN % 23)) -ne 0 ] || print 2000
if [ $((TIDEMILL_TOKEN % 101)) -lt "$2" ] && [ "$TIDEMILL_ATTEMPT" -lt 3 ]; then
  echo "fail $TIDEMILL_TOKEN $TIDEMILL_BATCH $TIDEMILL_ATTEMPT" >>"$here/lines"
  exit 7
fi
echo "end $TIDEMILL_TOKEN $TIDEMILL_BATCH $TIDEMILL_ATTEMPT" >>"$here/lines"
"#;

/// The line that the program prints with this number, from 1, of one of its two streams.
pub(crate) fn line(token: i64, stream: LogStream, number: u64) -> String {
    format!("{token} {} {number} ................................\n", stream.name())
}

/// Writes the program beside the directory of its marks, and makes the one of the paths that are waited for.
pub(crate) fn write_program(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(inputs(dir))?;
    Ok(std::fs::write(program(dir), PROGRAM)?)
}

fn program(dir: &Path) -> PathBuf {
    dir.join("job.sh")
}

/// The command of a job that takes so many rounds of a tenth of a second, and fails so often.
pub(crate) fn command(dir: &Path, rounds: u32, fails: u32) -> String {
    format!("exec sh {} {rounds} {fails}", program(dir).display())
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
    let job = |group: &str, name: &str, rounds: u32, fails: u32| {
        json!({
            "group": group, "name": name, "type": "shell", "command": command(dir, rounds, fails),
            "max_concurrent": 4, "retries": 5, "retry_interval_s": 1,
        })
    };
    let with = |mut job: Value, field: &str, value: Value| {
        job[field] = value;
        job
    };
    vec![
        job("alpha", "extract", 2, 10),
        with(job("alpha", "load", 3, 10), "parents", json!(["extract"])),
        with(job("alpha", "report", 1, 0), "parents", json!(["extract", "load"])),
        with(job("alpha", "flaky", 1, 40), "pools", json!([POOL])),
        with(
            with(job("alpha", "gated", 1, 10), "third_party", json!([CODE])),
            "inputs",
            json!([format!("{}/${{yyyyMMddHHmmss}}", inputs(dir).display())]),
        ),
        job("alpha", "long", 50, 0),
        json!({"group": "beta", "name": "quick", "type": "noop", "max_concurrent": 50}),
        with(job("alpha", "tick", 1, 5), "schedule", json!({"cron": "*/4 * * * * ?"})),
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
        "group": "beta", "name": "across", "type": "shell", "command": command(dir, 1, 10),
        "max_concurrent": 4, "retries": 5, "retry_interval_s": 1, "parents": ["alpha/extract"], "pools": [POOL],
    })
}

/// The job that changes, with this comment.
pub(crate) fn switched(comment: &str) -> Value {
    json!({"group": "beta", "name": "switched", "type": "noop", "comment": comment})
}
