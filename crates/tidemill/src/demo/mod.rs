//! `tidemill demo`: everything in one process, doing real work, told on the terminal while it happens.
//!
//! A client like any other: it applies the example's jobs, runs the first, and looks at the batches.

mod example;
mod progress;

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use serde_json::{Value, json};
use tidemill_cli::{Done, Exit, Failure, Global, JobFiles, Query, Server, Target, apply_jobs, output};
use tidemill_model::Timestamp;

use crate::cli::DemoArgs;
use crate::config::{self, Flag, Settings};
use crate::privacy;
use crate::roles::{self, Standalone};
use example::Workplace;
use progress::{Batch, Progress, Standing, seconds, standing};

/// Where everything goes if nothing else is said.
const DATA: &str = "tidemill-demo";
/// The worker group of the example's jobs.
const GROUP: &str = "demo";
/// The job that the others wait for, and the one that can be broken.
const FIRST: &str = "check-extract";
const BREAKABLE: &str = "message-words";
/// `--once` gives up after this.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two looks, while something goes on and while nothing does.
const BUSY_LOOK: Duration = Duration::from_millis(50);
const IDLE_LOOK: Duration = Duration::from_secs(1);
/// Batches looked at: a day and more of hourly runs of seven jobs.
const BATCHES: usize = 200;

/// Runs the demo.
pub(crate) fn run(global: &Global, args: &DemoArgs) -> Done<Exit> {
    let settings = settings(global, args)?;
    privacy::begin();
    privacy::make_dir(&settings.data_dir)?;
    log_to_file(&settings)?;
    privacy::close(&settings);
    let workplace = Workplace::prepare(&settings.data_dir)?;
    roles::raise_descriptors()?;
    match args.breaks {
        Some(_) => workplace.set_broken(true)?,
        None if args.fix => workplace.set_broken(false)?,
        None => {}
    }
    let stop = roles::on_signal()?;
    let standalone = Standalone::start(&settings, &stop)?;
    let outcome =
        Demo::new(&settings, &standalone, workplace, args).and_then(|demo| demo.run(&standalone, &stop));
    let stopped = standalone.stop();
    let exit = outcome?;
    stopped.map(|()| exit)
}

fn settings(global: &Global, args: &DemoArgs) -> Done<Settings> {
    let mut flags = vec![Flag::new("executor.group", GROUP, "demo")];
    if global.data.is_none() {
        flags.push(Flag::new("data_dir", DATA, "demo"));
    }
    match &args.listen {
        Some(listen) => flags.push(Flag::new("api.listen", listen, "--listen")),
        // Something else may listen where this would by default; any other port does as well.
        None => {
            if std::net::TcpListener::bind(Settings::default().api.listen).is_err() {
                flags.push(Flag::new("api.listen", "127.0.0.1:0", "demo"));
            }
        }
    }
    Ok(config::from_command_line(global, flags)?.settings)
}

/// Log lines go to a file: the terminal tells the story.
fn log_to_file(settings: &Settings) -> Done {
    let path = settings.data_dir.join("tidemill.log");
    let file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(|error| Failure::caused(format!("cannot write {}", path.display()), &error))?;
    let filter = roles::log_filter(settings)?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Mutex::new(file))
        .log_internal_errors(false)
        .init();
    Ok(())
}

struct Demo {
    server: Server,
    workplace: Workplace,
    jobs: Vec<String>,
    time: Timestamp,
    once: bool,
    /// How to call this program with this data directory.
    call: String,
    data_dir: PathBuf,
}

