//! Reports of workers count only with their seal (ADR 48). All tests here are about EXE-11: who can append to the topic, and
//! has no key, forges nothing.

use ed25519_dalek::SigningKey;
use tidemill_dispatcher::Config;
use tidemill_engine::Effect;
use tidemill_model::{
    Actor, AttemptOutcome, BatchCommand, BatchId, Command, CommandRecord, ExternalDependencyId,
    GroupSettings, Heartbeat, Incarnation, InstanceId, JobId, Level, LevelCommand, Nonce, ObservationCommand,
    OutputAnswer, OutputFound, PathAnswer, Process, Registration, RequestId, ShardId, StartRequest, Token,
    WorkMessage, WorkerCommand, WorkerId,
};
use tidemill_seal::{GroupSecret, OwnersSecret, SealKey};

use crate::kit::client::submission;
use crate::kit::requester::{GROUP, MIDNIGHT, Requester};
use crate::kit::worker::registration;

const INTERNAL: &str = "internal";

/// What a life of a worker seals with.
fn key_of(internal: &str, group_key: u8, worker: &str, life: &str) -> SealKey {
    let group_key = SigningKey::from_bytes(&[group_key; 32]);
    let secret = GroupSecret::of_worker(&group_key, &OwnersSecret::of(internal).public()).unwrap();
    secret.life(&"demo".try_into().unwrap(), &WorkerId::new(worker), &Incarnation::new(life))
}

fn own_key() -> SealKey {
    key_of(INTERNAL, 7, "w1", "life-1")
}

fn body(command: Command) -> Vec<u8> {
    let (shard, actor) = (GROUP, Actor::default());
    let record = CommandRecord { shard, request: None, reply_to: None, actor, command };
    serde_json::to_vec(&record).unwrap()
}

fn heartbeat(life: &str, number: u64) -> Command {
    let (worker, incarnation) = (WorkerId::new("w1"), Incarnation::new(life));
    let heartbeat = Heartbeat {
        worker,
        incarnation,
        number,
        measure: None,
        unready: Some("its disk is full".to_owned()).filter(|_| number == 99),
        excesses: Vec::new(),
        leaving: None,
        external_work: Vec::new(),
        status: None,
    };
    WorkerCommand::Heartbeat(heartbeat).into()
}

fn register(life: &str, number: u64) -> Command {
    let registration = Registration { number, ..registration("w1", life, 2) };
    WorkerCommand::Register(Box::new(registration)).into()
}

fn question(token: Token, life: &str) -> Command {
    let (worker, incarnation) = (WorkerId::new("w1"), Incarnation::new(life));
    WorkerCommand::RequestStart(StartRequest { token, worker, incarnation, nonce: Nonce::new("n") }).into()
}

fn finished(token: Token) -> Command {
    let (worker, outcome, usage) = (WorkerId::new("w1"), AttemptOutcome::success(), None);
    let (interrupted, external) = (false, None);
    WorkerCommand::ReportFinished { token, worker, outcome, usage, interrupted, external }.into()
}

fn started(token: Token) -> Command {
    WorkerCommand::ReportStarted { token, worker: WorkerId::new("w1") }.into()
}

fn rejected(token: Token, nonce: Option<&str>) -> Command {
    let (worker, nonce, reason) = (WorkerId::new("w1"), nonce.map(Nonce::new), "no".to_owned());
    WorkerCommand::RejectAssignment { token, worker, nonce, reason, lacks_resources: false }.into()
}

fn config(internal: &str) -> Config {
    Config { reports: Some(OwnersSecret::of(internal)), ..Config::default() }
}

/// An owner of a partition at level 3.
fn sealing(config: Config) -> Requester {
    let mut requester = Requester::with(config);
    requester.own();
    raise(&mut requester);
    requester
}

fn raise(requester: &mut Requester) {
    let process = Process {
        id: InstanceId::new("one"),
        host: "h".to_owned(),
        roles: vec!["dispatcher".to_owned()],
        version: "1".to_owned(),
        reads: Level::new(3),
        expire_after_ms: 86_400_000,
    };
    requester.submit_request(
        ShardId::CATALOGUE,
        LevelCommand::RegisterProcess { process: Box::new(process), number: 0 }.into(),
    );
    for _ in 0..3 {
        requester.settle();
    }
    assert_eq!(requester.owner.state().unwrap().level(), Level::new(3));
}

