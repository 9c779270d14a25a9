//! `tidemill job …`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use tidemill_model::Timestamp;

/// What to do with jobs. A JOB is an id, or `group/name`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum JobCommand {
    /// Check the jobs of YAML files without a server
    Validate {
        /// Files, or directories whose *.yaml and *.yml are read, with those below (not in hidden ones); together
        /// they are what is checked
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
    /// Add and change the jobs of a YAML file, or of all in a directory and below it, all or none
    Apply(ApplyArgs),
    /// Write jobs as YAML that `apply` takes back unchanged
    Export {
        /// Only this group
        #[arg(long)]
        group: Option<String>,
    },
    /// List jobs
    Ls(JobLsArgs),
    /// Show one job
    Show {
        /// Id, or group/name
        job: String,
        /// Show the definition as it was in this version [default: the job as it is now]
        #[arg(long, value_name = "N")]
        at_version: Option<u32>,
    },
    /// List the versions of a definition, the newest first: when and by whom
    Versions {
        /// Id, or group/name
        job: String,
        /// At most so many; all pages are fetched until then
        #[arg(long, default_value = "200", value_parser = super::at_least_one)]
        limit: usize,
    },
    /// Show the fields in which two versions of a definition differ
    Diff {
        /// Id, or group/name
        job: String,
        /// The version to compare from
        #[arg(value_name = "OLD")]
        from: u32,
        /// The version to compare to
        #[arg(value_name = "NEW")]
        to: u32,
    },
    /// List the jobs that name this one as a parent
    Children {
        /// Id, or group/name
        job: String,
        /// At most so many; all pages are fetched until then
        #[arg(long, default_value = "200", value_parser = super::at_least_one)]
        limit: usize,
    },
    /// Edit one definition; refused where somebody else has changed it meanwhile
    ///
    /// Opens it as YAML in $VISUAL or $EDITOR [default: vi].
    Edit {
        /// Id, or group/name
        job: String,
    },
    /// Make one batch of a job by hand
    Run(JobRunArgs),
    /// Submit a job that is in no file: without a schedule or parents it runs at once
    Submit(JobSubmitArgs),
    /// Generate batches from now on
    Enable {
        /// Id, or group/name
        job: String,
    },
    /// Generate no more batches; those by schedule or parents wait, runs by hand and reruns do not
    Disable {
        /// Id, or group/name
        job: String,
    },
    /// Give a job another name in its group; its id, its history and its run numbers stay
    ///
    /// Jobs that name it as a parent go on doing so. In a file, `previous_name: OLD` beside the new name does the same.
    Rename {
        /// Id, or group/name
        job: String,
        /// The new name, without the group
        #[arg(value_name = "NEW_NAME")]
        name: String,
    },
    /// Give a job to another group; its id, its run numbers and its next fire stay
    ///
    /// Its batches stay with the group that ran them; run one again, and it runs in the new group. Refused while something of
    /// the job is unfinished, while it is a parent, and while a rerun lists it. A job without a schedule that has parents has
    /// to be disabled first.
    Move {
        /// Id, or group/name
        job: String,
        /// The group that runs it from then on
        #[arg(value_name = "GROUP")]
        group: String,
    },
    /// Show the next logical times, or a given one, with all templates resolved
    Preview {
        /// Id, or group/name
        job: String,
        /// How many
        #[arg(short, default_value_t = 10)]
        n: u32,
        /// Those after this time, RFC 3339 [default: now]
        #[arg(long, value_name = "TIME")]
        after: Option<Timestamp>,
        /// All of one logical time, RFC 3339, whether the job has a schedule or not
        #[arg(long, value_name = "TIME", conflicts_with_all = ["n", "after"])]
        at: Option<Timestamp>,
    },
    /// Show the fires that made no batch, and why
    Skipped {
        /// Id, or group/name
        job: String,
    },
    /// Remove a definition
    Delete {
        /// Id, or group/name
        job: String,
        /// End what is unfinished of it; else it is not deleted while something is
        #[arg(long)]
        cancel: bool,
        /// Delete it though other jobs name it as parent; their batches go on waiting until somebody acts
        #[arg(long)]
        orphan_children: bool,
    },
}