impl Demo {
    /// Applies the jobs and sets the pipeline going.
    fn new(
        settings: &Settings,
        standalone: &Standalone,
        workplace: Workplace,
        args: &DemoArgs,
    ) -> Done<Self> {
        let server = Server::new(Target::find(Some(standalone.url()), None, &settings.of_clients())?)?;
        greet(standalone.url(), settings, &workplace);
        let files = JobFiles::read(&workplace.jobs_file())?;
        let applied = apply_jobs(&server, &files, &[], false)?;
        let jobs = files.jobs.iter().filter_map(|job| job["name"].as_str()).map(str::to_owned).collect();
        let position = applied["position"].as_str().unwrap_or_default().to_owned();
        let program = std::env::args().next().unwrap_or_else(|| "tidemill".to_owned());
        let mut demo = Self {
            server,
            workplace,
            jobs,
            time: Timestamp::UNIX_EPOCH,
            once: args.once,
            call: format!("{program} --data {}", settings.data_dir.display()),
            data_dir: settings.data_dir.clone(),
        };
        demo.time =
            if args.fix { demo.rerun_broken()? } else { demo.run_first(&position, args.breaks.is_some())? };
        Ok(demo)
    }

    /// Runs the first job by hand; the others follow it. Where this hour has its batches already, nothing is
    /// left to do, or with `another` the newest hour before it that has none is taken.
    fn run_first(&self, position: &str, another: bool) -> Done<Timestamp> {
        let path = format!("/api/groups/{GROUP}/jobs/{FIRST}");
        let job = self.server.get(&path, &[("at_least", position.to_owned())])?;
        let batches = self.batches()?;
        let mut hour = this_hour();
        if batches.iter().any(|batch| batch.logical_time == hour) {
            if !another {
                return Ok(hour);
            }
            hour = hour_without_batches(&batches, hour);
        }
        let path = format!("/api/jobs/{}/run", job["id"]);
        let answer = self.server.post(&path, Some(&json!({ "logical_time": hour, "concurrent": true })))?;
        self.await_sight(&answer)?;
        Ok(hour)
    }

    /// Runs the newest failed batch of the breakable job again.
    fn rerun_broken(&self) -> Done<Timestamp> {
        let batches = self.batches()?;
        let runs = batches.iter().filter(|batch| batch.job_name == BREAKABLE);
        let newest = runs.max_by_key(|batch| (batch.logical_time, batch.run));
        match newest {
            Some(batch) if batch.result.as_deref() == Some("failed") => {
                let answer = self.server.post(&format!("/api/batches/{}/rerun", batch.id), None)?;
                self.await_sight(&answer)?;
                output::line(format!(
                    "{BREAKABLE} is fixed, and its failed batch {} runs again.\n",
                    batch.id
                ));
                Ok(batch.logical_time)
            }
            _ => Err(Failure::new(
                Exit::Refused,
                format!("no failed batch of {BREAKABLE} is there to run again"),
            )
            .hint(format!("break it first: `tidemill demo --break {BREAKABLE}`"))),
        }
    }

    /// Waits until reads show this write.
    fn await_sight(&self, answer: &Value) -> Done {
        let position = answer["position"].as_str().unwrap_or_default().to_owned();
        let query = [("limit", "1".to_owned()), ("at_least", position)];
        self.server.get("/api/batches", &query).map(drop)
    }

    fn batches(&self) -> Done<Vec<Batch>> {
        let query: Query<'_> = vec![("group", GROUP.to_owned())];
        let mut answer = self.server.list("/api/batches", &query, BATCHES)?;
        serde_json::from_value(answer["items"].take()).map_err(|error| {
            Failure::caused("the server's batches are of another form than this program's", &error)
        })
    }

    fn run(&self, standalone: &Standalone, stop: &Receiver<()>) -> Done<Exit> {
        let begun = Instant::now();
        let mut progress = Progress::default();
        let mut told = None;
        loop {
            if standalone.has_ended() {
                return Err(Failure::new(Exit::Failure, "a role has ended by itself")
                    .hint(format!("see {}", self.data_dir.join("tidemill.log").display())));
            }
            let batches = self.batches()?;
            progress.lines(&batches).into_iter().for_each(output::line);
            let now = standing(&batches, &self.jobs, self.time);
            if told.as_ref() != Some(&now) {
                if let Some(exit) = self.tell(&now, &batches)
                    && self.once
                {
                    return Ok(exit);
                }
                told = Some(now.clone());
            }
            if self.once && begun.elapsed() > PATIENCE {
                return Err(Failure::new(Exit::Failure, "the pipeline did not end within 5 minutes")
                    .hint(format!("see {}", self.data_dir.join("tidemill.log").display())));
            }
            let look = if now == Standing::Going { BUSY_LOOK } else { IDLE_LOOK };
            if !matches!(stop.recv_timeout(look), Err(crossbeam_channel::RecvTimeoutError::Timeout)) {
                return Ok(Exit::Success);
            }
        }
    }