/// The same, with a worker whose reports are sealed.
fn furnished() -> Requester {
    let mut requester = sealing(config(INTERNAL));
    requester.furnish(settings());
    requester
}

fn settings() -> GroupSettings {
    GroupSettings { lost_after_ms: 30_000, lease_ms: 60_000, lease_margin_ms: 5_000, ..Default::default() }
}

fn say(requester: &mut Requester, value: Vec<u8>) {
    requester.submit_request_raw(value);
    requester.settle();
}

/// Submits a job; gives the token by which the worker has it.
fn assigned(requester: &mut Requester, name: &str) -> Token {
    requester.submit_request(GROUP, submission(name));
    requester.settle();
    assigned_last(requester).expect("it is assigned")
}

fn assigned_last(requester: &Requester) -> Option<Token> {
    let token = |act: &Effect| match act {
        Effect::Work { message: WorkMessage::Assigned { token, .. }, .. } => Some(*token),
        Effect::Work { message: WorkMessage::AssignedWithRight { spec, .. }, .. } => Some(spec.token),
        _ => None,
    };
    requester.acts.iter().rev().find_map(token)
}

/// Whom the owner has told the key, by life.
fn told(requester: &Requester) -> Vec<(String, String)> {
    let of = |act: &Effect| match act {
        Effect::Work { message: WorkMessage::SealReports { incarnation, key }, .. } => {
            Some((incarnation.to_string(), key.clone()))
        }
        _ => None,
    };
    requester.acts.iter().filter_map(of).collect()
}

/// What somebody can make of a report who has not its worker's key.
fn forged(report: &Command) -> Vec<(&'static str, Vec<u8>)> {
    let plain = || body(report.clone());
    let another = own_key().seal(body(heartbeat("life-1", 1)));
    let taken_over = [plain(), another[another.len() - 33..].to_vec()].concat();
    vec![
        ("not sealed", plain()),
        ("by another group", key_of(INTERNAL, 8, "w1", "life-1").seal(plain())),
        ("for another owner", key_of("other", 7, "w1", "life-1").seal(plain())),
        ("of another worker", key_of(INTERNAL, 7, "w2", "life-1").seal(plain())),
        ("of another life", key_of(INTERNAL, 7, "w1", "life-0").seal(plain())),
        ("with the seal of another report", taken_over),
    ]
}

/// The worker hears the key before the answer to its registration, so that it seals whatever it says after that.
#[test]
fn key_goes_before_the_answer_to_a_registration() {
    let requester = furnished();
    let to_worker = requester.acts.iter().filter_map(|act| match act {
        Effect::Work { message, .. } => Some(message),
        _ => None,
    });
    let messages: Vec<&WorkMessage> = to_worker.collect();
    let [WorkMessage::SealReports { incarnation, key }, WorkMessage::Registered { .. }] = messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!((incarnation.as_str(), key), ("life-1", &OwnersSecret::of(INTERNAL).public().hex()));
}

#[test]
fn report_counts_with_the_seal_of_its_workers_present_life_alone() {
    let mut requester = furnished();
    let token = assigned(&mut requester, "a");
    let gone = ObservationCommand::RecheckFailed {
        token,
        worker: WorkerId::new("w1"),
        external_dependencies: vec![ExternalDependencyId(1)],
    };
    let before_its_start = [
        question(token, "life-1"),
        rejected(token, None),
        heartbeat("life-1", 99),
        register("life-1", 9),
        gone.into(),
    ];
    let while_it_runs = [started(token), finished(token), rejected(token, Some("n"))];
    let mut refused = 0;
    let mut nobody_forges = |requester: &mut Requester, reports: &[Command]| {
        for report in reports {
            for (how, value) in forged(report) {
                let before = requester.kinds().len();
                requester.acts.clear();
                say(requester, value);
                refused += 1;
                assert_eq!(requester.kinds_since(before), [""; 0], "{how}: {report:?}");
                assert_eq!(requester.owner.refused_reports(), refused, "{how}: {report:?}");
                assert_eq!(requester.acts.len(), told(requester).len(), "{how}: {report:?}");
            }
        }
    };
    nobody_forges(&mut requester, &before_its_start);
    say(&mut requester, own_key().seal(body(question(token, "life-1"))));
    assert!(requester.kinds().ends_with(&["start.granted".to_owned()]), "{:?}", requester.kinds());
    nobody_forges(&mut requester, &while_it_runs);
    say(&mut requester, own_key().seal(body(started(token))));
    assert!(requester.kinds().ends_with(&["attempt.started".to_owned()]), "{:?}", requester.kinds());
    let before = requester.kinds().len();
    say(&mut requester, own_key().seal(body(finished(token))));
    assert!(requester.kinds_since(before).contains(&"batch.finished".to_owned()), "{:?}", requester.kinds());
}

