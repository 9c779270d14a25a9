//! The whole executor with real processes, on the memory log. The test is the owner.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use ed25519_dalek::{Signature, Signer as _, SigningKey};
use tempfile::TempDir;
use tidemill_executor::{Config, Error, Required};
use tidemill_log::{
    From, Log, MemoryLog, Reader, SqliteConfig, SqliteLog, Topic, append_wait, partition_of_key,
};
use tidemill_model::{
    AttemptOutcome, AttemptResult, BatchId, Command, CommandRecord, ExternalWork, GroupName, GroupSettings,
    JobId, JobName, JobType, LiveUsage, Program, Registration, RunSpec, RunningExcess, ShardId, StartRequest,
    Token, Usage, WorkMessage, WorkerCommand,
};

use crate::shim::until;

/// Far above what anything here takes; reached only by a failure.
const BOUND: Duration = Duration::from_secs(30);
pub(crate) const SHARD: ShardId = ShardId(1);
pub(crate) const KEY: &str = "the logs key of a test";

pub(crate) fn name<T: TryFrom<&'static str>>(text: &'static str) -> T
where
    T::Error: std::fmt::Debug,
{
    T::try_from(text).unwrap()
}

/// The owner's side of the log.
pub(crate) struct Owner {
    log: Arc<dyn Log>,
    commands: Box<dyn Reader>,
    waiting: Vec<Command>,
}

impl Owner {
    pub(crate) fn new() -> Self {
        Self::on(Arc::new(MemoryLog::new(4)))
    }

    /// What it shares with workers.
    pub(crate) fn log(&self) -> Arc<dyn Log> {
        Arc::clone(&self.log)
    }

    fn on(log: Arc<dyn Log>) -> Self {
        let commands = log
            .reader(Topic::Commands, SHARD.partition(log.partitions(Topic::Commands)), From::Start)
            .unwrap();
        Self { log, commands, waiting: Vec::new() }
    }

    /// The next command that is no heartbeat.
    pub(crate) fn hear(&mut self) -> Command {
        let end = Instant::now() + BOUND;
        while self.waiting.is_empty() {
            assert!(Instant::now() < end, "the worker says nothing");
            for record in self.commands.poll(100, Duration::from_millis(100)).unwrap() {
                let record: CommandRecord = serde_json::from_slice(&record.value).unwrap();
                assert_eq!((record.shard, &*record.actor.app), (SHARD, "worker"));
                if !matches!(record.command, Command::Worker(WorkerCommand::Heartbeat(_))) {
                    self.waiting.push(record.command);
                }
            }
        }
        self.waiting.remove(0)
    }

    /// What the next heartbeats say that attempts want too much of.
    pub(crate) fn hear_excesses(&mut self) -> Vec<RunningExcess> {
        let end = Instant::now() + BOUND;
        loop {
            assert!(Instant::now() < end, "no heartbeat names an excess");
            for record in self.commands.poll(100, Duration::from_millis(100)).unwrap() {
                match serde_json::from_slice::<CommandRecord>(&record.value).unwrap().command {
                    Command::Worker(WorkerCommand::Heartbeat(of)) if !of.excesses.is_empty() => {
                        return of.excesses;
                    }
                    Command::Worker(WorkerCommand::Heartbeat(_)) => {}
                    command => self.waiting.push(command),
                }
            }
        }
    }

    /// What the next heartbeats say that attempts have started elsewhere.
    pub(crate) fn hear_external_work(&mut self) -> Vec<ExternalWork> {
        let end = Instant::now() + BOUND;
        loop {
            assert!(Instant::now() < end, "no heartbeat names external work");
            for record in self.commands.poll(100, Duration::from_millis(100)).unwrap() {
                match serde_json::from_slice::<CommandRecord>(&record.value).unwrap().command {
                    Command::Worker(WorkerCommand::Heartbeat(heartbeat)) => {
                        if !heartbeat.external_work.is_empty() {
                            return heartbeat.external_work;
                        }
                    }
                    command => self.waiting.push(command),
                }
            }
        }
    }

