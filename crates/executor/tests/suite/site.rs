//! A worker in a process of its own, which a test can kill or stop, and what is left of it.
//!
//! ```text
//! owner ── memory log ──┐                        ┌── memory log ── worker
//!                       └── its standard input ──┘
//! ```
//! What one log gets of commands and work goes to the other, so that what a killed worker has not said is lost with it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::bounded;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tidemill_executor::Config;
use tidemill_log::{From, Log, MemoryLog, Topic, append_wait, partition_of_key};
use tidemill_model::{
    AttemptOutcome, Command as Said, GroupSettings, Registration, Token, Usage, WorkMessage, WorkerCommand,
};

use crate::executor::{Owner, SHARD, config, spec};
use crate::shim::{is_alive, signal, until};

/// Far above what anything here takes; reached only by a failure.
const BOUND: Duration = Duration::from_secs(30);
/// Makes a process of this program a worker: its data directory.
const WORKER: &str = "TIDEMILL_TEST_WORKER";
/// Partitions of both logs.
const PARTITIONS: u32 = 4;
/// Between two looks at a log.
const LOOK: Duration = Duration::from_millis(5);

/// How a worker says that an attempt has ended.
pub(crate) type End = (AttemptOutcome, Option<Box<Usage>>);

/// A data directory with the owner of its worker.
pub(crate) struct Site {
    dir: TempDir,
    pub(crate) owner: Owner,
}

impl Site {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        // Jobs of other accounts pass through.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
        Self { dir, owner: Owner::new() }
    }

    /// A place that belongs to the site and not to its worker.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn attempt(&self, token: Token) -> PathBuf {
        self.data().join("attempts").join(token.to_string())
    }

    /// A worker whose registration is answered.
    pub(crate) fn begin(&mut self, granted: &[Token]) -> (WorkerProcess, Registration) {
        let worker = self.start();
        let me = self.owner.hear_registration();
        self.owner.welcome(&me, granted.to_vec());
        (worker, me)
    }

    pub(crate) fn start(&self) -> WorkerProcess {
        WorkerProcess::start(&self.owner, &self.data())
    }

    /// As [`Owner::welcome`], with a lease.
    pub(crate) fn welcome(&self, me: &Registration, granted: Vec<Token>, settings: GroupSettings) {
        let incarnation = me.incarnation.clone();
        self.owner.say(me, &WorkMessage::Registered { incarnation, shard: SHARD, settings, granted });
    }

    /// Grants it, and waits until it is said to run.
    pub(crate) fn run(&mut self, me: &Registration, token: Token, script: &str) {
        self.owner.grant(me, &spec(token, "shell", script));
        self.owner.hear_started(token);
    }

    /// A number that a job wrote into a file of its working directory.
    pub(crate) fn pid(&self, token: Token, file: &str) -> u32 {
        number(&self.attempt(token).join("work").join(file))
    }

    /// How often the script of an attempt was begun that says so there: `echo >> runs`.
    pub(crate) fn runs(&self, token: Token) -> usize {
        self.find(token).map_or(0, |dir| {
            fs::read_to_string(dir.join("work").join("runs")).map_or(0, |text| text.lines().count())
        })
    }

    fn find(&self, token: Token) -> Option<PathBuf> {
        let ended = self.data().join("ended").join(token.to_string());
        [self.attempt(token), ended].into_iter().find(|dir| dir.exists())
    }

    /// How it ended, which the worker says again until that is recorded; it may have said that it started before.
    pub(crate) fn hear_end(&mut self, wanted: Token) -> End {
        let [end] = self.hear_ends(&[wanted]);
        end
    }

    /// How these ended, in whichever order the worker says it, and whether or not it has said that they started.
    pub(crate) fn hear_ends<const N: usize>(&mut self, tokens: &[Token; N]) -> [End; N] {
        let mut ends = BTreeMap::new();
        while ends.len() < N {
            match self.owner.hear() {
                Said::Worker(WorkerCommand::ReportStarted { token, .. }) if tokens.contains(&token) => {}
                Said::Worker(WorkerCommand::ReportFinished { token, outcome, usage, .. })
                    if tokens.contains(&token) =>
                {
                    ends.insert(token, (outcome, usage));
                }
                other => panic!("not an end of {tokens:?}: {other:?}"),
            }
        }
        tokens.each_ref().map(|token| ends[token].clone())
    }

    /// The ends of these attempts are recorded. No process is left then but the worker and its server of shims; the next life of the
    /// worker says nothing of them, and after its stop none is left at all.
    pub(crate) fn record(&mut self, worker: WorkerProcess, me: &Registration, tokens: &[Token]) {
        for token in tokens {
            self.owner.say(me, &WorkMessage::Recorded { token: *token });
            let ended = self.data().join("ended").join(token.to_string());
            let attempt = self.attempt(*token);
            until("the end on record", || (ended.exists() || !attempt.exists()).then_some(()));
        }
        let is_of_worker =
            |pid: &i32| u32::try_from(*pid) == Ok(worker.id()) || parent_of(*pid) == Some(worker.id());
        until("the end of all but the worker", || {
            processes_in(self.path()).keys().all(is_of_worker).then_some(())
        });
        worker.stop();
        // A report that was under way when its end was recorded.
        while !self.owner.heard_so_far().is_empty() {
            match self.owner.hear() {
                Said::Worker(WorkerCommand::ReportFinished { token, .. }) if tokens.contains(&token) => {}
                other => panic!("{other:?}"),
            }
        }
        let (worker, _) = self.begin(&[]);
        worker.stop();
        assert_eq!(self.owner.heard_so_far(), [], "it is said no more");
        self.expect_nothing_left();
    }

    pub(crate) fn expect_nothing_left(&self) {
        until("the end of every process", || processes_in(self.path()).is_empty().then_some(()));
    }
}