/// Nor does whoever appends as much as they can fill the journal or the dead letters, or have its worker register for ever.
#[test]
fn flood_of_forged_reports_fills_nothing_and_is_decided_past() {
    let mut requester = furnished();
    let token = assigned(&mut requester, "a");
    requester.acts.clear();
    let (records, kinds) = (requester.journal.len(), requester.kinds().len());
    for number in 0..2_000 {
        requester.submit_request_raw(body(finished(token)));
        requester.submit_request_raw(body(heartbeat("life-1", number)));
    }
    requester.settle();
    requester.pass(5_500);
    requester.settle();
    assert_eq!(requester.owner.refused_reports(), 4_000);
    assert_eq!(requester.kinds_since(kinds), [""; 0]);
    assert!(requester.journal.len() <= records + 2, "{} records more", requester.journal.len() - records);
    assert_eq!(
        requester.owner.state().unwrap().resume().unwrap().offset,
        requester.commands.len() as u64 - 1
    );
    assert_eq!(requester.acts.len(), told(&requester).len());
    assert!(told(&requester).len() <= 2, "{:?}", told(&requester));
    // The next owner reads nothing of it again.
    requester.another("next");
    requester.own();
    assert_eq!(requester.owner.refused_reports(), 0);
}

/// Rule 9: signs of life count in the order in which they were sent, each once.
#[test]
fn repeated_sign_of_life_keeps_no_dead_worker_alive() {
    let mut requester = furnished();
    let heard: Vec<Vec<u8>> = [
        own_key().seal(body(heartbeat("life-1", 1))),
        own_key().seal(body(register("life-1", 1))),
        own_key().seal(body(heartbeat("life-1", 2))),
    ]
    .into();
    for value in &heard {
        say(&mut requester, value.clone());
    }
    assert_eq!(requester.owner.refused_reports(), 0);
    let before = requester.kinds().len();
    for _ in 0..4 {
        requester.pass(10_000);
        for value in &heard {
            say(&mut requester, value.clone());
        }
    }
    assert_eq!(requester.owner.refused_reports(), 12);
    assert_eq!(requester.kinds_since(before), ["worker.lost"]);
    say(&mut requester, own_key().seal(body(heartbeat("life-1", 3))));
    assert_eq!(requester.kinds_since(before), ["worker.lost", "worker.recovered"]);
}

/// Whoever has seen the registration of a life that has ended does not take the worker back to it.
#[test]
fn life_that_has_ended_is_not_registered_again() {
    let mut requester = furnished();
    say(&mut requester, body(register("life-2", 5)));
    let before = requester.kinds().len();
    say(&mut requester, body(register("life-1", 0)));
    say(&mut requester, own_key().seal(body(register("life-1", 0))));
    assert_eq!((requester.kinds_since(before), requester.owner.refused_reports()), (Vec::new(), 2));
    // What the life before has asked, and the group's key has sealed, is its owner's to judge.
    say(&mut requester, own_key().seal(body(question(Token::mint(8, GROUP), "life-1"))));
    say(&mut requester, own_key().seal(body(finished(Token::mint(8, GROUP)))));
    assert_eq!(requester.owner.refused_reports(), 3);
}

