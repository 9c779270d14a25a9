//! A cluster: every role a process of its own, with topics, a database and directories of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidemill_client::{Client, Method};
use tidemill_log::{KafkaConfig, KafkaLog, Log, Topic};
use tidemill_model::Timestamp;

use super::database::Database;
use super::turn::Turn;
use super::{Journal, PATIENCE, Process, free_port, random, service, topics, until};

/// A copy of it is used, which a build beside the test does not replace.
const TIDEMILL: &str = env!("CARGO_BIN_EXE_tidemill");
/// One for the catalogue, one for each of two groups.
const PARTITIONS: u32 = 3;
/// The group that executors work for. Its shard lies in partition [`Cluster::DEMO`].
const GROUP: &str = "demo";
/// Before a request that found nobody is sent again.
const AGAIN: Duration = Duration::from_millis(100);

pub(crate) struct Cluster {
    // In this order they go: processes, then what they use.
    roles: BTreeMap<String, Process>,
    pub(crate) database: Database,
    _topics: Topics,
    others: Vec<Topics>,
    dir: TempDir,
    kafka: KafkaConfig,
    /// Name of a dispatcher by where it answers.
    addresses: BTreeMap<String, String>,
    server: String,
    internal_key: String,
    logs_key: String,
    more: Vec<(String, String)>,
    _turn: Turn,
}

/// Topics that are deleted at the end.
struct Topics(KafkaConfig);

impl Drop for Topics {
    fn drop(&mut self) {
        let names: Vec<_> = Topic::ALL.into_iter().map(|topic| self.0.topic_name(topic)).collect();
        if let Err(error) = topics::delete(&self.0.brokers, &names) {
            eprintln!("topics {}.* are left behind: {error}", self.0.prefix);
        }
    }
}

impl Cluster {
    /// The partition of the group that executors work for.
    pub(crate) const DEMO: u32 = 1;

    /// Two dispatchers that each own something, a projector, an interface, and the group with short bounds.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// With more settings for every role.
    pub(crate) fn start_with(more: &[(&str, &str)]) -> Self {
        let turn = Turn::take();
        let mut kafka = KafkaConfig::new(service("TIDEMILL_TEST_KAFKA"));
        kafka.prefix = format!("tidemill-test-{}", random::<6>());
        kafka.partitions = PARTITIONS;
        kafka.single_broker = true;
        let mut cluster = Self {
            roles: BTreeMap::new(),
            database: Database::create(),
            _topics: Topics(kafka.clone()),
            others: Vec::new(),
            dir: TempDir::new().unwrap(),
            kafka,
            addresses: BTreeMap::new(),
            server: String::new(),
            internal_key: random::<16>(),
            logs_key: random::<16>(),
            more: more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            _turn: turn,
        };
        // By another process: a descriptor open for writing here would be inherited by what other
        // tests start meanwhile, and a file that is written cannot be executed.
        let copied = Command::new("cp").arg(TIDEMILL).arg(cluster.path("tidemill")).status().unwrap();
        assert!(copied.success(), "the binary is copied");
        cluster.succeeds(&["topics", "create"]);
        cluster.start_dispatcher("dispatcher-1");
        cluster.start_dispatcher("dispatcher-2");
        cluster.start_role("projector", "projector", &[]);
        cluster.start_role("api", "api", &[]);
        cluster.succeeds(&["bootstrap"]);
        let line = cluster.role("api").says(&["the interface listens on "]);
        let (_, rest) = line.split_once("listens on ").unwrap();
        cluster.server = format!("http://{}", rest.split_whitespace().next().unwrap());
        cluster.define_group();
        cluster
    }

    /// Kills the projector, which also publishes the feed, and starts another one.
    pub(crate) fn restart_projector(&mut self) {
        self.signal("projector", Signal::KILL);
        self.start_role("projector", "projector", &[]);
    }