impl Drop for Site {
    /// A test that failed half way leaves nothing behind.
    fn drop(&mut self) {
        for pid in processes_in(self.dir.path()).into_keys() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

/// A number that stands in a file, once it is whole.
pub(crate) fn number(file: &Path) -> u32 {
    until(&file.display().to_string(), || fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok())
}

pub(crate) fn parent_of(pid: i32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Stops a process, and waits until none of its threads runs: one that is about to run does so until the signal is noticed.
pub(crate) fn halt(pid: u32) {
    signal(pid, Signal::STOP);
    until("the halt", || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let is_halted =
            |thread: PathBuf| fs::read_to_string(thread.join("stat")).is_ok_and(|stat| stat.contains(") T "));
        threads.flatten().all(|thread| is_halted(thread.path())).then_some(())
    });
}

/// The processes that name this directory, or something below it: in their command line, in their environment, or as where they
/// work.
pub(crate) fn processes_in(dir: &Path) -> BTreeMap<i32, String> {
    let wanted = dir.to_str().unwrap();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let named = pids.filter_map(|pid| {
        let place = PathBuf::from(format!("/proc/{pid}"));
        let text = |file: &str| {
            String::from_utf8_lossy(&fs::read(place.join(file)).unwrap_or_default()).into_owned()
        };
        let works_in = fs::read_link(place.join("cwd")).unwrap_or_default().display().to_string();
        let command = text("cmdline");
        let is_in = [&command, &works_in, &text("environ")].iter().any(|text| text.contains(wanted));
        is_in.then_some((pid, command))
    });
    named.collect()
}

/// The processes of a job that works there. Its shim is none, and may be about to end.
pub(crate) fn left_in(work: &Path) -> BTreeMap<i32, String> {
    let mut left = processes_in(work);
    left.retain(|_, command| !command.contains("tidemill-shim"));
    left
}

/// Dropped, it ends with what it runs.
pub(crate) struct WorkerProcess {
    child: Child,
    socket: UnixStream,
    /// Reads what it says.
    heard: Option<JoinHandle<()>>,
}

impl WorkerProcess {
    fn start(owner: &Owner, data: &Path) -> Self {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "site::worker_of_a_process_of_its_own_registers_and_stops", "--nocapture"])
            .env(WORKER, data)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let bridge = Bridge::new(owner.log(), Topic::Work, Topic::Commands);
        bridge.send(socket.try_clone().unwrap());
        let is_over = Arc::clone(&bridge.is_over);
        let heard =
            bridge.receive(socket.try_clone().unwrap(), move || is_over.store(true, Ordering::Relaxed));
        Self { child, socket, heard: Some(heard) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// As a crash, or the kernel for want of memory, ends it. The owner has all that it has said.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.heard.take().unwrap().join().unwrap();
    }

    /// Tells it to stop, twice: what runs is ended at once.
    pub(crate) fn stop(mut self) {
        self.socket.shutdown(Shutdown::Write).unwrap();
        let status = until("the end of the worker", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}");
        self.heard.take().unwrap().join().unwrap();
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What comes of one topic of a log goes into a socket, what comes out of the socket into another topic.
struct Bridge {
    log: Arc<dyn Log>,
    out: Topic,
    into: Topic,
    /// Records that went into the socket.
    sent: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Bridge {
    fn new(log: Arc<dyn Log>, out: Topic, into: Topic) -> Self {
        let (sent, is_over) = (Arc::default(), Arc::default());
        Self { log, out, into, sent, is_over }
    }

    /// From now on, until nobody is at the other end, or this is over.
    fn send(&self, mut socket: UnixStream) {
        let reader = |partition| self.log.reader(self.out, partition, From::End).unwrap();
        let mut readers: Vec<_> = (0..PARTITIONS).map(reader).collect();
        let (sent, is_over) = (Arc::clone(&self.sent), Arc::clone(&self.is_over));
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                for record in readers.iter_mut().flat_map(|reader| reader.poll(100, LOOK).unwrap()) {
                    let line = [&record.key[..], b"\t", &record.value[..], b"\n"].concat();
                    if socket.write_all(&line).is_err() {
                        return;
                    }
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }

    /// Until the end of the socket, which runs this.
    fn receive(&self, socket: UnixStream, end: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        let (log, into) = (Arc::clone(&self.log), self.into);
        thread::spawn(move || {
            let producer = log.producer().unwrap();
            let (mut socket, mut line) = (BufReader::new(socket), Vec::new());
            // Of one that was killed, the last line may be cut: its log had it, and nobody else.
            while socket.read_until(b'\n', &mut line).is_ok() && line.pop() == Some(b'\n') {
                let tab = line.iter().position(|byte| *byte == b'\t').unwrap();
                let (key, value) = (&line[..tab], line[tab + 1..].to_vec());
                let partition = match into {
                    Topic::Commands => SHARD.partition(PARTITIONS),
                    _ => partition_of_key(std::str::from_utf8(key).unwrap(), PARTITIONS),
                };
                append_wait(&*producer, into, partition, key, value, BOUND).unwrap();
                line.clear();
            }
            end();
        })
    }
}

/// What a process of this program does that is a worker.
fn work(data: &Path) {
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let log: Arc<dyn Log> = Arc::new(MemoryLog::new(PARTITIONS));
    let bridge = Bridge::new(Arc::clone(&log), Topic::Commands, Topic::Work);
    let (stop, stopped) = bounded(2);
    bridge.send(socket.try_clone().unwrap());
    bridge.receive(socket, move || {
        let _ = stop.send(()).and_then(|()| stop.send(()));
    });
    let config = Config { heartbeat_ms: 200, ..config(data) };
    tidemill_executor::run(config, Arc::clone(&log), stopped).unwrap();
    let said = || (0..PARTITIONS).map(|of| log.range(Topic::Commands, of).unwrap().end).sum::<u64>();
    until("the last words", || (bridge.sent.load(Ordering::Relaxed) == said()).then_some(()));
    std::process::exit(0);
}

/// EXE-11: the worker that the tests of killed workers start is one: it registers, and nothing of it is left when it has stopped.
#[test]
fn worker_of_a_process_of_its_own_registers_and_stops() {
    if let Some(data) = std::env::var_os(WORKER) {
        return work(Path::new(&data));
    }
    let mut site = Site::new();
    let (worker, me) = site.begin(&[]);
    let token = Token(4097);
    site.run(&me, token, "echo >> runs; echo $$ > main; exec sleep 1000");
    let main = site.pid(token, "main");
    assert!(processes_in(site.path()).contains_key(&main.try_into().unwrap()));
    worker.stop();
    assert!(!is_alive(main));
    assert_eq!(site.runs(token), 1);
    site.expect_nothing_left();
}