/// OPS-9: a worker that registered below the level goes on unsealed until it has registered again.
#[test]
fn level_is_raised_while_a_worker_runs_something() {
    let mut requester = Requester::with(config(INTERNAL));
    requester.own();
    requester.furnish(settings());
    let token = assigned(&mut requester, "a");
    say(&mut requester, body(question(token, "life-1")));
    say(&mut requester, body(started(token)));
    say(&mut requester, body(heartbeat("life-1", 1)));
    assert_eq!(told(&requester), []);
    raise(&mut requester);
    requester.acts.clear();
    let key = OwnersSecret::of(INTERNAL).public().hex();
    for number in 2..20 {
        say(&mut requester, body(heartbeat("life-1", number)));
    }
    assert_eq!(told(&requester), [("life-1".to_owned(), key)]);
    let second = assigned(&mut requester, "b");
    say(&mut requester, body(question(second, "life-1")));
    say(&mut requester, own_key().seal(body(register("life-1", 19))));
    assert_eq!(requester.owner.refused_reports(), 0);
    say(&mut requester, body(finished(token)));
    assert_eq!(requester.owner.refused_reports(), 1);
    let before = requester.kinds().len();
    for token in [token, second] {
        say(&mut requester, own_key().seal(body(finished(token))));
    }
    let finished = requester.kinds_since(before).into_iter().filter(|kind| kind == "batch.finished");
    assert_eq!((finished.count(), requester.owner.refused_reports()), (2, 1));
}

/// After `internal.key` was changed its owner says the new key to whoever seals for the old one.
#[test]
fn worker_hears_of_another_key_and_goes_on() {
    let mut requester = furnished();
    let token = assigned(&mut requester, "a");
    requester.start.config = config("changed");
    requester.another("next");
    requester.own();
    requester.acts.clear();
    say(&mut requester, own_key().seal(body(question(token, "life-1"))));
    let changed = OwnersSecret::of("changed").public().hex();
    assert_eq!(told(&requester), [("life-1".to_owned(), changed)]);
    let key = key_of("changed", 7, "w1", "life-1");
    for report in [register("life-1", 1), question(token, "life-1"), finished(token)] {
        say(&mut requester, key.seal(body(report)));
    }
    assert!(requester.kinds().contains(&"batch.finished".to_owned()), "{:?}", requester.kinds());
}

/// Rule 8: a question that was sealed for the owner before may have started something, so its right is not taken for over; one that is
/// not sealed at all is nobody's, nor is one of a worker that knows the key.
#[test]
fn question_for_the_owner_before_keeps_its_right() {
    let returned_after = |is_sealed: bool, knows_key: bool| {
        let rights = |internal| Config { keeps_acknowledged: true, ..config(internal) };
        let mut requester = sealing(rights(INTERNAL));
        requester.furnish(settings());
        say(&mut requester, own_key().seal(body(heartbeat("life-1", 1))));
        let token = assigned(&mut requester, "a");
        assert!(
            requester.kinds().contains(&"batch.assigned_with_right".to_owned()),
            "{:?}",
            requester.kinds()
        );
        requester.start.config = rights("changed");
        requester.another("next");
        requester.own();
        let changed = key_of("changed", 7, "w1", "life-1");
        if knows_key {
            say(&mut requester, changed.seal(body(heartbeat("life-1", 2))));
        }
        let question = body(question(token, "life-1"));
        say(&mut requester, if is_sealed { own_key().seal(question) } else { question });
        for number in 3..15 {
            requester.pass(5_000);
            say(&mut requester, changed.seal(body(heartbeat("life-1", number))));
        }
        requester.kinds().contains(&"assignment.returned".to_owned())
    };
    assert!(returned_after(false, false));
    assert!(returned_after(true, true));
    assert!(!returned_after(true, false));
}

/// Rule 9: a worker goes by a lease from its last sign of life that the log has, also where its owner passes that over, for the key
/// was changed and the worker has not heard of it. It counts as lost meanwhile, and its lease is not over.
#[test]
fn lease_of_a_deaf_worker_that_seals_for_the_owner_before_is_not_over() {
    let expired = |signs: &dyn Fn(u64) -> Vec<u8>, knows_key: bool| {
        let mut requester = furnished();
        requester.start.config = config("changed");
        requester.another("next");
        requester.own();
        if knows_key {
            let changed = key_of("changed", 7, "w1", "life-1");
            say(&mut requester, changed.seal(body(heartbeat("life-1", 1))));
        }
        for number in 2..40 {
            requester.pass(5_000);
            say(&mut requester, signs(number));
        }
        let kinds = requester.kinds();
        assert!(kinds.contains(&"worker.lost".to_owned()), "{kinds:?}");
        let expired = kinds.contains(&"lease.expired".to_owned());
        requester.pass(66_000);
        requester.settle();
        assert!(requester.kinds().contains(&"lease.expired".to_owned()), "once it is silent");
        expired
    };
    let for_the_owner_before = |number| own_key().seal(body(heartbeat("life-1", number)));
    assert!(!expired(&for_the_owner_before, false));
    assert!(expired(&for_the_owner_before, true), "a worker that knows the key seals for no other owner");
}

