//! Bounds of single values that people write. Who checks a value and the schema that tells of it take them from here, so
//! that the two cannot part. A length in bytes stands in a schema as one in characters, which it cannot be below.

/// Of a name: letters, digits, and `. _ -` after the first. No letter outside of ASCII is named: patterns that tell letters
/// from other signs there are not the same in all languages.
pub const NAME_PATTERN: &str = r"^[^\x00-/:-@\[-`{-\xa9][^\x00-,/:-@\[-^`{-\xa9]*$";
/// Of an application key's name.
pub const APP_PATTERN: &str = "^[A-Za-z0-9._-]+$";
/// An application key's name, characters.
pub const APP_CHARS: usize = 64;
/// Of a user who pulls tasks.
pub const USER_PATTERN: &str = "^[A-Za-z0-9._@-]+$";
/// A user's name, characters.
pub const USER_CHARS: usize = 128;
/// Of a time of day, to the second.
pub const TIME_OF_DAY_PATTERN: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]$";
/// Of a time of day, to the minute.
pub const HOUR_MINUTE_PATTERN: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]$";
/// Of a text that programs are given.
pub const NO_ZERO_PATTERN: &str = r"^[^\x00]*$";
/// Of such a text that is not blank.
pub const NOT_BLANK_PATTERN: &str = r"^[^\x00]*[^\x00\s][^\x00]*$";
/// Of a text without control characters.
pub const VISIBLE_PATTERN: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";
/// Of the name of a host.
pub const HOST_PATTERN: &str = r"^[^\x00-\x20\x7f-\x9f]+$";
/// Of the name of one file.
pub const FILE_NAME_PATTERN: &str = r"^[^\x00-\x1f\x7f-\x9f/*?\[\]{}]+$";
/// Of a path that a job reads or makes.
pub const PATH_PATTERN: &str = r"^(hdfs://|s3://|s3a://|file:///|/|\$\{)[^\x00-\x1f\x7f-\x9f]*$";
/// Of a public key or a hash.
pub const KEY_PATTERN: &str = "^[0-9A-Fa-f]{64}$";
/// Of the name of a parameter, which an environment variable is made from.
pub const PARAMETER_PATTERN: &str = "^[A-Za-z0-9._-]+$";

/// After so long a silence a process does not count any more, milliseconds.
pub const PROCESS_EXPIRE_AFTER_MS: (u64, u64) = (1_000, 86_400_000);

/// Attempts of lost lives of the log that are on record as running on one worker.
pub const STRAYS: usize = 1_000;

/// Why a batch is marked, or runs without some of its conditions, or all are frozen, characters.
pub const REASON_CHARS: usize = 500;
/// Why a batch is ended, characters.
pub const KILL_REASON_CHARS: usize = 1_000;
/// Why a rerun or an operation on many batches is asked for, bytes.
pub const REQUEST_REASON_BYTES: usize = 500;
/// Why a grant is given back, bytes.
pub const RETURN_REASON_BYTES: usize = 1_024;
/// Texts of a job beside what it runs, bytes.
pub const TEXT_BYTES: usize = 4 * 1024;
/// What is said of a calendar, a pool or a template, bytes.
pub const COMMENT_BYTES: usize = 4 * 1024;
/// A cron expression, bytes.
pub const CRON_BYTES: usize = 1024;
/// A time pattern, bytes.
pub const TIME_FORMAT_BYTES: usize = 128;
/// Host names, names of files, codes of third parties, bytes.
pub const SHORT_BYTES: usize = 255;
/// All texts of a job together, as JSON, bytes.
pub const COMMAND_BYTES: usize = 128 * 1024;

/// Parameters of a job.
pub const PARAMETERS: usize = 256;
/// The name of a parameter, characters.
pub const PARAMETER_NAME_CHARS: usize = 128;
/// Further attempts.
pub const RETRIES: u32 = 100;
/// Batches of a job at once.
pub const CONCURRENT: u32 = 100_000;
/// From the end of an attempt to the next, seconds.
pub const RETRY_INTERVAL_S: u32 = 7 * 86_400;
/// How late a fire may be, seconds. None is made up for after more than that anyway.
pub const LATENESS_S: u32 = 7 * 86_400;
/// How long something may be waited for, or run, seconds.
pub const TIMEOUT_S: u32 = 366 * 86_400;
/// From the base time of a period to the earliest start, minutes.
pub const EARLIEST_START_MINUTES: u32 = 366 * 24 * 60;
/// Exit codes of one meaning.
pub const EXIT_CODES: usize = 64;
/// Memory of a batch, MiB.
pub const MEMORY_MB: u32 = 1 << 24;
/// Processor time of an attempt, percent of one processor.
pub const CPU_PERCENT: u32 = 100_000;
/// Processes and threads of an attempt.
pub const PROCESSES: u32 = 1 << 22;
/// Open files of a process of an attempt, the least and the most. With fewer hardly a program starts.
pub const OPEN_FILES: (u32, u32) = (16, 1 << 20);
/// What the log keeps of an attempt's output, MiB.
pub const OUTPUT_MB: u32 = 1 << 20;
/// Of the id of external work.
pub const EXTERNAL_WORK_ID_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._:/@-]*$";
/// The id of external work, characters.
pub const EXTERNAL_WORK_ID_CHARS: usize = 200;
/// Ids of external work of one attempt that are on record.
pub const EXTERNAL_WORK: usize = 100;
/// Ids of external work in one heartbeat.
pub const EXTERNAL_WORK_IN_HEARTBEAT: usize = 100;
/// What attempts that run want too much of, in one heartbeat.
pub const EXCESSES: usize = 64;
/// How often a batch is tried again for want of memory on its host without using up a retry.
pub const SPARED_RETRIES: u32 = 5;
/// Pools of one job.
pub const POOL_USES: usize = 8;

