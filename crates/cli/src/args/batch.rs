//! `tidemill batch …`, and what batches wait for outside: `tidemill third-party …` and `tidemill probe …`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use tidemill_model::{LogStream, Timestamp};

/// Which batches to list.
#[derive(Debug, Clone, Args)]
pub(crate) struct BatchLsArgs {
    /// Only of this job: id, or group/name
    #[arg(long)]
    pub(crate) job: Option<String>,
    /// Only of this group
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Only in this state
    #[arg(long, value_parser = STATES)]
    pub(crate) state: Option<String>,
    /// Only with this result
    #[arg(long, value_parser = RESULTS)]
    pub(crate) result: Option<String>,
    /// Only those that a failed parent blocks: what they wait for comes only if somebody acts
    #[arg(long)]
    pub(crate) blocked: bool,
    /// Only those that exactly this application or person asked for: APP, or APP/PERSON
    #[arg(long, value_name = "WHO", conflicts_with = "mine")]
    pub(crate) triggered_by: Option<String>,
    /// Only those that were asked for with the key of this command
    #[arg(long)]
    pub(crate) mine: bool,
    /// Only for logical times from this one on, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Timestamp>,
    /// Only for logical times before this one, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Timestamp>,
    /// At most so many; all pages are fetched until then
    #[arg(long, default_value = "50", value_parser = super::at_least_one)]
    pub(crate) limit: usize,
}