/// EXE-4: a code comes from an interface, which has checked the attempt's key.
#[test]
fn code_counts_with_the_seal_of_an_interface_alone() {
    let mut requester = furnished();
    let token = asked_for_shell(&mut requester, serde_json::json!("user_code"));
    let code = WorkerCommand::ReportUserCode { token, code: 0, seal: String::new() }.into();
    counts_with_a_seal_alone(&mut requester, code, &["user_code.reported"]);
}

/// DEP-1: what is found of a path comes from a prober, which knows `internal.key`.
#[test]
fn answer_about_a_path_counts_with_the_seal_of_a_prober_alone() {
    let mut requester = furnished();
    let spec = serde_json::json!({
        "name": "waits", "group": "demo", "type": "noop", "inputs": ["/data/in"],
    });
    let job = requester.apply(spec);
    run(&mut requester, job);
    let external_dependency = ExternalDependencyId::mint(1, GROUP);
    let answers = vec![PathAnswer { external_dependency, generation: 1, exists: true }];
    let found = ObservationCommand::ReportPaths { answers, seal: String::new() }.into();
    let happens = ["external_dependency.satisfied", "batch.assigned"];
    counts_with_a_seal_alone(&mut requester, found, &happens);
}

/// ZMB-1: what is found of the output of a lost attempt, which decides whether it has succeeded, does too.
#[test]
fn answer_about_an_output_counts_with_the_seal_of_a_prober_alone() {
    let mut requester = furnished();
    let token = asked_for_shell(&mut requester, serde_json::json!({ "output_path": "/data/out" }));
    for _ in 0..2 {
        requester.pass(66_000);
        requester.settle();
    }
    let kinds = requester.kinds();
    assert!(kinds.contains(&"attempt.output_queried".to_owned()), "{kinds:?}");
    let batch = BatchId::mint(1, GROUP);
    let at = requester.moment.wall;
    let answers = vec![OutputAnswer { batch, token, found: OutputFound::Changed { at } }];
    let found = ObservationCommand::ReportOutputs { answers, seal: String::new() }.into();
    counts_with_a_seal_alone(&mut requester, found, &["attempt.output_answered", "batch.finished"]);
}

/// An attempt of type shell for whose start its worker has asked.
fn asked_for_shell(requester: &mut Requester, success_check: serde_json::Value) -> Token {
    let mut shell = registration("w1", "life-1", 2);
    shell.slots = [("shell".try_into().unwrap(), 2)].into();
    say(requester, own_key().seal(body(WorkerCommand::Register(Box::new(shell)).into())));
    let job = requester.apply(serde_json::json!({
        "name": "a", "group": "demo", "type": "shell", "command": "true", "success_check": success_check,
    }));
    run(requester, job);
    let token = assigned_last(requester).expect("it is assigned");
    say(requester, own_key().seal(body(question(token, "life-1"))));
    token
}

fn run(requester: &mut Requester, job: JobId) {
    let (logical_time, parameters) = (Some(MIDNIGHT), Default::default());
    requester.submit_request(
        GROUP,
        BatchCommand::RunJob { job, logical_time, parameters, concurrent: false }.into(),
    );
    requester.settle();
}

/// With no seal, that of another request, another cluster or a worker it changes nothing; with its own, this happens.
fn counts_with_a_seal_alone(requester: &mut Requester, command: Command, happens: &[&str]) {
    let value = |request: &str, command| {
        let (request, actor) = (Some(RequestId::new(request)), Actor::default());
        serde_json::to_vec(&CommandRecord { shard: GROUP, request, reply_to: None, actor, command }).unwrap()
    };
    let sealed = |internal: &str, request: &str| {
        OwnersSecret::of(internal).sealed(command.clone(), GROUP, Some(&RequestId::new(request)))
    };
    let (before, refused) = (requester.kinds().len(), requester.owner.refused_reports());
    for value in [
        value("q", command.clone()),
        value("q", sealed(INTERNAL, "another")),
        value("q", sealed("other", "q")),
        own_key().seal(value("q", command.clone())),
    ] {
        say(requester, value);
    }
    assert_eq!((requester.kinds_since(before), requester.owner.refused_reports()), (Vec::new(), refused + 4));
    say(requester, value("q", sealed(INTERNAL, "q")));
    assert_eq!(requester.kinds_since(before), happens);
}