    /// What it has said until now, heartbeats apart.
    pub(crate) fn heard_so_far(&mut self) -> &[Command] {
        for record in self.commands.poll(1_000, Duration::ZERO).unwrap() {
            let record: CommandRecord = serde_json::from_slice(&record.value).unwrap();
            if !matches!(record.command, Command::Worker(WorkerCommand::Heartbeat(_))) {
                self.waiting.push(record.command);
            }
        }
        &self.waiting
    }

    pub(crate) fn hear_registration(&mut self) -> Registration {
        match self.hear() {
            Command::Worker(WorkerCommand::Register(registration)) => *registration,
            other => panic!("not a registration: {other:?}"),
        }
    }

    pub(crate) fn hear_finished(&mut self, wanted: Token) -> (AttemptOutcome, Option<Usage>) {
        match self.hear() {
            Command::Worker(WorkerCommand::ReportFinished { token, outcome, usage, .. })
                if token == wanted =>
            {
                (outcome, usage.map(|usage| *usage))
            }
            other => panic!("not the end of {wanted}: {other:?}"),
        }
    }

    pub(crate) fn say(&self, to: &Registration, message: &WorkMessage) {
        self.say_bytes(to, serde_json::to_vec(message).unwrap());
    }

    pub(crate) fn say_bytes(&self, to: &Registration, value: Vec<u8>) {
        let partition = partition_of_key(to.worker.as_str(), self.log.partitions(Topic::Work));
        let key = to.worker.as_str().as_bytes();
        append_wait(&*self.log.producer().unwrap(), Topic::Work, partition, key, value, BOUND).unwrap();
    }

    pub(crate) fn welcome(&self, to: &Registration, granted: Vec<Token>) {
        let incarnation = to.incarnation.clone();
        let settings = GroupSettings::default();
        self.say(to, &WorkMessage::Registered { incarnation, shard: SHARD, settings, granted });
    }

    pub(crate) fn hear_request(
        &mut self,
        to: &Registration,
        token: Token,
        job_type: &JobType,
    ) -> StartRequest {
        let (worker, job_type) = (to.worker.clone(), job_type.clone());
        self.say(to, &WorkMessage::Assigned { worker, token, job_type, checks: Vec::new() });
        match self.hear() {
            Command::Worker(WorkerCommand::RequestStart(request)) if request.token == token => request,
            other => panic!("not a request to start {token}: {other:?}"),
        }
    }

    /// Assignment, request, grant.
    pub(crate) fn grant(&mut self, to: &Registration, spec: &RunSpec) {
        let request = self.hear_request(to, spec.token, &spec.job_type);
        let (incarnation, nonce) = (request.incarnation, request.nonce);
        self.say(to, &WorkMessage::Granted { incarnation, nonce, spec: Box::new(spec.clone()) });
    }

    pub(crate) fn hear_started(&mut self, wanted: Token) {
        let command = self.hear();
        assert!(
            matches!(command, Command::Worker(WorkerCommand::ReportStarted { token, .. }) if token == wanted),
            "{command:?}"
        );
    }
}

/// A worker in a thread of its own.
pub(crate) struct Executor {
    stop: Sender<()>,
    thread: JoinHandle<Result<(), Error>>,
}

pub(crate) fn config(dir: &Path) -> Config {
    let required = Required {
        group: name("g"),
        shard: SHARD,
        data_dir: dir.to_owned(),
        slots: BTreeMap::from([(name("shell"), 4), (name("python"), 1), (name("noop"), 1_000)]),
        logs_key: KEY.to_owned(),
        worker_private_key: "07".repeat(32),
    };
    let shim = vec![env!("CARGO_BIN_EXE_tidemill-shim").to_owned()];
    Config { shim, api_url: "http://api".to_owned(), ..Config::new(required) }
}

