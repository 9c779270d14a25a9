//! What the commands of people need of the program around them.

use std::path::Path;

use tidemill_cli::{Done, Global, Host, Settings};
use tidemill_model::{JobSpec, Rejection};

use crate::config;
use crate::keys::{Keys, public_half};

/// This program.
#[derive(Debug)]
pub(crate) struct Program;

impl Host for Program {
    fn settings(&self, global: &Global) -> Done<Settings> {
        Ok(config::from_command_line(global, Vec::new())?.settings.of_clients())
    }

    fn worker_key(&self, keys_dir: &Path, group: &str) -> Done<String> {
        public_half(&Keys::open(keys_dir)?.group_private(group)?)
    }

    fn check_jobs(&self, jobs: &[JobSpec]) -> Result<Vec<String>, Rejection> {
        tidemill_engine::check_jobs(jobs, tidemill_journal::now())
    }
}