    /// Tells how the pipeline ended, if it has, and what to try next.
    fn tell(&self, standing: &Standing, batches: &[Batch]) -> Option<Exit> {
        match standing {
            Standing::Going => None,
            Standing::Done { took } => {
                let (count, time) = (self.jobs.len(), self.time);
                output::line(format!("\nAll {count} batches for {time} succeeded, in {}.", seconds(*took)));
                self.tell_next(&[
                    ("what ran", "job ls".to_owned()),
                    ("its batches", "batch ls".to_owned()),
                    ("its history", "events tail --from start --limit 20".to_owned()),
                ]);
                let result = self.workplace.database();
                output::line(format!(
                    "  the result     sqlite3 {} 'SELECT * FROM authors'",
                    result.display()
                ));
                output::line(format!("  a failure      touch {}", self.workplace.break_file().display()));
                let free = hour_without_batches(batches, self.time);
                output::line(format!(
                    "                 {} job run {GROUP}/{FIRST} --logical-time {free}",
                    self.call
                ));
                Some(Exit::Success)
            }
            Standing::Stuck { failed, waiting } => {
                let names = |batches: &[Batch]| {
                    batches.iter().map(|batch| batch.job_name.as_str()).collect::<Vec<_>>().join(", ")
                };
                output::line(format!("\n{} failed; {} cannot run.", names(failed), names(waiting)));
                let mut next = Vec::new();
                for batch in failed {
                    next.push(("why it failed", format!("batch logs {} --stderr", batch.id)));
                }
                for batch in waiting.iter().take(1) {
                    next.push(("why it waits", format!("batch why {}", batch.id)));
                }
                self.tell_next(&next);
                let mut what = "then";
                if self.workplace.break_file().exists() {
                    output::line(format!("  the fix        rm {}", self.workplace.break_file().display()));
                    what = "";
                }
                for batch in failed {
                    output::line(format!("  {what:<13}  {} batch rerun {} --wait", self.call, batch.id));
                }
                Some(Exit::BatchFailed)
            }
        }
    }

    fn tell_next(&self, commands: &[(&str, String)]) {
        if !self.once {
            output::line("It goes on every hour, until Ctrl-C. Try in another terminal, in this directory:");
        } else {
            output::line("`tidemill demo` without --once goes on serving. Then try, in this directory:");
        }
        for (what, command) in commands {
            output::line(format!("  {what:<13}  {} {command}", self.call));
        }
    }
}

fn greet(address: &str, settings: &Settings, workplace: &Workplace) {
    output::line(format!(
        "Tidemill: seven jobs over the history of a git repository, in one process.\n\n  \
         address  {address}\n  data     {}\n  input    {}\n",
        settings.data_dir.display(),
        workplace.input,
    ));
}

/// The newest hour before `hour` that has no batch of the demo's.
fn hour_without_batches(batches: &[Batch], hour: Timestamp) -> Timestamp {
    let mut free = hour;
    while batches.iter().any(|batch| batch.logical_time == free) {
        free = free.saturating_sub(jiff::SignedDuration::from_hours(1)).unwrap_or(free);
    }
    free
}

/// The hour that it is, UTC.
fn this_hour() -> Timestamp {
    let now = tidemill_journal::now().as_second();
    Timestamp::from_second(now - now.rem_euclid(3600)).unwrap_or(Timestamp::UNIX_EPOCH)
}