/// What to apply, and how.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApplyArgs {
    /// File, or directory whose *.yaml and *.yml are read, with those below (not in hidden ones)
    #[arg(short, long, value_name = "PATH")]
    pub(crate) file: PathBuf,
    /// Also delete the jobs of this group that are not named (repeatable)
    #[arg(long, value_name = "GROUP")]
    pub(crate) prune: Vec<String>,
    /// End what is unfinished of jobs that are deleted
    #[arg(long, requires = "prune")]
    pub(crate) cancel: bool,
    /// Delete jobs that others name as parent, too; the batches of these go on waiting until somebody acts
    #[arg(long, requires = "prune")]
    pub(crate) orphan_children: bool,
    /// Only show what would change
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Take types that neither the configuration nor any worker knows; their batches wait until a worker does
    #[arg(long)]
    pub(crate) allow_unknown_type: bool,
    /// Sets a parameter of every job in the file (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) parameters: Vec<Parameter>,
}

/// Which jobs to list.
#[derive(Debug, Clone, Args)]
pub(crate) struct JobLsArgs {
    /// Only this group
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Only this name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Only this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    /// Only those that are (not) enabled
    #[arg(long)]
    pub(crate) enabled: Option<bool>,
    /// Only those that were submitted to run once (true), or only those that are defined (false)
    #[arg(long)]
    pub(crate) submitted: Option<bool>,
    /// At most so many; all pages are fetched until then
    #[arg(long, default_value = "200", value_parser = super::at_least_one)]
    pub(crate) limit: usize,
}

/// Which batch to make.
#[derive(Debug, Clone, Args)]
pub(crate) struct JobRunArgs {
    /// Id, or group/name
    pub(crate) job: String,
    /// For which logical time, RFC 3339 [default: the current period's]
    #[arg(long, value_name = "TIME")]
    pub(crate) logical_time: Option<Timestamp>,
    /// Parameter over those of the definition (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) parameters: Vec<Parameter>,
    /// Run even when batches of other logical times of the job are unfinished
    #[arg(long)]
    pub(crate) concurrent: bool,
    /// Wait for the end; the exit code says how it ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Name this request, so that repeating it does it once
    #[arg(long, value_name = "ID")]
    pub(crate) idempotency_key: Option<String>,
}

/// What to submit (API-1).
#[derive(Debug, Clone, Args)]
pub(crate) struct JobSubmitArgs {
    /// The job's name, unique in its group
    pub(crate) name: String,
    /// What to run; `-` reads it from standard input
    #[arg(long)]
    pub(crate) command: String,
    /// The worker group, by name or number
    #[arg(long)]
    pub(crate) group: String,
    /// Who submits it
    #[arg(long, value_name = "PERSON")]
    pub(crate) user: String,
    /// What kind of program it is
    #[arg(long = "type", value_name = "TYPE", default_value = "shell")]
    pub(crate) job_type: String,
    /// Quartz cron expression [default: it runs once]
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) cron: Option<String>,
    /// Wait for this job: id, or group/name (repeatable)
    #[arg(long = "parent", value_name = "JOB")]
    pub(crate) parents: Vec<String>,
    /// 1 (lowest) to 10
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=10))]
    pub(crate) priority: Option<i32>,
    /// Parameter (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) parameters: Vec<Parameter>,
    /// Name this request, so that repeating it does it once
    #[arg(long, value_name = "ID")]
    pub(crate) idempotency_key: Option<String>,
}

/// `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for Parameter {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self { name: name.into(), value: value.into() }),
            _ => Err("must be NAME=VALUE, as in day=2026-01-01".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_ends_its_name_at_the_first_equals_sign() {
        let parameter: Parameter = "query=a=b".parse().unwrap();
        assert_eq!((parameter.name.as_str(), parameter.value.as_str()), ("query", "a=b"));
        assert!("=x".parse::<Parameter>().is_err());
    }
}