    /// The bounds of the group, short enough to wait for.
    fn define_group(&self) {
        let key = until("the group is in the tables", || {
            let output = self.run(&["group", "ls", "-o", "json"]);
            let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
            answer["items"][0]["worker_key"].as_str().map(str::to_owned)
        });
        let settings = json!({
            "start_timeout_ms": 20_000, "lost_after_ms": 3_000, "lease_ms": 6_000, "lease_margin_ms": 500,
            "kill_grace_ms": 1_000,
        });
        self.post("/api/groups", &json!({"name": GROUP, "worker_key": key, "settings": settings}));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, data: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("tidemill"));
        command.args(arguments).current_dir(self.dir.path()).env("TIDEMILL_DATA", data);
        for variable in ["TIDEMILL_CONFIG", "TIDEMILL_KEY"] {
            command.env_remove(variable);
        }
        let settings = [
            ("LOG__BACKEND", "kafka"),
            ("LOG__BROKERS", &self.kafka.brokers),
            ("LOG__PREFIX", &self.kafka.prefix),
            ("LOG__PARTITIONS", &PARTITIONS.to_string()),
            ("LOG__SINGLE_BROKER", "true"),
            ("STORE__URL", &self.database.url),
            ("INTERNAL_KEY", &self.internal_key),
            ("LOGS_KEY", &self.logs_key),
            ("EXECUTOR__GROUP", GROUP),
            ("API__LISTEN", "127.0.0.1:0"),
        ];
        command.envs(settings.map(|(name, value)| (format!("TIDEMILL__{name}"), value)));
        command.envs(self.more.iter().map(|(name, value)| (format!("TIDEMILL__{name}"), value)));
        match arguments[0] {
            // Those that can do without the interface do it here.
            "rebuild" | "verify" => command.env_remove("TIDEMILL_SERVER"),
            _ => command.env("TIDEMILL_SERVER", &self.server),
        };
        command
    }

    /// Another value of a setting that every process got, for those that start from now on.
    #[allow(dead_code, reason = "the test of many paths needs none")]
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let setting = self.more.iter_mut().find(|(known, _)| known == name);
        setting.expect("one that was given at the start").1 = value.to_owned();
    }

    /// Where an interface said that it listens, `ip:port`.
    #[allow(dead_code, reason = "the test of many paths needs none")]
    pub(crate) fn listens_at(&mut self, name: &str) -> String {
        let line = self.role(name).says(&["the interface listens on "]);
        let (_, rest) = line.split_once("listens on ").unwrap();
        rest.split_whitespace().next().unwrap().to_owned()
    }

    /// A role, with more settings; it replaces the one of this name.
    pub(crate) fn start_role(&mut self, name: &str, role: &str, settings: &[(&str, &str)]) {
        self.roles.remove(name);
        let mut command = self.command(&self.path(name), &[role]);
        command.envs(settings.iter().map(|(name, value)| (format!("TIDEMILL__{name}"), value)));
        let process = Process::start(name, &self.path(&format!("{name}.log")), &mut command);
        self.roles.insert(name.to_owned(), process);
    }

    /// Where the interface listens, `ip:port`.
    pub(crate) fn listens(&self) -> String {
        self.server.trim_start_matches("http://").to_owned()
    }

    /// The interface again, where it was.
    pub(crate) fn start_api_at(&mut self, name: &str, listen: &str) {
        self.start_role(name, "api", &[("API__LISTEN", listen)]);
        self.role(name).says(&["the interface listens on "]);
    }

    /// Another interface, with more settings; its address.
    pub(crate) fn start_another_api(&mut self, name: &str, settings: &[(&str, &str)]) -> String {
        self.start_role(name, "api", settings);
        let line = self.role(name).says(&["the interface listens on "]);
        let (_, rest) = line.split_once("listens on ").unwrap();
        format!("http://{}", rest.split_whitespace().next().unwrap())
    }

    pub(crate) fn start_dispatcher(&mut self, name: &str) {
        let address = format!("127.0.0.1:{}", free_port());
        self.start_role(name, "dispatcher", &[("DISPATCHER__ADDRESS", &address)]);
        self.addresses.insert(address, name.to_owned());
    }

    /// An executor with a data root of its own that has the group's key, on a host of the same name.
    pub(crate) fn start_executor(&mut self, name: &str, stop_grace_ms: u32) {
        self.start_executor_of(GROUP, name, stop_grace_ms);
    }

    /// The same of another group, which has to be defined with the same key.
    pub(crate) fn start_executor_of(&mut self, group: &str, name: &str, stop_grace_ms: u32) {
        self.start_executor_so(group, name, (stop_grace_ms, false));
    }

    /// An executor whose jobs go on when it is stopped.
    pub(crate) fn start_keeping_executor(&mut self, name: &str) {
        self.start_executor_so(GROUP, name, (0, true));
    }

    fn start_executor_so(&mut self, group: &str, name: &str, (stop_grace_ms, keeps_jobs): (u32, bool)) {
        let (known, own) = (format!("group-{GROUP}.key"), format!("group-{group}.key"));
        std::fs::create_dir_all(self.path(name)).unwrap();
        std::fs::copy(self.path("admin").join(known), self.path(name).join(own)).unwrap();
        let grace = stop_grace_ms.to_string();
        let settings = [
            ("EXECUTOR__GROUP", group),
            ("EXECUTOR__HOST", name),
            ("EXECUTOR__HEARTBEAT_MS", "300"),
            ("EXECUTOR__STOP_GRACE_MS", grace.as_str()),
            ("EXECUTOR__KEEP_JOBS_ON_STOP", if keeps_jobs { "true" } else { "false" }),
            ("EXECUTOR__SLOTS", "shell=4,python=4,noop=100"),
        ];
        self.start_role(name, "executor", &settings);
        until(&format!("{name} is registered"), || self.worker_at(name));
    }

    /// An executor on a machine whose load is what stands in a file, in the form of `/proc/loadavg`, with more settings.
    pub(crate) fn start_executor_under(&mut self, load: &Path, name: &str, settings: &[(&str, &str)]) {
        std::fs::create_dir_all(self.path(name)).unwrap();
        let key = format!("group-{GROUP}.key");
        std::fs::copy(self.path("admin").join(&key), self.path(name).join(&key)).unwrap();
        self.roles.remove(name);
        let own = self.command(&self.path(name), &["executor"]);
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "sh",
            "-c",
            "mount --bind \"$1\" /proc/loadavg && exec \"$2\" executor",
            "sh",
        ]);
        command.arg(load).arg(own.get_program()).current_dir(self.dir.path());
        for (variable, value) in own.get_envs() {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        command.env("TIDEMILL__EXECUTOR__HOST", name).env("TIDEMILL__EXECUTOR__HEARTBEAT_MS", "300");
        command.envs(settings.iter().map(|(name, value)| (format!("TIDEMILL__{name}"), value)));
        let process = Process::start(name, &self.path(&format!("{name}.log")), &mut command);
        self.roles.insert(name.to_owned(), process);
        until(&format!("{name} is registered"), || self.worker_at(name));
    }

    /// A role that looks outside: for paths, for the quality service, for third parties.
    pub(crate) fn start_producers(&mut self, name: &str, settings: &[(&str, &str)]) {
        self.start_role(name, "producers", settings);
        self.role(name).says(&["what owners wait for is looked for"]);
    }

    /// What copies journals to the archive.
    pub(crate) fn start_archiver(&mut self, name: &str) {
        self.start_role(name, "archiver", &[]);
    }

    /// What passes task logs on, to `tidemill_task_log` in the cluster's own database.
    pub(crate) fn start_sink(&mut self, name: &str) {
        let url = self.database.url.clone();
        self.start_role(name, "sink", &[("SINKS__MYSQL__URL", &url)]);
        self.role(name).says(&["goes to sink mysql"]);
    }

    /// Where the interface listens, and the administrator's key.
    pub(crate) fn api(&self) -> (String, String) {
        let key = std::fs::read_to_string(self.path("admin").join("admin.key")).unwrap();
        (self.server.clone(), key.trim().to_owned())
    }

    /// What a role has written so far.
    pub(crate) fn lines_of(&self, name: &str) -> String {
        self.roles[name].lines()
    }

    pub(crate) fn role(&mut self, name: &str) -> &mut Process {
        self.roles.get_mut(name).unwrap_or_else(|| panic!("there is no role {name}"))
    }

    pub(crate) fn signal(&self, name: &str, signal: Signal) {
        self.roles[name].signal(signal);
    }

    /// The worker on a host, where there is one that is not lost.
    fn worker_at(&self, host: &str) -> Option<String> {
        let output = self.run(&["worker", "ls", "-o", "json"]);
        // No answer is none yet: a slow machine may have no tables so early.
        let workers: Value = serde_json::from_slice(&output.stdout).ok()?;
        let items = workers["items"].as_array()?;
        let found = items.iter().find(|worker| worker["host"] == host)?;
        found["id"].as_str().map(str::to_owned)
    }

    /// The host, and with that the executor, where an attempt runs.
    pub(crate) fn host_of(&self, token: &str) -> String {
        let id: i64 = token.parse().unwrap();
        let attempt = until(&format!("attempt {token} is in the tables"), || {
            let attempts = self.get("/api/attempts?limit=1000");
            attempts["items"].as_array().unwrap().iter().find(|it| it["id"] == id).cloned()
        });
        let worker = attempt["worker"].as_str().unwrap();
        self.json(&["worker", "show", worker])["host"].as_str().unwrap().to_owned()
    }

    /// Deletes every record of a partition.
    pub(crate) fn delete_records(&self, topic: Topic, partition: u32) {
        topics::delete_records(&self.kafka.brokers, &self.kafka.topic_name(topic), partition).unwrap();
    }

    /// Deletes a topic and rebuilds it.
    pub(crate) fn recreate(&self, topic: Topic) {
        topics::delete(&self.kafka.brokers, &[self.kafka.topic_name(topic)]).unwrap();
        until("the topic is rebuilt", || {
            let output = self.run(&["topics", "create"]);
            output.status.success().then_some(())
        });
    }

    /// A topic that is not of the log, and the way to write it: as if its events were another log's.
    pub(crate) fn topic_of_the_fixture(&mut self) -> (String, KafkaLog) {
        let mut kafka = self.kafka.clone();
        kafka.prefix.push_str("-fixture");
        self.others.push(Topics(kafka.clone()));
        until("the broker has the topics", || KafkaLog::create_topics(&kafka).ok());
        (kafka.topic_name(Topic::Events), KafkaLog::open(&kafka).unwrap())
    }

    /// The log, beside everyone else.
    pub(crate) fn log(&self) -> Arc<dyn Log> {
        Arc::new(KafkaLog::open(&self.kafka).unwrap())
    }

    /// The journal, read beside everyone else.
    pub(crate) fn journal(&self) -> Journal {
        Journal::open(KafkaLog::open(&self.kafka).unwrap())
    }

    /// The name of the owner, partition by partition.
    pub(crate) fn owners(&self, journal: &mut Journal) -> Vec<Option<String>> {
        let owners = journal.owners().into_iter();
        owners.map(|address| Some(self.addresses[&address?].clone())).collect()
    }

    /// Waits until all partitions are owned and both dispatchers own some; who owns which.
    pub(crate) fn both_own(&self, journal: &mut Journal) -> Vec<String> {
        until("two dispatchers own all partitions", || {
            let owners: Vec<_> = self.owners(journal).into_iter().collect::<Option<_>>()?;
            owners.iter().any(|owner| *owner != owners[0]).then_some(owners)
        })
    }

    /// Waits until another dispatcher than this one owns the partition.
    pub(crate) fn other_owner(&self, journal: &mut Journal, partition: u32, than: &str) -> String {
        until(&format!("partition {partition} is taken over from {than}"), || {
            let owner = self.owners(journal).swap_remove(partition as usize);
            owner.filter(|owner| owner != than)
        })
    }

    /// Somebody who follows the feed, and has seen something of it.
    pub(crate) fn follows(&self) -> Process {
        let mut command = self.command(&self.path("admin"), &["events", "tail", "--from", "start"]);
        let mut process = Process::start("feed", &self.path("feed.log"), &mut command);
        process.says(&["group.defined"]);
        process
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, &[])
    }

    /// With more settings.
    pub(crate) fn run_with(&self, arguments: &[&str], more: &[(&str, &str)]) -> Output {
        let mut command = self.command(&self.path("admin"), arguments);
        command.envs(more.iter().map(|(name, value)| (format!("TIDEMILL__{name}"), value)));
        command.output().unwrap()
    }

    pub(crate) fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (told, error) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {told}{error}");
        told.into_owned()
    }

    /// What a command that has to succeed answers.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.succeeds(&[arguments, &["-o", "json"]].concat())).unwrap()
    }

    /// A client with the administrator's key.
    fn client(&self) -> Client {
        let key = std::fs::read_to_string(self.path("admin").join("admin.key")).unwrap();
        Client::builder(&self.server).key(key.trim()).build().unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.client().get(path).send().unwrap()
    }

    /// A write that is done once, however often it has to be asked for.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        self.write(Method::Post, path, Some(body))
    }

    /// A write that is done once, however often it has to be asked for.
    pub(crate) fn write(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let key = random::<16>();
        let mut last = String::new();
        let begun_at = Instant::now();
        while begun_at.elapsed() < PATIENCE {
            let client = self.client();
            let call = client.call(method, path).idempotency_key(&key);
            let call = match body {
                Some(body) => call.body(body),
                None => call,
            };
            match call.send() {
                Ok(answer) => return answer,
                Err(error) => last = error.to_string(),
            }
            thread::sleep(AGAIN);
        }
        panic!("not within {PATIENCE:?}: {method:?} {path}: {last}");
    }

    /// Makes one batch of the job by hand, beside what is unfinished.
    pub(crate) fn run_job(&self, job: &Value, logical_time: Timestamp) {
        self.post(
            &format!("/api/jobs/{job}/run"),
            &json!({ "logical_time": logical_time, "concurrent": true }),
        );
    }

    /// Applies the file, again where a slow machine answers that it is recorded and not yet in effect, or not in time.
    pub(crate) fn put_in_effect(&self, file: &Path) -> Value {
        let apply = ["job", "apply", "-f", file.to_str().unwrap(), "-o", "json"];
        until("it is in effect in every group", || {
            let output = self.run(&apply);
            let (out, told) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            match output.status.code() {
                Some(0) => Some(serde_json::from_str(&out).unwrap()),
                Some(6 | 7) => None,
                _ => panic!("{apply:?}: {out}{told}"),
            }
        })
    }

    /// The same, and waits until the tables have its jobs.
    pub(crate) fn apply_file(&self, file: &Path) -> Value {
        let answer = self.put_in_effect(file);
        for change in answer["changes"].as_array().unwrap() {
            self.knows(change["name"].as_str().unwrap());
        }
        answer
    }

    /// Waits until the tables have the job.
    pub(crate) fn knows(&self, job: &str) {
        let what = format!("{job} is in the tables");
        until(&what, || self.run(&["job", "show", job]).status.success().then_some(()));
    }

    pub(crate) fn apply(&self, yaml: &str) -> Value {
        let file = self.path("jobs.yaml");
        std::fs::write(&file, yaml).unwrap();
        self.apply_file(&file)
    }

    /// Waits until this many batches of the job for these logical times have succeeded; fails where one has
    /// ended otherwise.
    pub(crate) fn succeeded(&self, query: &str, count: usize) {
        until(&format!("{count} batches of {query} succeed"), || {
            let answer = self.get(&format!("/api/batches?limit=1000&{query}"));
            let items = answer["items"].as_array().unwrap();
            let results: Vec<_> = items.iter().filter_map(|batch| batch["result"].as_str()).collect();
            assert!(results.iter().all(|result| *result == "success"), "{answer}");
            (results.len() >= count).then_some(())
        });
    }
}