/// Slots of a pool.
pub const POOL_SLOTS: u32 = 1_000_000;
/// Starts of a pool's rate.
pub const POOL_STARTS: u32 = 1_000;
/// The span of a pool's rate, seconds.
pub const POOL_INTERVAL_S: u32 = 86_400;

/// Batches of a rerun at once.
pub const RERUN_CONCURRENCY: u32 = 1_000;
/// Jobs that one request for a rerun names.
pub const RERUN_NAMED: usize = 400;

/// Groups of a key.
pub const KEY_GROUPS: usize = 256;
/// Accounts of a key.
pub const KEY_ACCOUNTS: usize = 64;

/// What a pull task is called, characters.
pub const TASK_NAME_CHARS: usize = 128;
/// How often an occurrence of a pull task is given out.
pub const DISPATCH_TIMES: u32 = 1_000_000;
/// The shortest lease of a grant, seconds.
pub const LEASE_LEAST_S: u32 = 5;
/// The longest lease of a grant, seconds.
pub const LEASE_MOST_S: u32 = 604_800;
/// What came of a pull task, bytes.
pub const RESULT_BYTES: usize = 4_096;
/// From one occurrence to the next, minutes.
pub const ROTATION_MINUTES: u32 = 366 * 24 * 60;
/// From one occurrence to the next, days.
pub const ROTATION_DAYS: u32 = 366;
/// Fields of a template.
pub const FIELDS: usize = 64;
/// The name of a field, characters.
pub const FIELD_NAME_CHARS: usize = 128;
/// Users of one call.
pub const USERS: usize = 500;

/// Whether a setting is within its range, both ends among it.
///
/// # Errors
/// The setting, its value and the range, for people.
pub fn within(name: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name} is {value}; it must be {least} to {most}"))
    }
}

/// The schema of a parameter's name.
pub fn parameter_name() -> serde_json::Value {
    serde_json::json!({"minLength": 1, "maxLength": PARAMETER_NAME_CHARS, "pattern": PARAMETER_PATTERN})
}

const DAY_MS: u64 = 86_400_000;

/// The longest window of a right to start, milliseconds. For so long a worker remembers what it has spoken of (rule 8).
pub const START_WINDOW_MS: u64 = 15_000;

/// Of an address of mail.
pub const MAIL_PATTERN: &str = r"^[^\x00-\x20\x7f-\x9f@<>,;:]+@[^\x00-\x20\x7f-\x9f@<>,;:]+$";
/// An address of mail, bytes.
pub const MAIL_BYTES: usize = 254;
/// Of a phone number.
pub const PHONE_PATTERN: &str = r"^\+[1-9][0-9]{4,14}$";
/// The full name of a person, the title of a department, characters.
pub const PERSON_TEXT_CHARS: usize = 200;
/// A job by its names, `group/name`, bytes.
pub const JOB_PATH_BYTES: usize = 512;
/// A business type that grants can be on, characters.
pub const BUSINESS_NAME_CHARS: usize = 200;
/// Grants of one person or department.
pub const GRANTS: usize = 64;
/// Departments of one person.
pub const PERSON_DEPARTMENTS: usize = 16;
/// Of the id of what a person signs in with.
pub const CREDENTIAL_ID_PATTERN: &str = "^[a-z0-9]{16}$";
/// The id of what a person signs in with, characters.
pub const CREDENTIAL_ID_CHARS: usize = 16;
/// What a person calls a token, characters.
pub const CREDENTIAL_TITLE_CHARS: usize = 100;
/// Uses of credentials in one report.
pub const CREDENTIAL_USES: usize = 100;
/// Days of a turn of a rota.
pub const ROTA_DAYS: u16 = 366;
/// Turns of a rota.
pub const ROTA_TURNS: usize = 200;
/// People of one turn.
pub const ROTA_PEOPLE: usize = 8;
/// Overrides of a rota.
pub const ROTA_OVERRIDES: usize = 200;
/// Changes of the directory in one command.
pub const DIRECTORY_CHANGES: usize = 200;
/// Refusals that are reported at once.
pub const REFUSALS: usize = 100;

/// Bounds of a group's settings: the field, the least and the most.
pub mod settings {
    use super::DAY_MS;

    /// `start_timeout_ms`
    pub const START_TIMEOUT_MS: (u64, u64) = (100, DAY_MS);
    /// `lost_after_ms`
    pub const LOST_AFTER_MS: (u64, u64) = (500, DAY_MS);
    /// `lease_ms`
    pub const LEASE_MS: (u64, u64) = (1_000, 7 * DAY_MS);
    /// `lease_margin_ms`
    pub const LEASE_MARGIN_MS: (u64, u64) = (0, DAY_MS);
    /// `kill_grace_ms`
    pub const KILL_GRACE_MS: (u64, u64) = (0, DAY_MS);
    /// `quality_retry_ms`
    pub const QUALITY_RETRY_MS: (u64, u64) = (100, 7 * DAY_MS);
    /// `quality_alarm_after`
    pub const QUALITY_ALARM_AFTER: (u64, u64) = (1, 1_000);
    /// `max_load_percent`
    pub const MAX_LOAD_PERCENT: (u64, u64) = (0, 100_000);
    /// `min_free_memory_percent`
    pub const MIN_FREE_MEMORY_PERCENT: (u64, u64) = (0, 90);
    /// `pull_window_hours`
    pub const PULL_WINDOW_HOURS: (u64, u64) = (1, 23);
    /// `pull_rotating_limit`
    pub const PULL_ROTATING_LIMIT: (u64, u64) = (1, 1_000);
    /// `pull_retention_days`
    pub const PULL_RETENTION_DAYS: (u64, u64) = (1, 3_650);
}
