//! Settings of the role that runs jobs.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_executor::TypeConfig;
use tidemill_model::{Account, HourMinute, JobType, Reserved, WorkerLabel};

/// The role that runs jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExecutorSettings {
    /// The group whose jobs it runs. Default `default`.
    pub(crate) group: String,
    /// Attempts at once, by job type. Default: `shell` and `python` two for each core, `noop` 1,000.
    pub(crate) slots: BTreeMap<String, u32>,
    /// Of these slots, those that are kept for some jobs, by job type: `{slots = 2, priority = 1}` keeps two for jobs
    /// pinned to this host and for those of priority 0 and 1; without `priority`, for pinned jobs only. Default none;
    /// 1 to all slots of the type.
    pub(crate) reserved: BTreeMap<JobType, Reserved>,
    /// Memory that jobs may have of this machine's, MiB. Default: all of it; 1 to 16,777,216.
    pub(crate) memory_mb: Option<u32>,
    /// The control group below which attempts with limits get groups of their own, as a path from the root of each tree, such as
    /// `/system.slice/tidemill.service`; `none`: none are used. Default: the executor's own group, where that is handed over to it.
    pub(crate) cgroup: Option<String>,
    /// What jobs can ask for it by, as their `worker_label`. Default none; at most 64.
    pub(crate) labels: BTreeSet<WorkerLabel>,
    /// Where its logs are served, `ip:port`; port 0 takes a free one. Default `127.0.0.1:0`.
    pub(crate) listen: String,
    /// The address under which others reach that, `host:port`. Default: where it listens.
    pub(crate) advertise: Option<String>,
    /// The name of this host, which jobs can be pinned to. Default: what the system says.
    pub(crate) host: Option<String>,
    /// How programs of each type are started, beside (or in place of) `shell`, `python`, `java`, `mapreduce`, `hive`,
    /// `spark` and `datahub`. Default none.
    pub(crate) types: BTreeMap<JobType, TypeConfig>,
    /// The account of jobs that name none with `run_as`; the executor has to be root, and it another account than
    /// root's. Default none: they run as the executor's own account, and can read its keys and data.
    pub(crate) default_run_as: Option<Account>,
    /// From one heartbeat to the next, milliseconds. Default 3,000; 50 to 60,000.
    pub(crate) heartbeat_ms: u64,
    /// The drain deadline: how long running attempts get to end by themselves when the executor is stopped and does not keep
    /// its jobs, milliseconds. Then they are ended, and run again elsewhere without using up a retry. Default 30,000; 0 to
    /// 86,400,000.
    pub(crate) stop_grace_ms: u64,
    /// Whether running attempts go on when the executor is stopped, and the next one with the same data directory takes them
    /// over; a second signal ends them. If not, they get `stop_grace_ms`, and are ended then. Default true; false in a
    /// container, where nothing outlives the first process, and for `standalone`.
    pub(crate) keep_jobs_on_stop: Option<bool>,
    /// How long output of attempts is kept after their end is on record, days. Default 7; 0 to 36,500.
    pub(crate) log_retention_days: u32,
    /// When old output is removed, `HH:MM`, beside when the executor starts. Default `02:10`.
    pub(crate) sweep_at: HourMinute,
    /// The time zone that this is a time of day in, as `Europe/Berlin`. Default: the machine's own.
    pub(crate) sweep_zone: Option<String>,
    /// With more load than this, in percent of the machine's processors, it takes no work, until the load is a fifth below that. Default 0:
    /// whatever the load is; 0 to 100,000.
    pub(crate) max_load_percent: u32,
    /// Free space below which it takes no work, MiB. Default 4; 0 to 1,000,000.
    pub(crate) disk_reserve_mb: u64,
    /// How much is kept of each of an attempt's two outputs, MiB. Of a longer one the log has the beginning and the last 64 KiB,
    /// and a line that says what is missing. Default 4,096; 0 to 16,777,216; 0: no bound.
    pub(crate) output_max_mb: u64,
    /// Variables of its own environment whose values are replaced by `***` in all output of jobs, before anything is kept: at least 6
    /// bytes each. Default none; at most 64.
    pub(crate) mask_env: Vec<String>,
    /// Address of the API that jobs see as `TIDEMILL_API`. Default empty; `standalone` gives its own.
    pub(crate) api_url: String,
}

impl Default for ExecutorSettings {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let slots = [("shell", cores * 2), ("python", cores * 2), ("noop", 1000)];
        Self {
            group: "default".to_owned(),
            slots: slots.into_iter().map(|(name, slots)| (name.to_owned(), slots)).collect(),
            reserved: BTreeMap::new(),
            memory_mb: None,
            cgroup: None,
            labels: BTreeSet::new(),
            listen: "127.0.0.1:0".to_owned(),
            advertise: None,
            host: None,
            types: BTreeMap::new(),
            default_run_as: None,
            heartbeat_ms: 3_000,
            stop_grace_ms: 30_000,
            keep_jobs_on_stop: None,
            log_retention_days: 7,
            sweep_at: HourMinute::try_from("02:10").expect("is a time of day"),
            sweep_zone: None,
            max_load_percent: 0,
            disk_reserve_mb: 4,
            output_max_mb: 4_096,
            mask_env: Vec::new(),
            api_url: String::new(),
        }
    }
}
