//! `tidemill demo`.

use clap::{Args, ValueEnum};

/// How to run the demo.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// End when the seven batches have ended; the exit code says how
    #[arg(long)]
    pub(crate) once: bool,
    /// Make this job fail
    #[arg(long = "break", value_name = "JOB", value_enum)]
    pub(crate) breaks: Option<Breakable>,
    /// Fix the job that was made to fail, and run its failed batch again
    #[arg(long, conflicts_with = "breaks")]
    pub(crate) fix: bool,
    /// Where to listen, ip:port [default: 127.0.0.1:8780, or a free port where that is taken]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
}

/// A job of the demo that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Breakable {
    MessageWords,
}
