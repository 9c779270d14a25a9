//! EXE-11: somebody who can append to the commands topic and has no key forges no report (ADR 48).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidemill_log::{From, Log, Producer, Reader, Topic, append_wait};
use tidemill_model::{
    Actor, AttemptOutcome, Command, CommandRecord, Event, ExternalDependencyId, Heartbeat, Json as _,
    Leaving, Level, ObservationCommand, ObservationEvent, PathAnswer, Registration, ShardId, Timestamp,
    Token, WorkerCommand, seal_parts,
};

use crate::kit::{Cluster, History, until};

const JOBS: &str = r#"
jobs:
- name: waits
  group: demo
  type: shell
  command: 'touch "$TIDEMILL_PARAM_DIR/started-$TIDEMILL_BATCH-$TIDEMILL_ATTEMPT"; until test -e "$TIDEMILL_PARAM_DIR/go"; do sleep 0.05; done'
- name: coded
  group: demo
  type: python
  success_check: user_code
  command: |
    import json, os, time, urllib.request
    while not os.path.exists(os.environ["TIDEMILL_PARAM_DIR"] + "/go"):
        time.sleep(0.05)
    url = os.environ["TIDEMILL_PARAM_API"] + "/api/attempts/" + os.environ["TIDEMILL_TOKEN"] + "/code"
    headers = {"Authorization": "Bearer " + os.environ["TIDEMILL_ATTEMPT_KEY"], "Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url, json.dumps({"code": 0}).encode(), headers))
- {name: nothing, group: demo, type: noop}
- {name: fed, group: demo, type: noop, inputs: [/nobody/makes/this]}
"#;
const TIME: Timestamp = Timestamp::constant(1_704_067_200);
/// The executor, and its host.
const HOST: &str = "host";

/// Who reads the commands, and appends to them.
struct Attacker {
    log: Arc<dyn Log>,
    producer: Arc<dyn Producer>,
    reader: Box<dyn Reader>,
    shard: ShardId,
    seen: Vec<(CommandRecord, Vec<u8>)>,
}

impl Attacker {
    fn new(cluster: &Cluster) -> Self {
        let log = cluster.log();
        let reader = log.reader(Topic::Commands, Cluster::DEMO, From::Start).unwrap();
        let producer = log.producer().unwrap();
        let shard = ShardId(Cluster::DEMO as u16);
        Self { log, producer, reader, shard, seen: Vec::new() }
    }

    fn sees(&mut self) {
        loop {
            let records = self.reader.poll(1_000, Duration::from_millis(200)).unwrap();
            if records.is_empty() {
                return;
            }
            for record in records {
                let value = record.value.to_vec();
                self.seen.extend(CommandRecord::decode(&value).ok().map(|command| (command, value)));
            }
        }
    }

    /// The newest record of some kind.
    fn find<T>(&mut self, what: &str, of: impl Fn(&WorkerCommand, &[u8]) -> Option<T>) -> T {
        until(what, || {
            self.sees();
            self.seen.iter().rev().find_map(|(record, value)| match &record.command {
                Command::Worker(command) => of(command, value),
                _ => None,
            })
        })
    }

    /// The tokens for whose start the worker has asked, once there are so many.
    fn asked(&mut self, count: usize) -> BTreeSet<Token> {
        until("the worker asks", || {
            self.sees();
            let asked = self.seen.iter().filter_map(|(record, _)| match &record.command {
                Command::Worker(WorkerCommand::RequestStart(request)) => Some(request.token),
                _ => None,
            });
            let asked: BTreeSet<Token> = asked.collect();
            (asked.len() == count).then_some(asked)
        })
    }

    fn appends(&self, value: Vec<u8>) {
        let partition = self.shard.partition(self.log.partitions(Topic::Commands));
        let (key, patience) = (self.shard.to_string(), Duration::from_secs(60));
        append_wait(&*self.producer, Topic::Commands, partition, key.as_bytes(), value, patience).unwrap();
    }

    /// Without a seal, and with that of another report.
    fn says(&self, command: &Command, sealed: &[u8]) {
        let actor = Actor { app: "worker".into(), user: None };
        let command = command.clone();
        let record = CommandRecord { shard: self.shard, request: None, reply_to: None, actor, command };
        let body = record.to_json().into_bytes();
        let (before, _) = seal_parts(sealed);
        self.appends([&body, &sealed[before.len()..]].concat());
        self.appends(body);
    }
}

fn apply(cluster: &Cluster) {
    let dir = format!("dir={}", cluster.path("").display());
    let file = cluster.path("jobs.yaml");
    std::fs::write(&file, JOBS).unwrap();
    let api = format!("api=http://{}", cluster.listens());
    cluster.json(&["job", "apply", "-f", file.to_str().unwrap(), "--param", &dir, "--param", &api]);
    cluster.knows("demo/nothing");
}

fn run(cluster: &Cluster, job: &str, at: Timestamp) {
    let job = cluster.json(&["job", "show", job])["id"].clone();
    cluster.run_job(&job, at);
}

fn stands_at(cluster: &Cluster, level: u32) {
    until(&format!("level {level} stands"), || {
        let output = cluster.run(&["level", "show", "-o", "json"]);
        let state: Value = serde_json::from_slice(&output.stdout).ok()?;
        (state["level"] == level).then_some(())
    });
}

/// A heartbeat that the worker has sealed for itself.
fn sealed_heartbeat(attacker: &mut Attacker) -> (Heartbeat, Vec<u8>) {
    attacker.find("the worker seals", |command, value| match command {
        WorkerCommand::Heartbeat(heartbeat) if seal_parts(value).1.is_some() => {
            Some((heartbeat.clone(), value.to_vec()))
        }
        _ => None,
    })
}

/// What would end an attempt, or its worker's share in it.
fn forgeries(
    tokens: &BTreeSet<Token>,
    heartbeat: Heartbeat,
    (registration, waited_for): (Registration, ExternalDependencyId),
) -> Vec<Command> {
    let Heartbeat { worker, incarnation, .. } = heartbeat.clone();
    let number = heartbeat.number + 1_000_000;
    let (leaving, unready) = (Some(Leaving { keeps_jobs: false, is_empty: true }), Some("forged".to_owned()));
    let mut forged = vec![
        WorkerCommand::Heartbeat(Heartbeat { leaving, number, ..heartbeat.clone() }),
        WorkerCommand::Heartbeat(Heartbeat { unready, number, ..heartbeat }),
        WorkerCommand::DeclareLost { worker: worker.clone(), incarnation },
        WorkerCommand::Register(Box::new(Registration {
            live: Vec::new(),
            running: Vec::new(),
            address: "127.0.0.1:1".to_owned(),
            number,
            ..registration
        })),
    ];
    for &token in tokens {
        forged.push(WorkerCommand::ReportFinished {
            token,
            worker: worker.clone(),
            outcome: AttemptOutcome::success(),
            usage: None,
            interrupted: false,
            external: None,
        });
        let (worker, nonce, reason) = (worker.clone(), None, "forged".to_owned());
        forged.push(WorkerCommand::RejectAssignment { token, worker, nonce, reason, lacks_resources: false });
        let seals = [String::new(), "00".repeat(32)];
        forged.extend(seals.map(|seal| WorkerCommand::ReportUserCode { token, code: 0, seal }));
    }
    let found = |generation| PathAnswer { external_dependency: waited_for, generation, exists: true };
    let answers: Vec<_> = (0..3).map(found).collect();
    let seals = [String::new(), "00".repeat(32)];
    let answers = seals.map(|seal| ObservationCommand::ReportPaths { answers: answers.clone(), seal }.into());
    forged.into_iter().map(Command::from).chain(answers).collect()
}

/// EXE-11, EXE-4, DEP-1: an end, a sign of life, a registration, an assignment given back, a code and a path found by somebody else
/// change nothing, and the worker goes on to the end of what it runs.
#[test]
fn who_can_append_forges_no_report() {
    let mut cluster = Cluster::start();
    cluster.start_executor(HOST, 5_000);
    apply(&cluster);
    stands_at(&cluster, Level::READS.number());
    let mut attacker = Attacker::new(&cluster);
    sealed_heartbeat(&mut attacker);
    run(&cluster, "demo/waits", TIME);
    run(&cluster, "demo/coded", TIME);
    let tokens = attacker.asked(2);
    let registration: Registration = attacker.find("it has registered", |command, _| match command {
        WorkerCommand::Register(registration) => Some((**registration).clone()),
        _ => None,
    });
    run(&cluster, "demo/fed", TIME);
    let told = |kind: &'static str| cluster.journal().events().filter(|event| event.kind() == kind).count();
    let waited_for = until("its path is waited for", || {
        cluster.journal().events().find_map(|event| match event {
            Event::Observation(ObservationEvent::ExternalDependencyRegistered {
                external_dependency,
                ..
            }) => Some(*external_dependency),
            _ => None,
        })
    });
    let (heartbeat, sealed) = sealed_heartbeat(&mut attacker);
    for forged in forgeries(&tokens, heartbeat, (registration, waited_for)) {
        attacker.says(&forged, &sealed);
    }
    // Decided in order, so what was appended before it has been read.
    run(&cluster, "demo/nothing", TIME);
    cluster.succeeded("group=demo&state=finished", 1);
    for kind in [
        "user_code.reported",
        "worker.leaving",
        "worker.left",
        "worker.unready",
        "worker.lost",
        "assignment.returned",
        "external_dependency.satisfied",
    ] {
        assert_eq!(told(kind), 0, "{kind}");
    }
    assert_eq!(told("batch.finished"), 1, "what runs goes on");
    assert_eq!(
        cluster.json(&["worker", "ls"])["items"][0]["address"].as_str().map(|at| at == "127.0.0.1:1"),
        Some(false)
    );
    std::fs::write(cluster.path("go"), "").unwrap();
    cluster.succeeded("group=demo&state=finished", 3);
    assert_eq!((told("start.granted"), told("user_code.reported"), told("command.dead_lettered")), (3, 1, 0));
    History::of(cluster.journal().events());
}

/// Every role but the executor begins again.
fn replace(cluster: &mut Cluster) {
    for name in ["dispatcher-1", "dispatcher-2"] {
        cluster.role(name).stop();
        cluster.start_dispatcher(name);
    }
    cluster.role("projector").stop();
    cluster.start_role("projector", "projector", &[]);
    let listen = cluster.listens();
    cluster.role("api").stop();
    cluster.start_api_at("api", &listen);
}

/// EXE-11, OPS-9: the level from which on reports are sealed is raised while a job runs, and after that `internal.key` is changed:
/// the worker seals, then seals for the new key, in the same life, and its job runs once.
#[test]
fn job_goes_on_while_seals_begin_and_their_key_is_changed() {
    let mut cluster = Cluster::start_with(&[
        ("PROCESS__READS", "2"),
        ("PROCESS__HEARTBEAT_MS", "500"),
        ("PROCESS__EXPIRE_AFTER_MS", "5000"),
        ("INTERNAL_KEY", "a key of the first days"),
    ]);
    stands_at(&cluster, 2);
    cluster.set("PROCESS__READS", "3");
    cluster.start_executor(HOST, 5_000);
    apply(&cluster);
    run(&cluster, "demo/waits", TIME);
    let mut attacker = Attacker::new(&cluster);
    let token = attacker.asked(1).pop_first().unwrap();
    replace(&mut cluster);
    stands_at(&cluster, 3);
    let (first, _) = sealed_heartbeat(&mut attacker);
    cluster.set("INTERNAL_KEY", "another key of the cluster");
    replace(&mut cluster);
    attacker.seen.clear();
    let again = attacker.find("it registers again, sealed", |command, value| match command {
        WorkerCommand::Register(registration) if seal_parts(value).1.is_some() => {
            Some((**registration).clone())
        }
        _ => None,
    });
    assert_eq!((&again.incarnation, &again.live[..]), (&first.incarnation, &[token][..]), "in the same life");
    std::fs::write(cluster.path("go"), "").unwrap();
    cluster.succeeded("group=demo", 1);
    let told = |kind: &'static str| cluster.journal().events().filter(|event| event.kind() == kind).count();
    assert_eq!((told("start.granted"), told("worker.lost"), told("assignment.returned")), (1, 0, 0));
    History::of(cluster.journal().events());
}
