//! What the commands need of the program that they are a part of.

use std::path::{Path, PathBuf};

use tidemill_model::{JobSpec, Rejection};

use crate::args::Global;
use crate::failure::Done;

/// The program around the commands. It has the configuration, the keys of this host and the rules of definitions; the
/// commands have none of these, so that they can be linked without the roles.
pub trait Host {
    /// The settings in effect, by options, environment and configuration file.
    ///
    /// # Errors
    /// One of them cannot be accepted.
    fn settings(&self, global: &Global) -> Done<Settings>;

    /// The public key of a group's workers, in hexadecimal digits: that of the private key in `keys_dir`, which is drawn
    /// where there is none.
    ///
    /// # Errors
    /// The directory cannot be used.
    fn worker_key(&self, keys_dir: &Path, group: &str) -> Done<String>;

    /// Checks definitions by the rules of an apply, as far as that needs no server. Gives warnings.
    ///
    /// # Errors
    /// The rejection of the apply.
    fn check_jobs(&self, jobs: &[JobSpec]) -> Result<Vec<String>, Rejection>;
}

/// The settings that commands use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The data directory, which may be that of a running server.
    pub data_dir: PathBuf,
    /// Where its keys are.
    pub keys_dir: PathBuf,
    /// Authorities to trust, in PEM; none: those that the machine trusts.
    pub ca_file: Option<PathBuf>,
    /// The operator's secret; empty: there is none. None: that of the file among the keys.
    pub operator_key: Option<String>,
}