impl Executor {
    pub(crate) fn start(owner: &Owner, config: Config) -> Self {
        let (stop, stopped) = bounded(2);
        let log = Arc::clone(&owner.log);
        let thread = thread::spawn(move || tidemill_executor::run(config, log, stopped));
        Self { stop, thread }
    }

    pub(crate) fn stop(&self) {
        self.stop.send(()).unwrap();
    }

    pub(crate) fn join(self) {
        self.thread.join().unwrap().unwrap();
    }
}

/// OPS-9: what a newer owner says is not passed over: nobody else could do it.
#[test]
fn executor_ends_at_a_message_that_it_cannot_read() {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let executor = Executor::start(&owner, config(dir.path()));
    let me = owner.hear_registration();
    owner.say_bytes(&me, br#"{"of_a_newer_version": {}}"#.to_vec());
    let error = executor.thread.join().unwrap().unwrap_err();
    assert!(matches!(error, tidemill_executor::Error::Message { .. }), "{error}");
    assert!(error.to_string().contains("start a version of the program that reads it"), "{error}");
}

pub(crate) fn spec(token: Token, job_type: &'static str, script: &str) -> RunSpec {
    let program = if job_type == "noop" { Program::None } else { Program::Command(script.to_owned()) };
    RunSpec {
        token,
        batch: BatchId(77),
        attempt: 2,
        job: JobId(5),
        job_name: JobName::try_from("job").unwrap(),
        group: GroupName::try_from("g").unwrap(),
        job_type: name(job_type),
        program,
        logical_time: tidemill_model::Timestamp::UNIX_EPOCH,
        logical_time_text: "1970-01-01T01:00:00+01:00".to_owned(),
        run: 3,
        parameters: BTreeMap::from([("in-dir".to_owned(), "/a b".to_owned())]),
        execution_timeout_ms: None,
        memory_mb: None,
        run_as: None,
        output_path: None,
        limits: tidemill_model::Limits::default(),
        group_limits: tidemill_model::GroupLimits::default(),
        ending: None,
        unconfirmed: Vec::new(),
    }
}

/// Status line and body.
fn get(address: &str, path: &str, key: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nAuthorization: Bearer {key}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

pub(crate) fn log_of(registration: &Registration, token: Token, query: &str) -> serde_json::Value {
    let (status, body) = get(&registration.address, &format!("/logs/{token}{query}"), KEY);
    assert!(status.contains("200"), "{status}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// EXE-1, EXE-2, EXE-11, LOG-2, LOG-3: from registration to the record, over the log.
#[test]
fn job_runs_with_its_environment_and_its_log_is_served() {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let executor = Executor::start(&owner, config(dir.path()));
    let me = owner.hear_registration();
    let key = SigningKey::from_bytes(&[7; 32]).verifying_key();
    let signature: Vec<u8> =
        (0..64).map(|i| u8::from_str_radix(&me.signature[2 * i..2 * i + 2], 16).unwrap()).collect();
    let text = Registration::signed_text(&me.group, &me.worker, &me.incarnation);
    let signature = Signature::from_slice(&signature).unwrap();
    key.verify_strict(text.as_bytes(), &signature).expect("signed by the group's key");
    owner.welcome(&me, Vec::new());

    let token = Token(4097);
    owner.grant(&me, &spec(token, "shell", "env | grep TIDEMILL | sort; echo problem >&2; exit 4"));
    owner.hear_started(token);
    let (outcome, usage) = owner.hear_finished(token);
    assert_eq!((outcome.result, outcome.exit_code), (AttemptResult::Failed, Some(4)));
    assert!(usage.unwrap().peak_memory_kib > 0);

    // What it shows to report a code (EXE-4): the group's signature over its token.
    let attempt_key = SigningKey::from_bytes(&[7; 32]).sign(token.attempt_key_text().as_bytes()).to_bytes();
    let attempt_key: String = attempt_key.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = format!(
        "TIDEMILL_API=http://api\nTIDEMILL_ATTEMPT=2\nTIDEMILL_ATTEMPT_KEY={attempt_key}\nTIDEMILL_BATCH=77\n\
         TIDEMILL_JOB=job\nTIDEMILL_LOGICAL_TIME=1970-01-01T01:00:00+01:00\nTIDEMILL_PARAM_IN_DIR=/a b\n\
         TIDEMILL_RUN=3\nTIDEMILL_TOKEN=4097\nTIDEMILL_VALUES={}\nTIDEMILL_WORKER={}\n",
        dir.path().join("attempts/4097/values.json").display(),
        me.worker
    );
    let expected = &*expected;
    let log = log_of(&me, token, "?type=1");
    assert_eq!((log["content"].as_str(), log["is_end"].as_bool()), (Some(expected), Some(true)));
    owner.say(&me, &WorkMessage::Recorded { token });
    let ended = dir.path().join("ended/4097");
    let end = Instant::now() + BOUND;
    while !ended.is_dir() {
        assert!(Instant::now() < end, "the attempt's directory stays");
        thread::sleep(Duration::from_millis(5));
    }
    let first = log_of(&me, token, "?lines=1&offset=24");
    assert_eq!(
        (first["content"].as_str(), first["is_end"].as_bool()),
        (Some("TIDEMILL_ATTEMPT=2\n"), Some(false))
    );
    assert_eq!(log_of(&me, token, "?type=2")["content"], "problem\n");
    assert_eq!(get(&me.address, "/logs/4097/download", KEY).1, expected);
    for (path, key, status) in [
        ("/logs/4097", "wrong", "401"),
        ("/logs/4097/download", "wrong", "401"),
        ("/logs/9", KEY, "404"),
        ("/logs/4097?type=4", KEY, "400"),
    ] {
        let (got, body) = get(&me.address, path, key);
        assert!(got.contains(status) && body.contains("\"code\""), "{path}: {got} {body}");
    }
    executor.stop();
    executor.join();
}

/// EXE-5, LOG-2: what it has written can be read while it runs; killed is told apart from failed.
/// EXE-7: what an attempt uses is known while it runs, of its whole tree, also by a worker that has taken it over; and only while it
/// runs.
#[test]
fn usage_is_served_while_the_job_runs() {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let executor = Executor::start(&owner, config(dir.path()));
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    let token = Token(4097);
    let text = "import os, time\nheld = bytearray(b'x') * (50 << 20)\nos.fork()\n\
        while time.process_time() < 0.3: pass\ntime.sleep(1000)";
    owner.grant(&me, &spec(token, "python", text));
    owner.hear_started(token);
    let path = format!("/usage/{token}");
    let used = |me: &Registration| {
        until("its usage", || {
            let (status, body) = get(&me.address, &path, KEY);
            let usage: LiveUsage = match status.contains("200") {
                true => serde_json::from_str(&body).unwrap(),
                false => return None,
            };
            (usage.cpu_ms >= 500).then_some(usage)
        })
    };
    let usage = used(&me);
    assert_eq!((usage.processes, usage.peak_processes), (2, 2), "{usage:?}");
    assert!(usage.memory_kib > 50 << 10 && usage.peak_memory_kib >= usage.memory_kib, "{usage:?}");
    assert!(usage.duration_ms >= 300 && usage.written_kib.is_some(), "{usage:?}");
    let (status, body) = get(&me.address, "/usage/8193", KEY);
    assert!(status.contains("404") && body.contains("not_running"), "{status}: {body}");
    assert!(get(&me.address, &path, "wrong").0.contains("401"));

    owner.say_bytes(&me, br#"{"of_a_newer_version": {}}"#.to_vec());
    executor.thread.join().unwrap().unwrap_err();
    let executor = Executor::start(&owner, config(dir.path()));
    let again = owner.hear_registration();
    owner.welcome(&again, vec![token]);
    owner.hear_started(token);
    let later = used(&again);
    assert!(later.duration_ms >= usage.duration_ms && later.processes == 2, "{later:?}");
    owner.say(&again, &WorkMessage::Kill { token, grace_ms: 5_000 });
    owner.hear_finished(token);
    assert!(get(&again.address, &path, KEY).0.contains("404"), "it has ended");
    executor.stop();
    owner.say(&again, &WorkMessage::Recorded { token });
    executor.join();
}

#[test]
fn running_job_can_be_followed_and_killed() {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let executor = Executor::start(&owner, config(dir.path()));
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    let token = Token(4097);
    owner.grant(
        &me,
        &spec(token, "python", "import time\nprint('line')\nprint('un', end='')\ntime.sleep(1000)"),
    );
    owner.hear_started(token);
    let end = Instant::now() + BOUND;
    let log = loop {
        let log = log_of(&me, token, "");
        if log["offset"] != 0 {
            break log;
        }
        assert!(Instant::now() < end, "no output: {log}");
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!((log["content"].as_str(), log["is_end"].as_bool()), (Some("line\n"), Some(false)));
    owner.say(&me, &WorkMessage::Kill { token, grace_ms: 5_000 });
    let (outcome, _) = owner.hear_finished(token);
    assert_eq!((outcome.result, outcome.signal), (AttemptResult::Killed, Some(15)));
    let rest = log_of(&me, token, "?offset=5");
    assert_eq!((rest["content"].as_str(), rest["is_end"].as_bool()), (Some("un"), Some(true)));
    executor.stop();
    owner.say(&me, &WorkMessage::Recorded { token });
    executor.join();
}

/// LOG-1, LOG-2: the setting limits an output, and readers find the line that says what is missing.
#[test]
fn long_output_is_limited_and_readers_find_what_is_missing() {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let executor = Executor::start(&owner, Config { output_max_mb: 1, ..config(dir.path()) });
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    let token = Token(4097);
    owner.grant(&me, &spec(token, "shell", "seq 1 400000; exit 3"));
    owner.hear_started(token);
    assert_eq!(owner.hear_finished(token).0.exit_code, Some(3));
    let (mut content, mut piece) = (String::new(), log_of(&me, token, "?lines=1000000"));
    while piece["is_end"] != true {
        content.push_str(piece["content"].as_str().unwrap());
        piece = log_of(&me, token, &format!("?lines=1000000&offset={}", piece["offset"]));
    }
    content.push_str(piece["content"].as_str().unwrap());
    let (head, rest) = content.split_once("[tidemill] output gap: offset=983040 dropped=").unwrap();
    assert!(head.starts_with("1\n2\n3\n") && head.ends_with('\n'));
    assert!(rest.contains(" reason=longer than 1048576 bytes\n") && rest.ends_with("\n399999\n400000\n"));
    executor.stop();
    owner.say(&me, &WorkMessage::Recorded { token });
    executor.join();
}

/// A killed shim cannot tell; what it left is ended, and the worker says that the attempt is lost.
#[test]
fn tree_of_a_killed_shim_is_ended_and_reported_as_lost() {
    check_killed_shim("echo $$ > pid; kill -9 $PPID; exec sleep 1000");
}

/// Without the server too, the worker finds it.
#[test]
fn tree_of_a_shim_that_was_killed_with_its_server_is_ended_and_reported_as_lost() {
    check_killed_shim("echo $$ > pid; kill -9 $(ps -o ppid= -p $PPID) $PPID; exec sleep 1000");
}

/// ZMB-1: the shim of an attempt is killed once the job has written its output: it has succeeded. Where the output is older than the
/// attempt, or is not there, it has failed.
#[test]
fn output_of_a_killed_shim_counts_if_it_is_newer_than_the_attempt() {
    let place = TempDir::new().unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();
    let kill = "echo $$ > pid; kill -9 $PPID; exec sleep 1000";
    fs::create_dir(path("old")).unwrap();
    let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3_600);
    fs::File::open(path("old")).unwrap().set_modified(hour_ago).unwrap();
    let (written, updated) = (path("written"), path("updated"));
    fs::create_dir(&updated).unwrap();
    fs::write(format!("{updated}/part"), "old").unwrap();
    fs::File::open(&updated).unwrap().set_modified(hour_ago).unwrap();
    for (output, before, expected, said) in [
        (&written, format!("touch {written}; "), AttemptResult::Success, "so it has succeeded"),
        (&updated, format!("echo new > {updated}/part; "), AttemptResult::Success, "so it has succeeded"),
        (&path("old"), String::new(), AttemptResult::Failed, "proves nothing"),
        (&path("none"), String::new(), AttemptResult::Failed, "does not exist"),
    ] {
        let outcome = end_of_killed_shim(&format!("{before}{kill}"), Some(output));
        assert_eq!(outcome.result, expected, "{outcome:?}");
        assert!(
            outcome.message.contains("its shim was killed") && outcome.message.contains(said),
            "{outcome:?}"
        );
    }
}

fn check_killed_shim(script: &str) {
    let outcome = end_of_killed_shim(script, None);
    assert_eq!(outcome.result, AttemptResult::Lost, "{outcome:?}");
}

/// How an attempt ends that kills its shim; nothing of it is left.
fn end_of_killed_shim(script: &str, output_path: Option<&str>) -> AttemptOutcome {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let executor = Executor::start(&owner, config(dir.path()));
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    let token = Token(4097);
    owner
        .grant(&me, &RunSpec { output_path: output_path.map(str::to_owned), ..spec(token, "shell", script) });
    // The shim may be killed before it has said that the job runs.
    let (outcome, _) = match owner.hear() {
        Command::Worker(WorkerCommand::ReportStarted { .. }) => owner.hear_finished(token),
        Command::Worker(WorkerCommand::ReportFinished { outcome, usage, .. }) => {
            (outcome, usage.map(|usage| *usage))
        }
        other => panic!("neither started nor finished: {other:?}"),
    };
    let pid = fs::read_to_string(dir.path().join("attempts/4097/work/pid")).unwrap();
    let environment = fs::read(format!("/proc/{}/environ", pid.trim())).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&environment).contains(me.worker.as_str()));
    executor.stop();
    owner.say(&me, &WorkMessage::Recorded { token });
    executor.join();
    outcome
}

/// EXE-8: the end of an attempt is not lost with the worker that saw it.
#[test]
fn restarted_worker_reports_what_ended_before() {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let executor = Executor::start(&owner, config(dir.path()));
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    let (ended, running) = (Token(4097), Token(8193));
    owner.grant(&me, &spec(ended, "shell", "exit 0"));
    owner.hear_started(ended);
    owner.hear_finished(ended);
    owner.grant(&me, &spec(running, "shell", "exec sleep 1000"));
    owner.hear_started(running);
    executor.stop();
    executor.stop();
    executor.join();

    let executor = Executor::start(&owner, config(dir.path()));
    let again = loop {
        match owner.hear() {
            Command::Worker(WorkerCommand::Register(registration)) => break *registration,
            Command::Worker(WorkerCommand::ReportFinished { .. }) => {}
            other => panic!("neither a report nor a registration: {other:?}"),
        }
    };
    assert_eq!((&again.worker, again.live.len()), (&me.worker, 0));
    assert_ne!(again.incarnation, me.incarnation);
    owner.welcome(&again, vec![ended, running, Token(12289)]);
    assert_eq!(owner.hear_finished(ended).0.result, AttemptResult::Success);
    assert_eq!(owner.hear_finished(running).0.result, AttemptResult::Lost);
    assert_eq!(owner.hear_finished(Token(12289)).0.result, AttemptResult::Lost);
    for token in [ended, running, Token(12289)] {
        owner.say(&again, &WorkMessage::Recorded { token });
    }
    executor.stop();
    executor.join();
}

/// EXE-10: jobs go on while their worker is gone, and its next life takes them over: their starts, ends, exit codes, output
/// and kills are as if nothing had happened, and what ended meanwhile is reported.
#[test]
fn restarted_worker_takes_over_what_runs() {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let executor = Executor::start(&owner, config(dir.path()));
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    let (ended, running, killed) = (Token(4097), Token(8193), Token(12289));
    for token in [ended, running, killed] {
        owner.grant(
            &me,
            &spec(token, "shell", "mkfifo go; echo before; read code < go; echo after; exit $code"),
        );
        owner.hear_started(token);
    }
    let go = |token: Token, code: &str| {
        let fifo = dir.path().join("attempts").join(token.to_string()).join("work").join("go");
        until("the job", || fifo.exists().then_some(()));
        fs::write(fifo, code).unwrap();
    };
    // It ends at a message of a newer version, as suddenly as one that is killed.
    owner.say_bytes(&me, br#"{"of_a_newer_version": {}}"#.to_vec());
    executor.thread.join().unwrap().unwrap_err();
    go(ended, "7\n");
    let record = dir.path().join("attempts").join(ended.to_string()).join("exit.json");
    until("the end", || record.exists().then_some(()));
    let directory = fs::File::open(record.parent().unwrap()).unwrap();
    rustix::fs::flock(&directory, rustix::fs::FlockOperation::LockExclusive).unwrap();
    drop(directory);

    let executor = Executor::start(&owner, config(dir.path()));
    let again = owner.hear_registration();
    assert_eq!((&again.worker, &again.live), (&me.worker, &vec![running, killed]));
    // Said before the owner answers, and obeyed once the shim hears.
    owner.say(&again, &WorkMessage::Kill { token: killed, grace_ms: 5_000 });
    owner.welcome(&again, vec![ended, running, killed]);
    let mut heard = BTreeMap::new();
    let mut started = BTreeSet::new();
    while heard.len() < 2 || started.len() < 2 {
        match owner.hear() {
            Command::Worker(WorkerCommand::ReportFinished { token, outcome, .. }) => {
                owner.say(&again, &WorkMessage::Recorded { token });
                heard.insert(token, (outcome.result, outcome.exit_code, outcome.signal));
            }
            Command::Worker(WorkerCommand::ReportStarted { token, .. }) => drop(started.insert(token)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(started, BTreeSet::from([running, killed]), "whether that was said before is not known");
    let (failed, was_killed) = (AttemptResult::Failed, AttemptResult::Killed);
    assert_eq!(
        heard,
        BTreeMap::from([(ended, (failed, Some(7), None)), (killed, (was_killed, None, Some(15)))])
    );
    go(running, "3\n");
    let (outcome, usage) = loop {
        match owner.hear() {
            // It is said again until the worker hears that it is recorded.
            Command::Worker(WorkerCommand::ReportFinished { token, .. }) if token != running => {}
            Command::Worker(WorkerCommand::ReportFinished { outcome, usage, .. }) => break (outcome, usage),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((outcome.result, outcome.exit_code), (failed, Some(3)));
    assert!(usage.is_some());
    assert_eq!(log_of(&again, running, "")["content"], "before\nafter\n");
    owner.say(&again, &WorkMessage::Recorded { token: running });
    executor.stop();
    executor.join();
}

/// EXE-10, OPS-2: told to keep its jobs, a worker stops at once, and its next life takes them over.
#[test]
fn stopping_worker_leaves_its_jobs_to_the_next_one_if_it_is_to() {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let keeping = || Config { keep_jobs_on_stop: true, ..config(dir.path()) };
    let executor = Executor::start(&owner, keeping());
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    let token = Token(4097);
    owner.grant(&me, &spec(token, "shell", "mkfifo go; read code < go; exit $code"));
    owner.hear_started(token);
    executor.stop();
    executor.join();
    let executor = Executor::start(&owner, keeping());
    let again = owner.hear_registration();
    owner.welcome(&again, vec![token]);
    owner.hear_started(token);
    let fifo = dir.path().join("attempts").join(token.to_string()).join("work").join("go");
    until("the job", || fifo.exists().then_some(()));
    fs::write(fifo, "4\n").unwrap();
    assert_eq!(owner.hear_finished(token).0.exit_code, Some(4));
    owner.say(&again, &WorkMessage::Recorded { token });
    executor.stop();
    executor.join();
}

/// EXE-10: an attempt whose directory is gone is told of as lost, and holds nothing up.
#[test]
fn attempt_without_a_directory_is_lost() {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let executor = Executor::start(&owner, config(dir.path()));
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    let token = Token(4097);
    owner.grant(&me, &spec(token, "shell", "exec sleep 1000"));
    owner.hear_started(token);
    let attempt = dir.path().join("attempts").join(token.to_string());
    fs::create_dir(attempt.join("control")).unwrap();
    owner.say_bytes(&me, br#"{"of_a_newer_version": {}}"#.to_vec());
    executor.thread.join().unwrap().unwrap_err();
    let executor = Executor::start(&owner, config(dir.path()));
    let again = owner.hear_registration();
    assert_eq!(again.live, [token]);
    // Its shim may make its socket again meanwhile.
    until("the directory's end", || {
        let removed = fs::remove_dir_all(&attempt);
        (removed.is_ok() || !attempt.exists()).then_some(())
    });
    owner.welcome(&again, vec![token]);
    assert_eq!(owner.hear_finished(token).0.result, AttemptResult::Lost);
    owner.say(&again, &WorkMessage::Recorded { token });
    executor.stop();
    executor.join();
}

/// OPS-6: a job that ends in time ends well.
#[test]
fn stopping_worker_lets_its_jobs_finish() {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let executor = Executor::start(&owner, config(dir.path()));
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    let token = Token(4097);
    owner.grant(&me, &spec(token, "shell", "while ! test -e go; do sleep 0.01; done"));
    owner.hear_started(token);
    executor.stop();
    fs::write(dir.path().join("attempts/4097/work/go"), "").unwrap();
    assert_eq!(owner.hear_finished(token).0.result, AttemptResult::Success);
    owner.say(&me, &WorkMessage::Recorded { token });
    executor.join();
}

#[test]
fn noops_take_the_whole_way_without_a_process() {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let executor = Executor::start(&owner, config(dir.path()));
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    for n in 1..=300 {
        let token = Token(n << 12 | 1);
        owner.grant(&me, &spec(token, "noop", ""));
        owner.hear_started(token);
        assert_eq!(owner.hear_finished(token).0.result, AttemptResult::Success);
        owner.say(&me, &WorkMessage::Recorded { token });
    }
    executor.stop();
    executor.join();
    assert_eq!(fs::read_dir(dir.path().join("ended")).unwrap().count(), 0);
}

/// What the worker says in one turn is one commit of the embedded log, so that its owner finds start and end of a noop
/// together.
#[test]
fn start_and_end_of_a_noop_are_read_together() {
    let dir = TempDir::new().unwrap();
    let log =
        SqliteLog::open(&SqliteConfig::new(dir.path().join("log")), Box::new(|error| panic!("{error}")));
    let mut owner = Owner::on(Arc::new(log.unwrap()));
    let executor = Executor::start(&owner, config(dir.path()));
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    for n in 1..=50 {
        let token = Token(n << 12 | 1);
        owner.grant(&me, &spec(token, "noop", ""));
        owner.hear_started(token);
        let told = owner.waiting.first();
        assert!(
            matches!(told, Some(Command::Worker(WorkerCommand::ReportFinished { token: of, .. })) if *of == token),
            "{told:?}"
        );
        owner.waiting.clear();
        owner.say(&me, &WorkMessage::Recorded { token });
    }
    executor.stop();
    executor.join();
}
