//! The shim with real processes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;
use tidemill_executor::{AttemptDir, ExitRecord, KillCause, Lease, News, ShimLimits, ShimSpec, Shims, Tree};
use tidemill_model::{Limits, Token};

use crate::site::left_in;

/// Far above what anything here takes; reached only by a failure.
const BOUND: Duration = Duration::from_secs(30);

pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + BOUND;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not happen within {BOUND:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn boottime_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

pub(crate) const TOKEN: Token = Token(4097);

/// The directory of attempts, with the server of their shims.
pub(crate) struct Fixture {
    dir: TempDir,
    shims: Shims,
}

impl Fixture {
    pub(crate) fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    pub(crate) fn start_in(dir: TempDir) -> Self {
        Self::start_by(vec![env!("CARGO_BIN_EXE_tidemill-shim").to_owned()], dir)
    }

    /// Nobody reads what its processes print.
    pub(crate) fn start_unread() -> Self {
        Self::start_into("| :")
    }

    /// What its processes print goes into a command of the shell.
    pub(crate) fn start_into(pipe: &str) -> Self {
        let script = &format!(r#""$0" "$@" 2>&1 >/dev/null {pipe}"#);
        let command = ["/bin/sh", "-c", script, env!("CARGO_BIN_EXE_tidemill-shim")];
        Self::start_by(command.map(str::to_owned).to_vec(), tempfile::tempdir().unwrap())
    }

    fn start_by(command: Vec<String>, dir: TempDir) -> Self {
        let shims = Shims::start(command, dir.path().to_owned(), Vec::new()).unwrap();
        Self { dir, shims }
    }

    pub(crate) fn attempt_dir(&self, token: Token) -> PathBuf {
        self.dir.path().join(token.to_string())
    }

    /// A shim for an attempt whose directory is there.
    fn shim(&self, token: Token, spec: &ShimSpec) -> UnixStream {
        let mut worker = self.shims.begin(token).unwrap();
        worker.set_read_timeout(Some(BOUND)).unwrap();
        writeln!(worker, "{}", serde_json::to_string(spec).unwrap()).unwrap();
        worker
    }

    pub(crate) fn begin(&self, token: Token, spec: &ShimSpec) -> UnixStream {
        fs::create_dir_all(self.attempt_dir(token).join("work")).unwrap();
        self.shim(token, spec)
    }
}

/// What a shim says until it is gone, but where its processes are.
pub(crate) fn hear_all(mut worker: &UnixStream) -> Vec<News> {
    let mut said = Vec::new();
    worker.read_to_end(&mut said).unwrap();
    let mut news = News::take(&mut said);
    news.retain(|news| !matches!(news, News::Located(_)));
    assert_eq!(said, b"", "what it says are whole lines");
    news
}

pub(crate) fn script(script: &str) -> ShimSpec {
    let env = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    ShimSpec {
        argv,
        env,
        grace_ms: 10_000,
        lease: None,
        limit_ms: None,
        run_as: None,
        umask: None,
        output_max_bytes: None,
        limits: None,
        external: None,
        mask: Vec::new(),
    }
}

/// One attempt with a server of its own.
pub(crate) struct Attempt {
    pub(crate) fixture: Fixture,
    pub(crate) worker: UnixStream,
}

impl Attempt {
    pub(crate) fn start(spec: &ShimSpec) -> Self {
        Self::start_with(Fixture::start(), spec)
    }

    pub(crate) fn start_with(fixture: Fixture, spec: &ShimSpec) -> Self {
        let worker = fixture.begin(TOKEN, spec);
        Self { fixture, worker }
    }

    pub(crate) fn order(&mut self, line: &str) {
        writeln!(self.worker, "{line}").unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.fixture.attempt_dir(TOKEN).join(name)
    }

    pub(crate) fn record(&self) -> Option<ExitRecord> {
        AttemptDir::new(self.fixture.attempt_dir(TOKEN)).exit_record().unwrap()
    }

    /// The worker is gone.
    pub(crate) fn leave(&self) {
        self.worker.shutdown(Shutdown::Both).unwrap();
    }

    /// The next worker, once the shim waits for it.
    fn connect(&self) -> UnixStream {
        let worker = until("the control socket", || UnixStream::connect(self.path("control")).ok());
        worker.set_read_timeout(Some(BOUND)).unwrap();
        worker
    }

    /// The same, once it is heard that the job runs.
    pub(crate) fn next_worker(&self) -> UnixStream {
        let mut worker = self.connect();
        let mut said = vec![0; b"\"started\"\n".len()];
        worker.read_exact(&mut said).unwrap();
        assert_eq!(News::take(&mut said), [News::Started]);
        worker
    }

    /// Waits for the shim's own end. Nothing of the job is left then.
    pub(crate) fn end(&mut self) -> ExitRecord {
        let news = hear_all(&self.worker);
        assert_eq!(left_in(&self.path("work")), BTreeMap::new(), "they have ended");
        let record = self.record().expect("a shim that has ended has written it down");
        assert_eq!(news.last(), Some(&News::Ended(Box::new(record.clone()))));
        record
    }

    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(self.path("stdout")).unwrap()
    }

    /// A process number that the job wrote into a file of its working directory.
    pub(crate) fn pid(&self, name: &str) -> u32 {
        let file = self.path("work").join(name);
        until(name, || fs::read_to_string(&file).ok()?.strip_suffix('\n')?.parse().ok())
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        // A test that failed half way leaves nothing behind.
        let _ = writeln!(self.worker, "kill 0 asked");
        let _ = self.worker.read_to_end(&mut Vec::new());
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

pub(crate) fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

/// EXE-2: the job's environment is what was given and nothing else; its directory is its own.
#[test]
fn job_has_its_environment_directory_and_session() {
    let mut spec = script("env; pwd; ps -o sid= -p $$ | tr -d ' '; echo $$; echo oops >&2");
    spec.env.insert("TIDEMILL_TOKEN".to_owned(), "a b\nc".to_owned());
    let mut attempt = Attempt::start(&spec);
    assert_eq!(attempt.end().exit_code, Some(0));
    let stdout = attempt.stdout();
    assert!(stdout.contains("TIDEMILL_TOKEN=a b\nc\n"), "{stdout}");
    assert!(!stdout.contains("CARGO"), "{stdout}");
    let lines: Vec<&str> = stdout.lines().rev().take(3).collect();
    assert_eq!(lines[0], lines[1], "leads its own session");
    assert!(lines[2].ends_with("/work"), "{stdout}");
    assert_eq!(fs::read_to_string(attempt.path("stderr")).unwrap(), "oops\n");
}

/// EXE-2: whatever else a job has, as here a bound on its open files, it leads a session of its own, and its shim comes before it for
/// the processor.
#[test]
fn job_with_limits_has_its_session_and_an_ordinary_priority() {
    let own = rustix::process::getpriority_process(None).unwrap();
    let wait = "until test $(ps -o ni= -p $PPID) = -20; do sleep 0.05; done";
    let text = format!("ps -o sid=,ni= -p $$; echo $$ {own}; {wait}");
    let limits =
        ShimLimits { limits: Limits { open_files: Some(64), ..Limits::default() }, tree: Tree::default() };
    for limits in [None, Some(Box::new(limits))] {
        let mut attempt = Attempt::start(&ShimSpec { limits, ..script(&text) });
        assert_eq!(attempt.end().exit_code, Some(0));
        let stdout = attempt.stdout();
        let words: Vec<&str> = stdout.split_whitespace().collect();
        assert_eq!(words[..2], words[2..], "{stdout}");
    }
}

/// EXE-5: a job is asked to end, and so is what it runs in process groups of its own, as `timeout` does: each handles the signal, and
/// none is ended by the kernel since its parent has gone first.
#[test]
fn child_in_another_group_handles_the_request_to_end() {
    // `timeout` hands its own signal on, so that the child may get two.
    let text = "timeout 100 sh -c 'trap \"trap : TERM; echo cleaned; exit 0\" TERM; echo $$ > child; while :; do sleep 0.05; done' & wait";
    for _ in 0..5 {
        let mut attempt = Attempt::start(&script(text));
        attempt.pid("child");
        attempt.order("kill 20000 asked");
        attempt.end();
        assert_eq!(attempt.stdout(), "cleaned\n");
    }
}

/// EXE-3
#[test]
fn exit_code_and_signal_are_told_apart() {
    let record = Attempt::start(&script("exit 7")).end();
    assert_eq!((record.exit_code, record.signal, record.kill_cause), (Some(7), None, None));
    let record = Attempt::start(&script("kill -9 $$")).end();
    assert_eq!((record.exit_code, record.signal, record.kill_cause), (None, Some(9), None));
}

/// TMO-5: what runs longer than it may is asked to end, and then made to, with everything that it began; nobody has
/// to say so.
#[test]
fn attempt_over_its_limit_is_ended_with_its_whole_tree() {
    let mut spec = script("trap '' TERM; sleep 1000 & echo $! > child; while :; do sleep 0.1; done");
    // Long enough for the shell to come so far, however slow this is.
    (spec.limit_ms, spec.grace_ms) = (Some(3_000), 200);
    let mut attempt = Attempt::start(&spec);
    let child = attempt.pid("child");
    let record = attempt.end();
    assert_eq!((record.kill_cause, record.signal), (Some(KillCause::TimedOut), Some(9)));
    assert!(record.duration_ms >= 3_200, "it had its time and its grace: {record:?}");
    assert!(!std::path::Path::new(&format!("/proc/{child}")).exists(), "what it began is gone too");
}

/// TMO-5: what heeds TERM has its grace, and still was too long.
#[test]
fn attempt_over_its_limit_may_end_itself() {
    let mut spec = script("trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done");
    spec.limit_ms = Some(3_000);
    let mut attempt = Attempt::start(&spec);
    let record = attempt.end();
    assert_eq!((record.kill_cause, record.exit_code), (Some(KillCause::TimedOut), Some(0)));
    assert_eq!(attempt.stdout(), "bye\n");
}

#[test]
fn program_that_is_not_there_is_told() {
    let argv = vec!["/does/not/exist".to_owned()];
    let spec = ShimSpec {
        argv,
        env: BTreeMap::new(),
        grace_ms: 1,
        lease: None,
        limit_ms: None,
        run_as: None,
        umask: None,
        output_max_bytes: None,
        limits: None,
        external: None,
        mask: Vec::new(),
    };
    let error = Attempt::start(&spec).end().error.unwrap();
    assert!(error.contains("/does/not/exist") && error.contains("No such file"), "{error}");
}

/// LOG-1: output is not held in memory, whatever its size.
#[test]
fn two_hundred_megabytes_of_output_cost_the_shim_no_memory() {
    let mut attempt = Attempt::start(&script(
        "echo $PPID > shim; head -c 200000000 /dev/zero; touch done; read line < /dev/null; sleep 1000",
    ));
    let done = attempt.path("work/done");
    until("the output", || done.exists().then_some(()));
    let status = fs::read_to_string(format!("/proc/{}/status", attempt.pid("shim"))).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    assert!(peak_kib < 16_384, "peak of the shim: {peak_kib} KiB");
    assert_eq!(fs::metadata(attempt.path("stdout")).unwrap().len(), 200_000_000);
    attempt.order("kill 0 asked");
    attempt.end();
}

/// EXE-7
#[test]
fn time_processor_and_memory_are_measured() {
    let spin = "python3 -c 'b = bytearray(60_000_000); import time; t = time.process_time()\nwhile time.process_time() < t + 0.2: pass'";
    let record = Attempt::start(&script(spin)).end();
    assert_eq!(record.exit_code, Some(0), "{record:?}");
    assert!(record.cpu_ms >= 200 && record.duration_ms >= 200, "{record:?}");
    assert!(record.peak_memory_kib > 58_000, "{record:?}");
}

/// Leaves a process behind that is in a session of its own and whose parents are gone.
const DAEMON: &str = "setsid sh -c 'setsid sh -c \"echo \\$\\$ > daemon.new; mv daemon.new daemon; exec sleep 1000\" & exit 0' & \
     while ! test -e daemon; do sleep 0.01; done";

/// EXE-5: what put itself into another session is still of the tree, and the end is told after its end.
#[test]
fn daemon_left_behind_is_ended_before_the_end_is_told() {
    let mut attempt = Attempt::start(&script(DAEMON));
    let daemon = attempt.pid("daemon");
    let record = attempt.end();
    assert_eq!((record.exit_code, record.kill_cause), (Some(0), None));
    assert!(!is_alive(daemon));
}

/// Leaves a process behind that shows in no way whose it is: its parents are gone, its session, directory and name are others, its
/// environment is empty, and it has nothing open.
pub(crate) const HIDDEN: &str = r#"python3 -c '
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("hidden.new", "w") as file: file.write(f"{os.getpid()}\n")
        os.rename("hidden.new", "hidden")
        os.chdir("/")
        os.closerange(0, 65536)
        os.execve("/bin/sleep", ["[kworker/0:1]", "1000"], {})
    os._exit(0)
'"#;

/// The number of the process that hides, once it does, below its shim.
fn hidden(attempt: &Attempt) -> u32 {
    let [hidden, shim, job] = ["hidden", "shim", "job"].map(|name| attempt.pid(name));
    let place = PathBuf::from(format!("/proc/{hidden}"));
    until("a process that hides", || {
        let stat = fs::read_to_string(place.join("stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let (shim, job) = (shim.to_string(), job.to_string());
        // Shim and job lead a session each.
        let is_apart = fields[1] == shim && ![shim, job].contains(&fields[3].to_owned());
        let is_bare = fs::read(place.join("environ")).unwrap().is_empty()
            && fs::read(place.join("cmdline")).unwrap() == b"[kworker/0:1]\x001000\0"
            && fs::read_link(place.join("cwd")).unwrap().as_os_str() == "/"
            && fs::read_dir(place.join("fd")).unwrap().count() == 0;
        (is_apart && is_bare).then_some(())
    });
    hidden
}

/// EXE-5: a process that hides ends with its attempt, before its end is told, whatever ends it.
#[test]
fn process_that_hides_ends_with_its_attempt() {
    let script_of =
        |tail: &str| script(&format!("echo $PPID > shim; echo $$ > job; mkfifo go; {HIDDEN}; {tail}"));
    type Ending = (&'static str, fn(&mut Attempt), (Option<i32>, Option<KillCause>));
    let endings: [Ending; 4] = [
        ("itself", |attempt| fs::write(attempt.path("work/go"), "5\n").unwrap(), (Some(5), None)),
        ("a kill", |attempt| attempt.order("kill 10000 asked"), (None, Some(KillCause::Asked))),
        (
            "its lease",
            |attempt| attempt.order(&format!("lease {} {}", boottime_ms() + 10, boottime_ms() + 60_000)),
            (None, Some(KillCause::Lease)),
        ),
        (
            "TERM to its shim",
            |attempt| signal(attempt.pid("shim"), Signal::TERM),
            (None, Some(KillCause::WorkerStopped)),
        ),
    ];
    for (name, end, expected) in endings {
        let mut attempt = Attempt::start(&script_of("read code < go; exit $code"));
        let hidden = hidden(&attempt);
        end(&mut attempt);
        let record = attempt.end();
        assert_eq!((record.exit_code, record.kill_cause), expected, "{name}");
        assert!(!PathBuf::from(format!("/proc/{hidden}")).exists(), "{name}");
    }
    // A killed shim tells nothing; its worker hears that it is gone once nothing is left.
    let attempt = Attempt::start(&script_of("exec sleep 1000"));
    let hidden = hidden(&attempt);
    signal(attempt.pid("shim"), Signal::KILL);
    assert_eq!(hear_all(&attempt.worker), [News::Started]);
    assert!(!PathBuf::from(format!("/proc/{hidden}")).exists());
    assert_eq!(attempt.record(), None);
}

/// EXE-5
#[test]
fn kill_ends_the_whole_tree() {
    let mut attempt = Attempt::start(&script("sleep 1000 & echo $! > child; sh -c 'sleep 1000; true'"));
    let child = attempt.pid("child");
    attempt.order("kill 10000 asked");
    let record = attempt.end();
    assert_eq!((record.signal, record.kill_cause), (Some(15), Some(KillCause::Asked)));
    assert!(!is_alive(child));
    assert!(record.duration_ms < 10_000, "TERM was enough: {record:?}");
}

#[test]
fn job_that_ignores_term_is_killed_after_the_grace() {
    let mut attempt = Attempt::start(&script("trap '' TERM; echo $$ > main; while :; do sleep 0.05; done"));
    attempt.pid("main");
    attempt.order("kill 300 asked");
    let record = attempt.end();
    assert_eq!((record.signal, record.kill_cause), (Some(9), Some(KillCause::Asked)));
    assert!(record.duration_ms >= 300, "{record:?}");
}

/// TERM goes to what runs, not to what is then started to clean up.
#[test]
fn job_may_clean_up_within_the_grace() {
    let mut attempt = Attempt::start(&script(
        "trap 'sleep 0.1 && echo cleaned; exit 5' TERM; echo $$ > main; while :; do sleep 0.05; done",
    ));
    attempt.pid("main");
    attempt.order("kill 10000 worker_stopped");
    let record = attempt.end();
    assert_eq!((record.exit_code, record.kill_cause), (Some(5), Some(KillCause::WorkerStopped)));
    assert_eq!(attempt.stdout(), "cleaned\n");
}

/// A stopped process hears no TERM unless it is continued.
#[test]
fn stopped_job_is_ended_too() {
    let mut attempt = Attempt::start(&script("echo $$ > main; kill -STOP $$"));
    let main = attempt.pid("main");
    until("the stop", || {
        let stat = fs::read_to_string(format!("/proc/{main}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.starts_with('T').then_some(())
    });
    attempt.order("kill 10000 asked");
    assert_eq!(attempt.end().signal, Some(15));
}

/// EXE-10: the job goes on when its worker is gone; the next worker finds its shim, hears of its start and end, and can end it.
#[test]
fn job_goes_on_without_its_worker_and_the_next_one_takes_it_over() {
    let mut attempt =
        Attempt::start(&script("mkfifo next; echo $$ > main; read word < next; echo $word; exit 3"));
    let main = attempt.pid("main");
    let mode = |path: PathBuf| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    for _ in 0..2 {
        attempt.leave();
        attempt.worker = attempt.next_worker();
        assert_eq!(mode(attempt.path("control")), 0o600, "no other account may connect");
        assert!(is_alive(main));
    }
    fs::write(attempt.path("work").join("next"), "word\n").unwrap();
    let news = hear_all(&attempt.worker);
    assert!(matches!(&news[..], [News::Ended(record)] if record.exit_code == Some(3)), "{news:?}");
    assert_eq!(attempt.stdout(), "word\n");
    assert!(!attempt.path("control").exists());

    let mut attempt = Attempt::start(&script(&format!("{DAEMON}; sleep 1000")));
    let daemon = attempt.pid("daemon");
    attempt.leave();
    attempt.worker = attempt.next_worker();
    attempt.order("kill 10000 asked");
    assert_eq!(attempt.end().kill_cause, Some(KillCause::Asked));
    assert!(!is_alive(daemon));
}

/// EXE-10: what ends while there is no worker is written down; so is what its limit, or its lease, ends then.
#[test]
fn limit_and_lease_hold_without_a_worker() {
    let leave = |mut spec: ShimSpec, change: &dyn Fn(&mut ShimSpec)| {
        change(&mut spec);
        let attempt = Attempt::start(&spec);
        attempt.pid("main");
        attempt.leave();
        until("the end", || attempt.record())
    };
    let runs = || script("echo $$ > main; exec sleep 1000");
    let lease = |spec: &mut ShimSpec| {
        let now = boottime_ms();
        spec.lease = Some(Lease { term_at_ms: now + 3_000, kill_at_ms: now + 60_000 });
    };
    assert_eq!(leave(runs(), &lease).kill_cause, Some(KillCause::Lease));
    let limit = |spec: &mut ShimSpec| spec.limit_ms = Some(3_000);
    assert_eq!(leave(runs(), &limit).kill_cause, Some(KillCause::TimedOut));
    let ended = leave(script("echo $$ > main; sleep 1; exit 7"), &|_| {});
    assert_eq!((ended.exit_code, ended.kill_cause), (Some(7), None));
}

/// EXE-10: a kill that the worker passed on before it was gone binds.
#[test]
fn ordered_kill_binds_when_the_worker_is_gone() {
    let mut attempt = Attempt::start(&script("trap '' TERM; echo $$ > main; while :; do sleep 0.05; done"));
    attempt.pid("main");
    attempt.order("kill 1500 asked");
    attempt.leave();
    let record = until("the end", || attempt.record());
    assert_eq!((record.signal, record.kill_cause), (Some(9), Some(KillCause::Asked)));
}

/// Rule 9: a grace that is longer than the lease does not outlast it.
#[test]
fn lease_ends_what_is_being_killed() {
    let mut spec = script("trap '' TERM; echo $$ > main; while :; do sleep 0.05; done");
    spec.lease = Some(Lease { term_at_ms: boottime_ms() + 3_000, kill_at_ms: boottime_ms() + 3_300 });
    let mut attempt = Attempt::start(&spec);
    attempt.pid("main");
    attempt.order("kill 3600000 asked");
    let record = until("the end", || attempt.record());
    assert_eq!((record.signal, record.kill_cause), (Some(9), Some(KillCause::Asked)));
}

/// EXE-8: where the group holds what runs on a silent worker, an attempt gets a lease without an end, and where it does so no more,
/// one with an end again.
#[test]
fn lease_without_an_end_is_given_and_taken() {
    let mut spec = script("echo $$ > main; exec sleep 1000");
    spec.lease = Some(Lease { term_at_ms: boottime_ms() + 3_000, kill_at_ms: boottime_ms() + 3_000 });
    let mut attempt = Attempt::start(&spec);
    attempt.pid("main");
    let forever = Lease::FOREVER;
    attempt.order(&format!("lease {} {}", forever.term_at_ms, forever.kill_at_ms));
    let over = boottime_ms() + 3_500;
    until("a while after the lease", || (boottime_ms() > over).then_some(()));
    assert_eq!(attempt.record(), None);
    attempt.order(&format!("lease {} {}", boottime_ms() + 100, boottime_ms() + 10_000));
    assert_eq!(attempt.end().kill_cause, Some(KillCause::Lease));
}

/// EXE-10: what is in the way of the control socket, or of the record of the end, is waited for, for nobody else tells how it went.
#[test]
fn shim_without_room_tries_again() {
    let mut attempt = Attempt::start(&script("mkfifo go; echo $$ > main; read code < go; exit $code"));
    attempt.pid("main");
    fs::create_dir(attempt.path("control")).unwrap();
    attempt.leave();
    thread::sleep(Duration::from_millis(100));
    fs::remove_dir(attempt.path("control")).unwrap();
    attempt.worker = attempt.next_worker();
    fs::create_dir(attempt.path("exit.json.new")).unwrap();
    attempt.leave();
    fs::write(attempt.path("work").join("go"), "5\n").unwrap();
    attempt.worker = attempt.connect();
    let news = hear_all(&attempt.worker);
    assert!(matches!(&news[..], [.., News::Ended(record)] if record.exit_code == Some(5)), "{news:?}");

    let without_room = || {
        let attempt = Attempt::start(&script(
            "mkfifo go; echo $PPID > shim; read word < go; mkdir ../exit.json.new; exit 5",
        ));
        let shim = attempt.pid("shim");
        attempt.leave();
        until("the control socket", || attempt.path("control").exists().then_some(()));
        fs::write(attempt.path("work").join("go"), "\n").unwrap();
        until("the room that is missing", || attempt.path("exit.json.new").is_dir().then_some(()));
        thread::sleep(Duration::from_millis(300));
        assert_eq!(attempt.record(), None);
        (attempt, shim)
    };
    // Told to end, it does not wait any longer.
    let (attempt, shim) = without_room();
    signal(shim, Signal::TERM);
    until("the end of the shim", || (!is_alive(shim)).then_some(()));
    assert_eq!(attempt.record(), None);
    let (attempt, _) = without_room();
    fs::remove_dir(attempt.path("exit.json.new")).unwrap();
    assert_eq!(until("the end", || attempt.record()).exit_code, Some(5));
}

/// EXE-5, EXE-10: what a shim leaves that is killed after it was taken over is ended before anybody can take the attempt for ended.
#[test]
fn tree_of_a_killed_shim_is_ended_before_its_lock_is_free() {
    let bare = DAEMON.replace("exec sleep", "exec env -i sleep");
    let mut attempt = Attempt::start(&script(&format!("echo $PPID > shim; {bare}; sleep 1000")));
    let (daemon, shim) = (attempt.pid("daemon"), attempt.pid("shim"));
    attempt.leave();
    attempt.worker = attempt.next_worker();
    signal(shim, Signal::KILL);
    until("the end of the shim", || (!is_alive(shim)).then_some(()));
    let directory = fs::File::open(attempt.fixture.attempt_dir(TOKEN)).unwrap();
    rustix::fs::flock(&directory, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(!is_alive(daemon));
}

/// A control socket that its job has removed is made again; where that cannot be, nobody could take the job over, and it ends.
#[test]
fn job_that_cannot_be_found_any_more_ends() {
    let mut attempt = Attempt::start(&script("echo $$ > main; exec sleep 1000"));
    let main = attempt.pid("main");
    attempt.leave();
    until("the control socket", || attempt.path("control").exists().then_some(()));
    fs::remove_file(attempt.path("control")).unwrap();
    attempt.worker = attempt.next_worker();
    assert!(is_alive(main));
    attempt.leave();
    let directory = attempt.fixture.attempt_dir(TOKEN);
    until("the directory's end", || {
        let removed = fs::remove_dir_all(&directory);
        (removed.is_ok() || !directory.exists()).then_some(())
    });
    until("the end of the job", || (!is_alive(main)).then_some(()));
}

/// Rule 9: the lease holds without the worker doing anything.
#[test]
fn tree_ends_when_the_lease_is_over_and_a_renewal_moves_that() {
    let now = boottime_ms();
    let mut spec = script("trap '' TERM; echo $$ > main; while :; do sleep 0.05; done");
    spec.grace_ms = 50;
    spec.lease = Some(Lease { term_at_ms: now + 60_000, kill_at_ms: now + 60_001 });
    let mut attempt = Attempt::start(&spec);
    attempt.pid("main");
    let renewed = boottime_ms() + 400;
    // An older time does not shorten it, a newer one lengthens it: here from 60 s on.
    attempt.order("lease 1 2");
    attempt.order(&format!("lease {} {}", now + 61_000, now + 62_000));
    attempt.order("nonsense");
    until("a while after the older time", || (boottime_ms() > renewed).then_some(()));
    assert_eq!(attempt.record(), None);
    drop(attempt);

    // The shell has to ignore TERM by then.
    spec.lease = Some(Lease { term_at_ms: boottime_ms() + 3_000, kill_at_ms: boottime_ms() + 3_300 });
    let mut attempt = Attempt::start(&spec);
    let record = attempt.end();
    assert_eq!((record.signal, record.kill_cause), (Some(9), Some(KillCause::Lease)));
}

/// A shim that is told to end, as when the machine stops, ends its job first.
#[test]
fn shim_that_gets_term_ends_its_job() {
    let mut attempt = Attempt::start(&script("echo $PPID > shim; echo $$ > main; exec sleep 1000"));
    let main = attempt.pid("main");
    signal(attempt.pid("shim"), Signal::TERM);
    assert_eq!(attempt.end().kill_cause, Some(KillCause::WorkerStopped));
    assert!(!is_alive(main));
}

/// Rule 8: what was started once is never started again.
#[test]
fn second_shim_of_an_attempt_starts_nothing() {
    let spec = script("echo run >> runs");
    let mut attempt = Attempt::start(&spec);
    attempt.end();
    assert_eq!(hear_all(&attempt.fixture.shim(TOKEN, &spec)), []);
    assert_eq!(fs::read_to_string(attempt.path("work/runs")).unwrap(), "run\n");
}

#[test]
fn second_shim_beside_a_running_one_starts_nothing() {
    let spec = script("echo run >> runs; echo $$ > main; exec sleep 1000");
    let mut attempt = Attempt::start(&spec);
    attempt.pid("main");
    assert_eq!(hear_all(&attempt.fixture.shim(TOKEN, &spec)), []);
    attempt.order("kill 0 asked");
    attempt.end();
    assert_eq!(fs::read_to_string(attempt.path("work/runs")).unwrap(), "run\n");
}

#[test]
fn worker_hears_that_the_job_runs_and_how_it_ended() {
    let attempt = Attempt::start(&script("exit 0"));
    let news = hear_all(&attempt.worker);
    assert_eq!(news, [News::Started, News::Ended(Box::new(attempt.record().unwrap()))]);
}

/// Rule 9: time that passed before the shim could begin counts too.
#[test]
fn lease_that_is_over_starts_nothing() {
    let mut spec = script("echo run >> runs");
    spec.lease = Some(Lease { term_at_ms: boottime_ms(), kill_at_ms: boottime_ms() });
    let mut attempt = Attempt::start(&spec);
    assert_eq!(attempt.end().kill_cause, Some(KillCause::Lease));
    assert!(!attempt.path("work/runs").exists());
}

#[test]
fn half_an_order_starts_nothing() {
    let fixture = Fixture::start();
    fs::create_dir_all(fixture.attempt_dir(TOKEN).join("work")).unwrap();
    let mut worker = fixture.shims.begin(TOKEN).unwrap();
    let spec = serde_json::to_string(&script("exit 0")).unwrap();
    worker.write_all(spec.as_bytes()).unwrap();
    worker.shutdown(Shutdown::Write).unwrap();
    assert_eq!(hear_all(&worker), []);
    assert!(!fixture.attempt_dir(TOKEN).join("stdout").exists());
}

/// EXE-5: nothing tells whose it was but that it is nobody's: it is in a session of its own, its parents are
/// gone, and its environment is empty.
#[test]
fn tree_of_a_killed_shim_is_ended_before_its_socket() {
    let fixture = Fixture::start();
    let mut other = fixture.begin(Token(8193), &script("echo $$ > pid; exec sleep 1000"));
    let file = fixture.attempt_dir(Token(8193)).join("work").join("pid");
    let main = until("the other job", || fs::read_to_string(&file).ok()?.strip_suffix('\n')?.parse().ok());
    let bare = DAEMON.replace("exec sleep", "exec env -i sleep");
    let attempt = Attempt {
        worker: fixture.begin(TOKEN, &script(&format!("{bare}; kill -9 $PPID; sleep 1000"))),
        fixture,
    };
    let daemon = attempt.pid("daemon");
    assert!(!hear_all(&attempt.worker).iter().any(|news| matches!(news, News::Ended(_))));
    assert!(!is_alive(daemon));
    assert_eq!(attempt.record(), None);
    assert!(is_alive(main), "the shim of another attempt and its job go on");
    writeln!(other, "kill 0 asked").unwrap();
    hear_all(&other);
}

#[test]
fn killed_server_takes_no_shim_with_it_and_is_replaced() {
    let mut attempt = Attempt::start(&script("echo $$ > main; exec sleep 1000"));
    let main = attempt.pid("main");
    let server = attempt.fixture.shims.server_id();
    signal(server, Signal::KILL);
    until("the end of the server", || (!is_alive(server)).then_some(()));
    let next = attempt.fixture.begin(Token(8193), &script("exit 0"));
    assert!(matches!(hear_all(&next)[..], [News::Started, News::Ended(_)]));
    assert_ne!(attempt.fixture.shims.server_id(), server);
    assert!(is_alive(main));
    attempt.order("kill 10000 asked");
    assert_eq!(attempt.end().kill_cause, Some(KillCause::Asked));
}

/// What cannot be started is told, and nothing else suffers.
#[test]
fn server_without_room_for_another_socket_goes_on() {
    let mut attempt = Attempt::start(&script("echo $$ > main; exec sleep 1000"));
    attempt.pid("main");
    let server = Pid::from_raw(attempt.fixture.shims.server_id().try_into().unwrap());
    let limit = Rlimit { current: Some(5), maximum: Some(64) };
    prlimit(server, Resource::Nofile, limit).unwrap();
    let other = attempt.fixture.shims.begin(Token(8193)).unwrap();
    assert_eq!(hear_all(&other), []);
    let limit = Rlimit { current: Some(64), maximum: Some(64) };
    prlimit(server, Resource::Nofile, limit).unwrap();
    let next = attempt.fixture.begin(Token(12289), &script("exit 0"));
    assert!(matches!(hear_all(&next)[..], [News::Started, News::Ended(_)]));
    attempt.order("kill 0 asked");
    attempt.end();
}

/// It keeps more of each shim than the limit of jobs may have room for.
#[test]
fn server_has_more_descriptors_than_jobs_may() {
    let fixture = Fixture::start();
    let server = Pid::from_raw(fixture.shims.server_id().try_into().unwrap());
    prlimit(server, Resource::Nofile, Rlimit { current: Some(16), maximum: Some(64) }).unwrap();
    let attempts: Vec<_> = (1..=10)
        .map(|number| {
            let token = Token(4096 * number + 1);
            (token, fixture.begin(token, &script("ulimit -n; ulimit -Hn; echo > up; exec sleep 1000")))
        })
        .collect();
    for (token, mut worker) in attempts {
        let dir = fixture.attempt_dir(token);
        until("the job", || dir.join("work").join("up").exists().then_some(()));
        writeln!(worker, "kill 0 asked").unwrap();
        hear_all(&worker);
        assert_eq!(fs::read_to_string(dir.join("stdout")).unwrap(), "16\n64\n");
    }
}

/// It waits for its shims, since only it can end what a killed one leaves.
#[test]
fn server_ends_after_its_worker_and_its_shims() {
    let fixture = Fixture::start();
    let server = fixture.shims.server_id();
    let mut worker = fixture.begin(TOKEN, &script("echo $$ > pid; exec sleep 1000"));
    let pid = fixture.attempt_dir(TOKEN).join("work").join("pid");
    until("the job", || pid.exists().then_some(()));
    // The directory stays until the end.
    let Fixture { dir: _dir, shims } = fixture;
    drop(shims);
    assert!(is_alive(server));
    writeln!(worker, "kill 0 asked").unwrap();
    assert!(matches!(hear_all(&worker)[..], [News::Started, News::Ended(_)]));
    until("the end of the server", || (!is_alive(server)).then_some(()));
}
