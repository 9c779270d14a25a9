//! The programs in Python that pull (tests/python/pull_workers.py): the client package is built and installed as others get it, and two
//! processes work with it, one with threads and one with asyncio.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::adder;
use crate::command::run;
use crate::doings::{Counts, Step};

const SCRIPT: &str = "tests/python/pull_workers.py";
const FORMS: [&str; 2] = ["threads", "asyncio"];
/// A pull waits for 5 s at an interface, and a call is tried again for some seconds more.
const STOP: Duration = Duration::from_secs(60);

/// The client package, installed for this run.
pub(crate) struct Package {
    python: PathBuf,
    script: PathBuf,
    dir: PathBuf,
}

/// The processes that work with it. They end when this is dropped.
pub(crate) struct Workers {
    dir: PathBuf,
    processes: Vec<Process>,
}

struct Process {
    form: &'static str,
    child: Child,
}

impl Package {
    /// Builds the wheel with this Python and installs it, with what it needs, in `dir`.
    ///
    /// # Errors
    /// There is no such Python, or the wheel cannot be built or installed; never is anything left out for it.
    pub(crate) fn install(python: &Path, dir: &Path) -> Result<Self> {
        let script = Path::new(SCRIPT).canonicalize();
        let script = script.with_context(|| format!("{SCRIPT} is missing: run this in the checkout"))?;
        fs::create_dir_all(dir)?;
        let dir = dir.canonicalize()?;
        let mut command = Command::new(python);
        command.arg(&script).arg("install").arg(&dir);
        let installed = run(&mut command).with_context(|| missing(python))?;
        let python = PathBuf::from(installed.trim());
        ensure!(python.is_file(), "{SCRIPT} install has made no Python: {installed:?}");
        Ok(Self { python, script, dir })
    }

    /// Workers for so many users, in parts that speak to one of these servers each.
    ///
    /// # Errors
    /// A process cannot be started.
    pub(crate) fn start(&self, servers: &[String], key: &str, workers: u64, logs: &Path) -> Result<Workers> {
        let users: Vec<_> = adder::users(workers).collect();
        let mut started = Workers { dir: self.dir.clone(), processes: Vec::new() };
        let parts = users.chunks(users.len().div_ceil(FORMS.len()).max(1));
        for ((form, users), server) in FORMS.into_iter().zip(parts).zip(servers.iter().cycle()) {
            let mut command = Command::new(&self.python);
            command.arg(&self.script).arg(form).arg(&self.dir).args(users);
            command.env("TIDEMILL_SERVER", server).env("TIDEMILL_KEY", key).stdin(Stdio::null());
            command.stdout(File::create(counts_file(&self.dir, form))?);
            command.stderr(File::create(logs.join(format!("python-{form}.log")))?);
            let child = command.spawn().with_context(|| format!("cannot start {}", self.python.display()))?;
            started.processes.push(Process { form, child });
        }
        Ok(started)
    }
}

impl Workers {
    /// Asks all of them to stop, and gives what they say that they have done, all together.
    ///
    /// # Errors
    /// One has ended before, does not end, or says nothing.
    pub(crate) fn stop(&mut self) -> Result<Counts> {
        for Process { form, child } in &mut self.processes {
            let ended = child.try_wait()?;
            ensure!(ended.is_none(), "pull workers with {form} ended by themselves: {ended:?}");
            kill_process(Pid::from_child(child), Signal::TERM)?;
        }
        let mut sum = Counts::default();
        for Process { form, child } in &mut self.processes {
            let status = end(form, child)?;
            ensure!(status.success(), "pull workers with {form} were asked to stop, and ended with {status}");
            let told = fs::read_to_string(counts_file(&self.dir, form))?;
            let counts: Counts = serde_json::from_str(&told).with_context(|| format!("{form}: {told:?}"))?;
            sum.completed += counts.completed;
            sum.failed += counts.failed;
            sum.late += counts.late;
            sum.returned += counts.returned;
        }
        Ok(sum)
    }

    /// All that they did.
    ///
    /// # Errors
    /// A line of another form: two writes went into each other.
    pub(crate) fn steps(&self) -> Result<Vec<Step>> {
        let lines = fs::read_to_string(self.dir.join("witness"))?;
        lines.lines().map(|line| Step::parse(line).map_err(|line| anyhow!("witness: {line:?}"))).collect()
    }
}

/// Whether this Python runs at all; the rest is seen when it is used.
///
/// # Errors
/// It does not.
pub(crate) fn look(python: &Path) -> Result<()> {
    run(Command::new(python).arg("--version")).with_context(|| missing(python)).map(drop)
}

fn missing(python: &Path) -> String {
    format!(
        "pull workers need clients/python installed, which the Python {} cannot do; \
         TIDEMILL_TEST_PYTHON, or --python, names another",
        python.display()
    )
}

fn counts_file(dir: &Path, form: &str) -> PathBuf {
    dir.join(format!("{form}.counts"))
}

fn end(form: &str, child: &mut Child) -> Result<ExitStatus> {
    let begun_at = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begun_at.elapsed() > STOP {
            bail!("pull workers with {form} do not stop within {STOP:?}");
        }
        thread::sleep(Duration::from_millis(50));
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for Process { form, child } in &mut self.processes {
            // One that has ended is left as it is.
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                eprintln!("pull workers with {form} are left behind: {error}");
            }
        }
    }
}