/// What to do with batches.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BatchCommand {
    /// List batches, newest first
    Ls(BatchLsArgs),
    /// Show one batch with its dependencies and attempts
    Show {
        /// Its id
        batch: i64,
    },
    /// Say what keeps a batch from running
    Why {
        /// Its id
        batch: i64,
        /// What kept it then: RFC 3339, or a position, PARTITION:OFFSET
        #[arg(long, value_name = "MOMENT")]
        as_of: Option<String>,
    },
    /// Show what a running batch uses now: memory, processor, processes, disk
    Usage {
        /// Its id
        batch: i64,
    },
    /// List the assignments of a batch that ended without an attempt, and why
    Returns {
        /// Its id
        batch: i64,
    },
    /// End a batch with its whole process tree
    Kill {
        /// Its id
        batch: i64,
        /// Why, for the record
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Say how a batch ended; what runs of it is ended first
    ///
    /// Its children go on from what is said here: after success and skipped they may run.
    Mark {
        /// Its id
        batch: i64,
        /// How it ended
        #[arg(value_enum)]
        result: Marked,
        /// Why, for the record; 1 to 500 characters
        #[arg(long)]
        reason: String,
    },
    /// Say that nothing of an attempt runs any more; it ends as lost, and the batch may be tried again
    ///
    /// For an attempt that nobody can be asked about: its worker is lost, as in a group with `on_silence: hold`, or was asked to
    /// end it with `batch kill` and cannot. Its processes have to be gone for sure: its host is off, or somebody looked.
    Vouch {
        /// Its id
        batch: i64,
        /// The attempt, by the TOKEN that `batch show` has
        #[arg(long)]
        attempt: i64,
        /// How you know, for the record; 1 to 500 characters
        #[arg(long)]
        reason: String,
    },
    /// Let an attempt of a lost life of the log be that of a batch
    ///
    /// After a restore a worker may run what the log no longer knows of: `batch why` and `worker show` name it. The batch, which no
    /// worker has, is of the same job and logical time; the attempt's end counts for it from now on.
    Adopt {
        /// Its id
        batch: i64,
        /// The attempt, by its TOKEN
        #[arg(long)]
        attempt: i64,
        /// Why its end is to count, for the record; 1 to 500 characters
        #[arg(long)]
        reason: String,
    },
    /// Let a batch run without some of its unmet conditions
    ///
    /// `tidemill batch why` lists them. What is named here is not waited for any more; the rest is.
    Override(OverrideArgs),
    /// Say in place of the quality service whether a batch may run
    Quality {
        /// Its id
        batch: i64,
        /// What to say
        #[arg(value_enum)]
        word: QualityWord,
        /// Why, for the record
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Plan to run a batch's logical time, and all that comes after it, once more
    Clear {
        /// Its id
        batch: i64,
        #[command(flatten)]
        how: super::HowArgs,
    },
    /// Run the same logical time once more
    Rerun {
        /// Its id
        batch: i64,
        /// Wait for the end; the exit code says how it ended
        #[arg(long)]
        wait: bool,
        /// Name this request, so that repeating it does it once
        #[arg(long, value_name = "ID")]
        idempotency_key: Option<String>,
    },
    /// Write what a batch printed
    ///
    /// On a terminal, what would steer that is told as JSON does: \u001b for ESC. Elsewhere the log is written as it is.
    Logs(LogsArgs),
}

/// What a batch is to run without.
#[derive(Debug, Clone, Args)]
pub(crate) struct OverrideArgs {
    /// Its id
    pub(crate) batch: i64,
    #[command(flatten)]
    pub(crate) what: Condition,
    /// Only for this logical time of the parent, RFC 3339
    #[arg(long, value_name = "TIME", requires = "parent")]
    pub(crate) logical_time: Option<Timestamp>,
    /// Why, for the record; 1 to 500 characters
    #[arg(long)]
    pub(crate) reason: String,
}

/// What to write of a log.
#[derive(Debug, Clone, Args)]
pub(crate) struct LogsArgs {
    /// Its id
    pub(crate) batch: i64,
    /// Go on until the batch has ended, over all its attempts
    #[arg(short, long, conflicts_with = "part")]
    pub(crate) follow: bool,
    /// Its standard error instead of its standard output
    #[arg(long, group = "streams")]
    pub(crate) stderr: bool,
    /// What its worker says of the attempt instead: limits, kills, that it was taken over
    #[arg(long, group = "streams")]
    pub(crate) worker: bool,
    /// All three as they came, each line behind its stream's name
    #[arg(long, group = "streams", conflicts_with = "part")]
    pub(crate) all: bool,
    /// Of this attempt [default: the newest]
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,
    /// Only the last N lines
    #[arg(long, value_name = "N", group = "part", value_parser = super::at_least_one)]
    pub(crate) last: Option<usize>,
    /// Only from line N on
    #[arg(long, value_name = "N", group = "part", value_parser = super::at_least_one)]
    pub(crate) line: Option<usize>,
    /// Only lines with this text, each behind its number
    #[arg(long, value_name = "TEXT", group = "part")]
    pub(crate) search: Option<String>,
    /// Find `a` as `A`, too
    #[arg(long, requires = "search")]
    pub(crate) ignore_case: bool,
    /// How long it is, and its first line that looks like an error
    #[arg(long, group = "part", conflicts_with = "streams")]
    pub(crate) summary: bool,
    /// Write it into this file as it is, byte for byte; - is standard output
    #[arg(long, value_name = "FILE", group = "part")]
    pub(crate) download: Option<PathBuf>,
    /// Only these of its bytes, from 0 on, as in 1000-1999 or 1000-
    #[arg(long, value_name = "FIRST-LAST", requires = "download", conflicts_with = "resume")]
    pub(crate) bytes: Option<ByteRange>,
    /// Go on behind what the file has already, as after a download that broke off
    #[arg(long, requires = "download")]
    pub(crate) resume: bool,
}

/// `FIRST-LAST` or `FIRST-`, as the header `Range` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) first: u64,
    pub(crate) last: Option<u64>,
}

impl FromStr for ByteRange {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const RULE: &str = "must be FIRST-LAST or FIRST-, as in 1000-1999, and LAST not below FIRST";
        let (first, last) = text.split_once('-').ok_or(RULE)?;
        let first: u64 = first.parse().map_err(|_| RULE)?;
        let last = if last.is_empty() { None } else { Some(last.parse().map_err(|_| RULE)?) };
        if last.is_some_and(|last| last < first) {
            return Err(RULE);
        }
        Ok(Self { first, last })
    }
}