/// Rule 9: silences and rights that are over are the owner's to see, and nobody's to say.
#[test]
fn what_only_an_owner_sees_is_refused_from_the_topic() {
    let mut requester = furnished();
    let token = assigned(&mut requester, "a");
    let (worker, incarnation) = (WorkerId::new("w1"), Incarnation::new("life-1"));
    let before = requester.kinds().len();
    for command in [
        WorkerCommand::DeclareLost { worker: worker.clone(), incarnation: incarnation.clone() },
        WorkerCommand::ExpireLease { worker: worker.clone(), incarnation: incarnation.clone() },
        WorkerCommand::WarnOfLease { worker, incarnation },
        WorkerCommand::EndStartRight { token },
    ] {
        say(&mut requester, body(command.clone().into()));
        say(&mut requester, own_key().seal(body(command.into())));
    }
    assert_eq!(requester.kinds_since(before), [""; 0]);
}

/// An owner answers a report of an attempt that it does not know so that its worker ends it, so a report that goes to another shard
/// than that of its attempt is passed over, sealed or not.
#[test]
fn report_to_another_shard_than_that_of_its_attempt_is_passed_over() {
    let mut requester = furnished();
    let token = assigned(&mut requester, "a");
    let (before, refused) = (requester.acts.len(), requester.owner.refused_reports());
    let foreign = Token::mint(token.counter(), ShardId(GROUP.0 + 8));
    let reports = [finished(foreign), question(foreign, "life-1"), started(foreign), rejected(foreign, None)];
    for report in &reports {
        say(&mut requester, body(report.clone()));
        say(&mut requester, own_key().seal(body(report.clone())));
    }
    assert_eq!(requester.acts.len(), before, "nobody is spoken to");
    assert_eq!(requester.owner.refused_reports(), refused + 8);
}

/// EXE-10, rule 9: a registration that comes late, of a life that nobody knew, replaces the life that runs attempts. What that says
/// keeps the lease of the worker, so that nothing of it is started again beside it.
#[test]
fn lease_of_a_life_that_an_older_one_replaced_is_not_over() {
    let expired = |signs: &dyn Fn(u64) -> Vec<u8>, has_sealed: bool, is_new_owner: bool| {
        let mut requester = furnished();
        if has_sealed {
            say(&mut requester, own_key().seal(body(heartbeat("life-1", 1))));
        }
        let token = assigned(&mut requester, "a");
        say(&mut requester, own_key().seal(body(question(token, "life-1"))));
        say(&mut requester, body(register("life-0", 0)));
        if is_new_owner {
            requester.another("next");
            requester.own();
            say(&mut requester, key_of(INTERNAL, 7, "w1", "life-0").seal(body(heartbeat("life-0", 1))));
        }
        for number in 2..40 {
            requester.pass(5_000);
            say(&mut requester, signs(number));
        }
        let kinds = requester.kinds();
        let said = |kind: &str| kinds.contains(&kind.to_owned());
        assert!(
            said("worker.lost") && said("worker.lease_half_over"),
            "people hear that it is silent: {kinds:?}"
        );
        let expired = kinds.contains(&"lease.expired".to_owned());
        requester.pass(66_000);
        requester.settle();
        assert!(requester.kinds().contains(&"lease.expired".to_owned()), "once it is silent");
        expired
    };
    let sealed = |number| own_key().seal(body(heartbeat("life-1", number)));
    let again = |_| own_key().seal(body(heartbeat("life-1", 1)));
    let plain = |number| body(heartbeat("life-1", number));
    let unknown = |number| body(heartbeat("life-9", number));
    for is_new_owner in [false, true] {
        let expired = |signs: &dyn Fn(u64) -> Vec<u8>, has_sealed| expired(signs, has_sealed, is_new_owner);
        assert!(!expired(&sealed, true) && !expired(&sealed, false));
        assert_eq!(
            expired(&plain, false),
            is_new_owner,
            "it may not have heard the key, if the worker has not"
        );
        assert!(expired(&plain, true), "it seals");
        assert!(expired(&again, true), "what was said before says nothing new");
        assert!(expired(&unknown, false), "a life that never registered holds nothing");
    }
}