impl LogsArgs {
    /// Which stream, where it is one.
    pub(crate) fn stream(&self) -> LogStream {
        match (self.stderr, self.worker) {
            (true, _) => LogStream::Stderr,
            (_, true) => LogStream::Worker,
            (false, false) => LogStream::Stdout,
        }
    }
}

/// One condition, or all of them.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Condition {
    /// Without any of them
    #[arg(long)]
    pub(crate) all: bool,
    /// Without this path, as `batch show` has it
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Without a third party's report of this code
    #[arg(long, value_name = "CODE")]
    pub(crate) third_party: Option<String>,
    /// Without this parent: id, or group/name
    #[arg(long, value_name = "JOB")]
    pub(crate) parent: Option<String>,
    /// Without the quality service's word
    #[arg(long)]
    pub(crate) quality: bool,
}

/// The quality service's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QualityWord {
    /// It may run
    Allow,
    /// It may not
    Refuse,
}

pub(super) const STATES: [&str; 4] = ["waiting", "assigned", "running", "finished"];
pub(super) const RESULTS: [&str; 4] = ["success", "failed", "killed", "skipped"];

/// What a person says of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Marked {
    /// What it was to do is done
    Success,
    /// It is not
    Failed,
    /// It need not be
    Skipped,
}

/// The word of a choice, as the server knows it.
pub(crate) fn word(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// What to do with third parties' reports.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ThirdPartyCommand {
    /// Say that something is ready for a logical time; kept for batches to come
    Report {
        /// Its code, as jobs name it in third_party
        code: String,
        /// For which logical time, RFC 3339
        #[arg(long, value_name = "TIME")]
        logical_time: Timestamp,
        /// It is not ready, or not any more
        #[arg(long)]
        not_ready: bool,
    },
    /// List what was reported last, by code and logical time
    Ls {
        /// Only of this code
        #[arg(long)]
        code: Option<String>,
        /// At most so many; all pages are fetched until then
        #[arg(long, default_value = "50", value_parser = super::at_least_one)]
        limit: usize,
    },
}

/// What to do with probes of paths.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ProbeCommand {
    /// Probe the paths that batches wait for at once
    Run {
        /// Only what this batch waits for [default: everything, with an administrator's key]
        #[arg(long)]
        batch: Option<i64>,
    },
    /// List the authorities whose probes fail or are late
    Late,
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    /// LOG-2: what of a log is wanted stands alone, and says of which stream where there is one.
    #[test]
    fn parts_of_a_log_exclude_each_other() {
        let command = || LogsArgs::augment_args(clap::Command::new("logs"));
        command().debug_assert();
        let kind = |options: &str| {
            let words = ["logs", "7"].into_iter().chain(options.split_whitespace());
            command().try_get_matches_from(words).err().map(|error| error.kind())
        };
        for options in [
            "",
            "-f --stderr --attempt 2",
            "-f --all",
            "--last 5 --worker",
            "--line 5",
            "--search a --ignore-case --stderr",
            "--summary --attempt 1",
            "--download - --stderr",
            "--download x --resume",
            "--download x --bytes 5-9",
            "--download x --bytes 5-",
        ] {
            assert_eq!(kind(options), None, "{options}");
        }
        for options in [
            "-f --last 5",
            "-f --download x",
            "--last 5 --line 5",
            "--search a --summary",
            "--all --stderr",
            "--worker --stderr",
            "--all --last 5",
            "--summary --stderr",
            "--download x --resume --bytes 5-",
        ] {
            assert_eq!(kind(options), Some(ErrorKind::ArgumentConflict), "{options}");
        }
        assert_eq!(kind("--ignore-case"), Some(ErrorKind::MissingRequiredArgument));
        for value in
            ["--last 0", "--download x --bytes 5", "--download x --bytes 5-4", "--download x --bytes=-5"]
        {
            assert_eq!(kind(value), Some(ErrorKind::ValueValidation), "{value}");
        }
        assert_eq!(kind("--resume"), Some(ErrorKind::MissingRequiredArgument));
    }
}
