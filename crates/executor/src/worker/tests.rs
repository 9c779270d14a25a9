//! Tables of what is heard (`>`) and what comes of it.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use tidemill_model::{
    BatchId, BatchResult, Command, Ending, ExternalDependencyId, GroupName, GroupSettings, Incarnation,
    JobId, JobName, JobType, Leaving, Measure, Nonce, ObservationCommand, OnSilence, PathCheck, Program,
    Registration, RunSpec, RunningAttempt, ShardId, StartRight, Sweep, Timestamp, Token, WorkMessage,
    WorkerCommand, WorkerId,
};

use super::{Input, Looked, Output, ProcessEnd, Setup, Worker};
use crate::attempt_dir::ExitRecord;
use crate::shim::KillCause;
use crate::worker::Tag;

const ME: &str = "w-1";
const LIFE: &str = "i-1";

fn job_type(name: &str) -> JobType {
    JobType::try_from(name).unwrap()
}

pub(super) fn worker() -> Worker {
    let slots = BTreeMap::from([(job_type("shell"), 4), (job_type("noop"), 4)]);
    let registration = Registration {
        worker: WorkerId::new(ME),
        incarnation: Incarnation::new(LIFE),
        group: GroupName::try_from("g").unwrap(),
        host: "h".to_owned(),
        address: "h:1".to_owned(),
        slots,
        reserved: Default::default(),
        labels: Default::default(),
        keeps: None,
        types: BTreeMap::new(),
        live: Vec::new(),
        running: Vec::new(),
        number: 0,
        signature: "s".to_owned(),
    };
    Worker::new(Setup {
        registration,
        signing_key: ed25519_dalek::SigningKey::from_bytes(&[7; 32]),
        heartbeat_ms: 60_000,
        stop_grace_ms: 3_000,
        max_load_percent: 0,
        shard: ShardId(1),
        keeps_jobs: false,
    })
}

fn registered(life: &str, granted: &[&str], settings: GroupSettings) -> Input {
    let (incarnation, shard) = (Incarnation::new(life), ShardId(1));
    let granted = granted.iter().map(|token| Token(token.parse().unwrap())).collect();
    Input::Work(WorkMessage::Registered { incarnation, shard, settings, granted })
}

fn unregistered(life: &str, shard: Option<u16>) -> Input {
    let shard = shard.map(ShardId);
    Input::Work(WorkMessage::Unregistered { incarnation: Incarnation::new(life), shard })
}

fn assigned(token: Token, of_type: &str, checks: Vec<PathCheck>) -> Input {
    let (worker, job_type) = (WorkerId::new(ME), job_type(of_type));
    Input::Work(WorkMessage::Assigned { worker, token, job_type, checks })
}

fn granted(token: Token, of_type: &str, nonce: &str) -> Input {
    let (incarnation, spec) = (Incarnation::new(LIFE), Box::new(spec(token, of_type)));
    Input::Work(WorkMessage::Granted { incarnation, nonce: Nonce::new(nonce), spec })
}

/// With a right of 5 s from the sending of this heartbeat on.
fn assigned_with_right(token: Token, of_type: &str, heartbeat: &str, life: &str) -> Input {
    let (incarnation, heartbeat) = (Incarnation::new(life), heartbeat.parse().unwrap());
    let right = StartRight { incarnation, heartbeat, window_ms: 5_000 };
    Input::Work(WorkMessage::AssignedWithRight { right, spec: Box::new(spec(token, of_type)) })
}

fn spec(token: Token, of_type: &str) -> RunSpec {
    RunSpec {
        token,
        batch: BatchId(1),
        attempt: 1,
        job: JobId(1),
        job_name: JobName::try_from("j").unwrap(),
        group: GroupName::try_from("g").unwrap(),
        job_type: job_type(of_type),
        program: Program::Command("true".to_owned()),
        logical_time: tidemill_model::Timestamp::UNIX_EPOCH,
        logical_time_text: "1970-01-01T00:00:00Z".to_owned(),
        run: 0,
        parameters: BTreeMap::new(),
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

fn granted_as(of: &str, (of_type, nonce): (&str, &str), change: &dyn Fn(&mut RunSpec)) -> Input {
    let Input::Work(WorkMessage::Granted { incarnation, nonce, mut spec }) =
        granted(Token(of.parse().unwrap()), of_type, nonce)
    else {
        panic!("a grant")
    };
    change(&mut spec);
    Input::Work(WorkMessage::Granted { incarnation, nonce, spec })
}

/// What a line says of the machine, or of what is asked of it.
fn heard_of_seals(words: &[&str]) -> Option<Input> {
    let &["key", internal, "for", life] = words else { return None };
    let key = tidemill_seal::OwnersSecret::of(internal).public().hex();
    Some(Input::Work(WorkMessage::SealReports { incarnation: Incarnation::new(life), key }))
}

fn heard_of_machine(words: &[&str]) -> Option<Input> {
    Some(match *words {
        ["measured", free, "free,", "load", load] => Input::Measured(Measure {
            memory_total_mb: 10_000,
            memory_free_mb: free.parse().unwrap(),
            load_percent: load.parse().unwrap(),
        }),
        ["swept", removed] => {
            let removed = removed.parse().unwrap();
            Input::Swept(Box::new(Sweep { removed, ..Sweep::new(tidemill_model::Timestamp::UNIX_EPOCH) }))
        }
        ["granted", of, of_type, "for", nonce, "needs", memory] => {
            let memory_mb = Some(memory.parse().unwrap());
            granted_as(of, (of_type, nonce), &|spec| spec.memory_mb = memory_mb)
        }
        ["granted", of, of_type, "for", nonce, "as", "final"] => granted_as(of, (of_type, nonce), &|spec| {
            spec.ending = Some(Ending { result: BatchResult::Success, attempts: 1, exit_code: Some(0) });
        }),
        ["stuck", of, process] => {
            Input::Stuck { token: Token(of.parse().unwrap()), process: format!("process {process}") }
        }
        _ => return None,
    })
}

/// An attempt of an earlier life, which is named where it runs.
fn found(token: Token, end: Option<ProcessEnd>) -> Input {
    let (batch, job, logical_time) = (BatchId(1), JobId(1), Timestamp::UNIX_EPOCH);
    let runs = || RunningAttempt { token, batch, job, logical_time, is_final: false };
    Input::Found { token, of: end.is_none().then(runs), end }
}

/// What a line of a table says after `> `.
pub(super) fn heard(line: &str) -> Input {
    let (line, why) = line.split_once(": ").unwrap_or((line, ""));
    let token = |text: &str| Token(text.parse().unwrap());
    let ended =
        |of: &str, record| Input::ProcessEnded { token: token(of), end: ProcessEnd::Recorded(record) };
    let found = |of: &str, end| found(token(of), end);
    let looked = |of: &str, looked| Input::Looked { token: token(of), looked };
    let good = ExitRecord { exit_code: Some(0), ..ExitRecord::default() };
    let words: Vec<&str> = line.split(' ').collect();
    if let Some(input) = heard_of_machine(&words).or_else(|| heard_of_seals(&words)) {
        return input;
    }
    match words[..] {
        ["tick", ms] => Input::Ticked { boottime_ms: ms.parse().unwrap() },
        ["alive", ms] => Input::Acknowledged(Tag::Alive { sent_at_ms: ms.parse().unwrap() }),
        ["registered", life, "holding"] => {
            let settings = GroupSettings { on_silence: OnSilence::Hold, ..GroupSettings::default() };
            registered(life, &[], settings)
        }
        ["registered", life, ref granted @ ..] => registered(life, granted, GroupSettings::default()),
        ["unregistered", life] => unregistered(life, None),
        ["unregistered", life, "by", shard] => unregistered(life, shard.parse().ok()),
        ["assigned", of, of_type] => assigned(token(of), of_type, Vec::new()),
        ["assigned", of, of_type, "with", "a", "path"] => {
            let external_dependency = ExternalDependencyId(77);
            let check = PathCheck { external_dependency, path: "/data".into(), mark: None };
            assigned(token(of), of_type, vec![check])
        }
        ["looked", of, "there"] => looked(of, Looked::There),
        ["looked", of, "gone"] => looked(of, Looked::Gone(vec![ExternalDependencyId(77)])),
        ["looked", of, "unknown"] => looked(of, Looked::Unknown(why.to_owned())),
        ["granted", of, of_type, "for", nonce] => granted(token(of), of_type, nonce),
        ["right", of, of_type, "under", n] => assigned_with_right(token(of), of_type, n, LIFE),
        ["right", of, of_type, "under", n, "of", life] => assigned_with_right(token(of), of_type, n, life),
        ["logged", of, question] => {
            let question = question.parse().unwrap();
            Input::Acknowledged(Tag::Asked { token: token(of), question })
        }
        ["confirmed", of, "for", nonce] => {
            let (incarnation, nonce, token) = (Incarnation::new(LIFE), Nonce::new(nonce), token(of));
            Input::Work(WorkMessage::Confirmed { incarnation, nonce, token })
        }
        ["asked", "back", of] => Input::Work(WorkMessage::AskedBack { token: token(of) }),
        ["refused", of] => Input::Work(WorkMessage::Refused { token: token(of), reason: String::new() }),
        ["kill", of] => Input::Work(WorkMessage::Kill { token: token(of), grace_ms: 7 }),
        ["recorded", of] => Input::Work(WorkMessage::Recorded { token: token(of) }),
        ["started", of] => Input::ProcessStarted { token: token(of) },
        ["started", of, "not", "reported"] => Input::Failed(Tag::Started(token(of))),
        ["exited", of, code] => ended(of, ExitRecord { exit_code: Some(code.parse().unwrap()), ..good }),
        ["killed", of, why] => {
            let cause = KillCause::ALL.into_iter().find(|known| known.as_str() == why);
            ended(
                of,
                ExitRecord { exit_code: None, signal: Some(15), kill_cause: Some(cause.unwrap()), ..good },
            )
        }
        ["no", "room", "for", of] => {
            Input::ProcessEnded { token: token(of), end: ProcessEnd::NoRoom(why.to_owned()) }
        }
        ["found", of, "running"] => found(of, None),
        ["found", of, "vanished"] => found(of, Some(ProcessEnd::Vanished)),
        ["found", of, "ended"] => found(of, Some(ProcessEnd::Recorded(good))),
        ["unready"] => Input::Fitness { unready: Some(why.to_owned()) },
        ["ready"] => Input::Fitness { unready: None },
        ["missed"] => Input::Missed,
        ["stop"] => Input::Stop,
        _ => panic!("nobody says {line}"),
    }
}

/// A worker that is registered and has a lease until about 600 s.
pub(super) fn registered_worker() -> Worker {
    worker().after(&["tick 1000", "alive 1000", "registered i-1"])
}

/// A worker that runs token 8.
fn running_worker() -> Worker {
    registered_worker().after(&["assigned 8 shell", "granted 8 shell for i-1-1", "started 8"])
}

fn show(output: Output) -> String {
    match output {
        Output::Append { tag: _, command } => match command {
            Command::Worker(WorkerCommand::Register(registration)) => {
                let known: Vec<Token> = registration.running.iter().map(|of| of.token).collect();
                assert_eq!(known, registration.live, "what runs is named");
                format!("register {}, live {:?}", registration.incarnation, registration.live)
            }
            Command::Worker(WorkerCommand::Heartbeat(heartbeat)) => match heartbeat.leaving {
                None => match heartbeat.unready {
                    None => "heartbeat".to_owned(),
                    Some(why) => format!("heartbeat: {why}"),
                },
                Some(Leaving { is_empty: true, .. }) => "heartbeat: nothing is left".to_owned(),
                Some(Leaving { keeps_jobs: true, .. }) => "heartbeat: leaving, its jobs stay".to_owned(),
                Some(Leaving { keeps_jobs: false, .. }) => "heartbeat: leaving".to_owned(),
            },
            Command::Worker(WorkerCommand::RequestStart(request)) => {
                format!("request {} with {}", request.token, request.nonce)
            }
            Command::Worker(WorkerCommand::RejectAssignment {
                token,
                nonce,
                reason,
                lacks_resources,
                ..
            }) => {
                let asked = nonce.as_ref().map_or("nothing asked", Nonce::as_str);
                let lacks = if lacks_resources { ", lacking" } else { "" };
                format!("reject {token} ({asked}{lacks}): {reason}")
            }
            Command::Worker(WorkerCommand::ReportStarted { token, .. }) => format!("report {token} started"),
            Command::Worker(WorkerCommand::ReportFinished { token, outcome, interrupted, .. }) => {
                let said = match outcome.exit_code {
                    Some(code) if outcome.message.is_empty() => format!("exit code {code}"),
                    Some(_) | None => outcome.message.clone(),
                };
                let interrupted = if interrupted { ", interrupted" } else { "" };
                format!("report {token} {:?}{interrupted}: {said}", outcome.result)
            }
            Command::Observation(ObservationCommand::RecheckFailed {
                token, external_dependencies, ..
            }) => {
                format!("{token} lacks {external_dependencies:?}")
            }
            other => panic!("a worker does not send {other:?}"),
        },
        Output::Seal(_) => "seal".to_owned(),
        Output::Look { token, checks } => format!("look at {} paths of {token}", checks.len()),
        Output::Spawn { spec, lease, grace_ms } => {
            let lease = lease.map(|lease| (lease.term_at_ms, lease.kill_at_ms));
            format!("spawn {}, lease {lease:?}, grace {grace_ms}", spec.token)
        }
        Output::KillProcess { token, grace_ms, because } => {
            format!("kill {token}, grace {grace_ms}, {}", because)
        }
        Output::RenewLease(lease) => format!("lease {} {}", lease.term_at_ms, lease.kill_at_ms),
        Output::Forget { token } => format!("forget {token}"),
        Output::Exit => "exit".to_owned(),
    }
}

impl Worker {
    /// Says the lines of a table after `> `; below each stands what comes of it.
    pub(super) fn check(mut self, table: Expect) {
        let mut told = String::new();
        for line in table.data().lines().filter_map(|line| line.trim().strip_prefix("> ")) {
            told += &format!("> {line}\n");
            for output in self.step(heard(line)) {
                told += &format!("{}\n", show(output));
            }
        }
        assert!(!told.is_empty(), "nothing is said");
        table.assert_eq(&told);
    }

    /// The same worker once it has heard these.
    pub(super) fn after(mut self, lines: &[&str]) -> Self {
        for line in lines {
            self.step(heard(line));
        }
        self
    }
}

#[test]
fn registration_is_repeated_until_it_is_answered_and_again_when_the_owner_forgot() {
    worker().check(expect![[r#"
        > tick 1000
        register i-1, live []
        heartbeat
        > tick 2000
        > tick 3000
        register i-1, live []
        heartbeat
        > tick 6999
        > tick 7000
        register i-1, live []
        heartbeat
        > registered i-1
        > tick 50000
        > unregistered i-1
        register i-1.2, live []
        heartbeat
    "#]]);
}

/// DEP-6: it asks to start only what it found there; what is gone, and what nobody can tell, goes back. A look that
/// comes back too late changes nothing.
#[test]
fn paths_are_looked_at_before_the_start_is_asked_for() {
    registered_worker().check(expect![[r#"
        > assigned 8 shell with a path
        look at 1 paths of 8
        > assigned 8 shell with a path
        > looked 8 there
        request 8 with i-1-1
        > assigned 9 shell with a path
        look at 1 paths of 9
        > looked 9 gone
        9 lacks [ExternalDependencyId(77)]
        > assigned 10 shell with a path
        look at 1 paths of 10
        > looked 10 unknown: the name node is away
        reject 10 (nothing asked): cannot tell whether its paths are there: the name node is away
        > assigned 11 shell with a path
        look at 1 paths of 11
        > refused 11
        > looked 11 there
        > assigned 12 shell with a path
        look at 1 paths of 12
        > tick 31999
        request 8 with i-1-1
        > tick 32000
        reject 12 (nothing asked): cannot tell whether its paths are there: it takes too long
        > looked 12 there
        > assigned 13 shell with a path
        look at 1 paths of 13
        > stop
        heartbeat: leaving
        reject 8 (i-1-1): the worker is stopping
        reject 13 (nothing asked): the worker is stopping
        heartbeat: nothing is left
        exit
    "#]]);
}

/// Rule 8: asked once, repeated with the same nonce, started once.
#[test]
fn only_the_grant_of_the_own_nonce_starts_and_only_once() {
    registered_worker().check(expect![[r#"
        > assigned 8 shell
        request 8 with i-1-1
        > assigned 8 shell
        > tick 3000
        request 8 with i-1-1
        > granted 8 shell for i-1-1
        spawn 8, lease Some((590000, 600000)), grace 10000
        > granted 8 shell for i-1-1
        > started 8
        report 8 started
        > exited 8 0
        report 8 Success: exit code 0
        > recorded 8
        forget 8
        > granted 8 shell for i-1-1
        report 8 Lost: it does not run on this worker
        > assigned 8 shell
        > refused 8
        > granted 8 shell for i-1-2
    "#]]);
}

#[test]
fn noop_does_everything_but_fork() {
    registered_worker().check(expect![[r#"
        > assigned 8 noop
        request 8 with i-1-1
        > granted 8 noop for i-1-1
        report 8 started
        report 8 Success: exit code 0
        > recorded 8
    "#]]);
}

#[test]
fn type_without_slots_is_given_back() {
    registered_worker().check(expect![[r#"
        > assigned 8 spark
        reject 8 (nothing asked): this worker has no slots for type spark
    "#]]);
}

#[test]
fn what_is_meant_for_an_earlier_life_is_ignored() {
    worker().after(&["tick 1000"]).check(expect![[r#"
        > registered i-0
        > assigned 8 shell
        > recorded 8
        > refused 8
    "#]]);
}

/// EXE-5
#[test]
fn kill_ends_what_runs_and_proves_that_the_rest_never_starts() {
    running_worker().check(expect![[r#"
        > kill 8
        kill 8, grace 7, asked
        > killed 8 asked
        report 8 Killed: killed on request
        > kill 8
        report 8 Killed: killed on request
        > recorded 8
        forget 8
    "#]]);
    registered_worker().check(expect![[r#"
        > assigned 8 shell
        request 8 with i-1-1
        > kill 8
        report 8 Killed: killed before it started
        > granted 8 shell for i-1-1
        > recorded 8
    "#]]);
    registered_worker().check(expect![[r#"
        > kill 9
        report 9 Killed: it does not run on this worker
        > tick 3000
        report 9 Killed: it does not run on this worker
        > tick 7000
        report 9 Killed: it does not run on this worker
        > tick 15000
        report 9 Killed: it does not run on this worker
        > tick 31000
        report 9 Killed: it does not run on this worker
        > tick 61000
        heartbeat
        > tick 91000
    "#]]);
}

#[test]
fn finish_is_reported_until_it_is_on_record() {
    running_worker().check(expect![[r#"
        > exited 8 3
        report 8 Failed: exit code 3
        > tick 3000
        report 8 Failed: exit code 3
        > tick 6999
        > tick 7000
        report 8 Failed: exit code 3
        > tick 50000
        report 8 Failed: exit code 3
        > recorded 8
        forget 8
        > tick 99000
        heartbeat
    "#]]);
}

#[test]
fn start_whose_report_failed_is_reported_again() {
    running_worker().check(expect![[r#"
        > started 8 not reported
        > tick 1999
        > tick 2000
        report 8 started
        > tick 9000
    "#]]);
}

/// EXE-8: after a restart the owner's list and the worker's directories are brought together.
#[test]
fn listed_and_gone_is_reported_and_unlisted_and_there_is_ended() {
    worker().check(expect![[r#"
        > found 8 ended
        > found 9 vanished
        > found 10 ended
        > found 11 running
        > found 12 running
        > tick 1000
        register i-1, live [Token(11), Token(12)]
        heartbeat
        > registered i-1 8 9 11 13
        forget 10
        kill 12, grace 10000, disowned
        report 8 Success: exit code 0
        report 9 Lost: its shim was killed, so how it ended is not known; nothing of it runs any more
        report 13 Lost: the worker does not have it
        > killed 11 worker_gone
        report 11 Lost: killed because the worker process was gone
        > recorded 8
        forget 8
    "#]]);
}

#[test]
fn late_answer_to_an_old_registration_ends_nothing() {
    running_worker().check(expect![[r#"
        > registered i-1
    "#]]);
}

#[test]
fn what_the_owner_gave_up_is_ended() {
    running_worker().check(expect![[r#"
        > recorded 8
        kill 8, grace 10000, disowned
        > killed 8 disowned
        report 8 Lost: killed because the owner does not know of it
        > recorded 8
        forget 8
    "#]]);
}

/// Rule 9: counted from the sending of what was acknowledged.
#[test]
fn lease_counts_from_the_sending_and_only_when_acknowledged() {
    running_worker().check(expect![[r#"
        > tick 61000
        heartbeat
        > tick 62000
        > alive 61000
        lease 650000 660000
        > alive 61000
        > alive 1000
    "#]]);
}

#[test]
fn nothing_starts_after_the_lease() {
    registered_worker().check(expect![[r#"
        > assigned 8 shell
        request 8 with i-1-1
        > tick 590000
        heartbeat
        request 8 with i-1-1
        > granted 8 shell for i-1-1
        report 8 Lost: not started: the worker's lease had run out
    "#]]);
}

/// Rule 9, EXE-8: a worker that was cut off until its lease was over asks for nothing in the life that it had. A
/// sign of life that was under way all the time does not bring the lease back, and the grant that comes with it
/// is of that life.
#[test]
fn lease_that_ran_out_ends_the_life() {
    registered_worker().check(expect![[r#"
        > assigned 8 shell
        request 8 with i-1-1
        > tick 600000
        register i-1.2, live []
        heartbeat
        > tick 601000
        > alive 590000
        > granted 8 shell for i-1-1
        > tick 660000
        register i-1.2, live []
        heartbeat
        > alive 600000
    "#]]);
}

/// Rule 9, EXE-8: the same of a life that the owner has answered, and of which no sign of life was ever acknowledged: it
/// never had a lease, and the owner may have ended it all the same.
#[test]
fn life_that_is_answered_and_never_heard_of_ends_after_a_lease() {
    worker().after(&["tick 1000", "registered i-1"]).check(expect![[r#"
        > assigned 8 shell
        request 8 with i-1-1
        > tick 600000
        register i-1.2, live []
        heartbeat
        > granted 8 shell for i-1-1
        > alive 600000
    "#]]);
}

#[test]
fn group_that_holds_has_no_lease() {
    worker().after(&["tick 1000", "alive 1000", "registered i-1 holding"]).check(expect![[r#"
        > assigned 8 shell
        request 8 with i-1-1
        > granted 8 shell for i-1-1
        spawn 8, lease None, grace 10000
    "#]]);
}

/// OPS-6
#[test]
fn stop_waits_then_kills_then_says_so() {
    running_worker().after(&["assigned 9 shell"]).check(expect![[r#"
        > stop
        heartbeat: leaving
        reject 9 (i-1-2): the worker is stopping
        > assigned 10 shell
        reject 10 (nothing asked): the worker is stopping
        > granted 9 shell for i-1-2
        report 9 Lost: it does not run on this worker
        > tick 3999
        report 9 Lost: it does not run on this worker
        > tick 4000
        kill 8, grace 10000, worker_stopped
        > killed 8 worker_stopped
        report 8 Lost, interrupted: killed because the worker was stopped
        > tick 5000
        > recorded 8
        forget 8
        > recorded 9
        > tick 5100
        heartbeat: nothing is left
        exit
    "#]]);
}

#[test]
fn stopping_worker_does_not_wait_for_ever_to_be_heard() {
    running_worker().check(expect![[r#"
        > stop
        heartbeat: leaving
        > exited 8 0
        report 8 Success: exit code 0
        > tick 3000
        report 8 Success: exit code 0
        > tick 8000
        report 8 Success: exit code 0
        exit
    "#]]);
}

#[test]
fn second_stop_is_at_once() {
    running_worker().check(expect![[r#"
        > stop
        heartbeat: leaving
        > stop
        kill 8, grace 0, worker_stopped
        > killed 8 worker_stopped
        report 8 Lost, interrupted: killed because the worker was stopped
        > tick 1100
        exit
    "#]]);
    registered_worker().check(expect![[r#"
        > stop
        heartbeat: leaving
        heartbeat: nothing is left
        exit
    "#]]);
}

/// EXE-12: where jobs stay, what runs is left to the next life, and a start that is under way is waited for. A second stop
/// ends them, and says that this was the worker's doing.
#[test]
fn stopping_worker_that_keeps_jobs_leaves_what_runs() {
    let keeping = || {
        let mut worker = running_worker();
        worker.setup.keeps_jobs = true;
        worker
    };
    keeping().check(expect![[r#"
        > stop
        heartbeat: leaving, its jobs stay
        exit
    "#]]);
    // What starts may wait for the end of work elsewhere, for ever.
    keeping().after(&["assigned 9 shell", "granted 9 shell for i-1-2"]).check(expect![[r#"
        > stop
        heartbeat: leaving, its jobs stay
        > tick 90000
        heartbeat: leaving, its jobs stay
        kill 9, grace 10000, worker_stopped
        > killed 9 worker_stopped
        report 9 Lost, interrupted: killed because the worker was stopped
        > recorded 9
        forget 9
    "#]]);
    keeping().after(&["assigned 9 shell", "granted 9 shell for i-1-2"]).check(expect![[r#"
        > stop
        heartbeat: leaving, its jobs stay
        > tick 20000
        kill 9, grace 10000, worker_stopped
        > stop
        kill 8, grace 0, worker_stopped
        kill 9, grace 0, worker_stopped
        > killed 8 worker_stopped
        report 8 Lost, interrupted: killed because the worker was stopped
        > killed 9 worker_stopped
        report 9 Lost, interrupted: killed because the worker was stopped
    "#]]);
}

/// EXE-1: before a start the worker looks at the memory that is free, what it has started since counted in. What does not fit goes
/// back with the reason, and is not begun.
#[test]
fn batch_whose_memory_is_not_there_goes_back() {
    registered_worker().check(expect![[r#"
        > measured 3000 free, load 10
        > assigned 8 shell
        request 8 with i-1-1
        > granted 8 shell for i-1-1 needs 2000
        spawn 8, lease Some((590000, 600000)), grace 10000
        > assigned 9 shell
        request 9 with i-1-2
        > granted 9 shell for i-1-2 needs 2000
        reject 9 (i-1-2, lacking): it needs 2000 MiB of memory, and 1000 MiB are free
        > granted 9 shell for i-1-2 needs 2000
        > refused 9
        > measured 2500 free, load 10
        > assigned 10 shell
        request 10 with i-1-3
        > granted 10 shell for i-1-3 needs 2000
        spawn 10, lease Some((590000, 600000)), grace 10000
    "#]]);
}

/// MON-7, EXE-1: above its bound of load no work is taken, until the load is well below; both are said at once.
#[test]
fn overloaded_worker_takes_nothing_until_it_has_recovered() {
    let mut worker = registered_worker();
    worker.setup.max_load_percent = 200;
    worker.check(expect![[r#"
        > measured 3000 free, load 200
        > assigned 8 shell
        request 8 with i-1-1
        > measured 3000 free, load 201
        heartbeat: its load is 201 %, and its bound is 200 %
        > granted 8 shell for i-1-1
        reject 8 (i-1-1, lacking): its load is 201 %, and its bound is 200 %
        > assigned 9 shell
        request 9 with i-1-2
        > granted 9 shell for i-1-2 as final
        spawn 9, lease Some((590000, 600000)), grace 10000
        > measured 3000 free, load 161
        > measured 3000 free, load 160
        heartbeat
        > assigned 10 shell
        request 10 with i-1-3
    "#]]);
}

/// ZMB-2: while a process cannot be killed its worker takes nothing but final commands, and says why; it recovers by itself.
#[test]
fn worker_with_a_process_that_cannot_be_killed_takes_nothing() {
    running_worker().check(expect![[r#"
        > stuck 7 70
        > stuck 8 71
        heartbeat: process 71 of attempt 8 cannot be killed
        > assigned 9 shell
        request 9 with i-1-2
        > granted 9 shell for i-1-2
        reject 9 (i-1-2, lacking): process 71 of attempt 8 cannot be killed
        > killed 8 asked
        heartbeat
        report 8 Killed: killed on request
    "#]]);
}

/// EXE-8, CLN-1: a heartbeat says how many slots are free, what runs, and what the last sweep came to.
#[test]
fn heartbeat_says_what_runs_and_what_was_swept() {
    let mut worker = running_worker().after(&["assigned 9 shell", "swept 3"]);
    let status = worker
        .step(heard("tick 90000"))
        .into_iter()
        .find_map(|output| match output {
            Output::Append { command: Command::Worker(WorkerCommand::Heartbeat(heartbeat)), .. } => {
                heartbeat.status
            }
            _ => None,
        })
        .unwrap();
    let slots: u32 = worker.setup.registration.slots.values().sum();
    assert_eq!((status.free_slots, status.running, status.attempts), (slots - 2, 1, vec![Token(8)]));
    assert_eq!(status.sweep.unwrap().removed, 3);
}

/// EXE-8: a life that the owner has ended is over; what still runs is presented by the next.
#[test]
fn worker_whose_life_was_ended_begins_another() {
    running_worker().check(expect![[r#"
        > assigned 9 shell
        request 9 with i-1-2
        > unregistered i-1
        register i-1.2, live [Token(8)]
        heartbeat
        > unregistered i-1
        > granted 9 shell for i-1-2
        > registered i-1.2
        kill 8, grace 10000, disowned
        > assigned 9 shell
        request 9 with i-1.2-3
    "#]]);
}

/// EXE-11: what somebody writes in its name to another shard makes that one say so; its own shard has said nothing.
#[test]
fn worker_goes_by_its_own_shard_alone() {
    running_worker().check(expect![[r#"
        > unregistered i-1 by 2
        > unregistered i-1 by 1
        register i-1.2, live [Token(8)]
        heartbeat
    "#]]);
}

/// EXE-10: an owner that has read a registration and does not know the life has refused it, as one that another life has replaced.
#[test]
fn worker_that_is_refused_registers_as_another_life() {
    worker().check(expect![[r#"
        > tick 1
        register i-1, live []
        heartbeat
        > unregistered i-1
        > tick 2001
        register i-1, live []
        heartbeat
        > unregistered i-1
        > tick 4000
        > tick 6001
        register i-1.2, live []
        heartbeat
        > registered i-1.2
        > unregistered i-1.2 by 1
        register i-1.3, live []
        heartbeat
    "#]]);
}

#[test]
fn worker_that_missed_something_asks_for_everything() {
    running_worker().check(expect![[r#"
        > missed
        register i-1, live [Token(8)]
        heartbeat
        > registered i-1 8
    "#]]);
}

/// Else the owner would wait for the end of what never begins.
#[test]
fn grant_to_a_question_that_was_given_up_is_answered_with_lost() {
    registered_worker().check(expect![[r#"
        > assigned 8 shell
        request 8 with i-1-1
        > refused 8
        > granted 8 shell for i-1-1
        report 8 Lost: it does not run on this worker
        > recorded 8
        > assigned 9 shell
        request 9 with i-1-2
        > granted 9 shell for i-1-0
        report 9 Lost: it does not run on this worker
        > granted 9 shell for i-1-2
        > recorded 9
    "#]]);
}

/// EXE-1: what cannot be written down goes back, again and again until it was taken back, and costs nothing.
#[test]
fn granted_attempt_without_room_is_given_back_until_it_is_taken_back() {
    worker().after(&["tick 1000", "registered i-1"]).check(expect![[r#"
        > alive 1000
        lease 590000 600000
        > assigned 1 shell
        request 1 with i-1-1
        > granted 1 shell for i-1-1
        spawn 1, lease Some((590000, 600000)), grace 10000
        > no room for 1: full
        reject 1 (i-1-1, lacking): full
        > tick 3000
        reject 1 (i-1-1, lacking): full
        > refused 1
        > tick 60000
        > kill 1
        report 1 Killed: it does not run on this worker
    "#]]);
}

/// MON-7: a worker that can take no work says so at once, gives back what it is assigned, and says when it can again.
#[test]
fn unready_worker_says_so_and_takes_nothing() {
    worker().after(&["tick 1000", "registered i-1"]).check(expect![[r#"
        > unready: full
        heartbeat: full
        > assigned 1 shell
        reject 1 (nothing asked): full
        > ready
        heartbeat
        > assigned 2 shell
        request 2 with i-1-1
    "#]]);
}

/// EXE-4: where a path decides, the exit code is told and does not count.
#[test]
fn output_path_decides_and_not_the_exit_code() {
    let ended = |exit_code, exists: Result<bool, &str>| {
        let record = ExitRecord { exit_code: Some(exit_code), ..ExitRecord::default() };
        let exists = exists.map_err(Into::into);
        let (outcome, _) =
            super::outcome::of_process(ProcessEnd::Checked { record, path: "/a".to_owned(), exists });
        (outcome.result, outcome.exit_code, outcome.message)
    };
    use tidemill_model::AttemptResult::{Failed, Success};
    assert_eq!(ended(7, Ok(true)), (Success, Some(7), String::new()));
    assert_eq!(ended(0, Ok(false)), (Failed, Some(0), "its output path /a does not exist".to_owned()));
    let (result, _, message) = ended(0, Err("no answer"));
    assert_eq!(
        (result, message.as_str()),
        (Failed, "whether its output path /a exists is not known: no answer")
    );
}

/// ZMB-1: what would be lost has succeeded if its output is newer than its start, else it has failed, saying so; where nobody knows
/// it is lost. Stores tell times to the second.
#[test]
fn newer_output_alone_saves_what_would_be_lost() {
    use tidemill_model::AttemptResult::{Failed, Lost, Success};
    let since: Timestamp = "2026-03-02T10:00:00.700Z".parse().unwrap();
    let lease = || {
        let kill_cause = Some(crate::shim::KillCause::Lease);
        Some(ExitRecord { signal: Some(9), kill_cause, duration_ms: 7, ..ExitRecord::default() })
    };
    let at = |text: &str| Ok(Some(text.parse().unwrap()));
    for (record, changed_at, expected, said) in [
        (None, at("2026-03-02T10:00:01Z"), Success, "so it has succeeded"),
        (lease(), at("2026-03-02T10:00:00Z"), Success, "so it has succeeded"),
        (None, at("2026-03-02T10:00:00.700Z"), Success, "so it has succeeded"),
        (None, at("2026-03-02T10:00:00.699Z"), Failed, "proves nothing"),
        (None, at("2026-03-02T09:59:59Z"), Failed, "proves nothing"),
        (lease(), Ok(None), Failed, "does not exist"),
        (lease(), Err("no answer".into()), Lost, "is not known: no answer"),
        (None, Err("no answer".into()), Lost, "is not known: no answer"),
    ] {
        let (why, has_usage) = match &record {
            Some(_) => ("lease ran out", true),
            None => ("its shim was killed", false),
        };
        let signal = record.as_ref().and_then(|record| record.signal).filter(|_| expected == Lost);
        let values = Ok([("rows".to_owned(), "7".to_owned())].into());
        let end = ProcessEnd::Judged { record, path: "/a".to_owned(), values, since, changed_at };
        let (outcome, usage) = super::outcome::of_process(end);
        assert_eq!((outcome.result, outcome.signal, usage.is_some()), (expected, signal, has_usage));
        assert!(outcome.message.contains(why) && outcome.message.contains(said), "{}", outcome.message);
        assert_eq!(outcome.values.len(), usize::from(expected != Lost));
    }
}

/// ZMB-1, EXE-5, BYD-20: what a lease made of the exit code means neither *nothing to do* nor *no retry*, and what cannot be passed on fails
/// what a newer output would save.
#[test]
fn code_of_a_lost_attempt_means_nothing_and_its_values_do() {
    use tidemill_model::AttemptResult::{Failed, Lost};
    let since: Timestamp = "2026-03-02T10:00:00Z".parse().unwrap();
    let judged = |changed_at, values: Result<BTreeMap<_, _>, _>| {
        let kill_cause = Some(crate::shim::KillCause::Lease);
        let record = Some(ExitRecord { exit_code: Some(3), kill_cause, ..ExitRecord::default() });
        let end = ProcessEnd::Judged { record, path: "/a".to_owned(), values, since, changed_at };
        super::outcome::of_process(end).0
    };
    let failed = judged(Ok(None), Ok(BTreeMap::new()));
    assert_eq!((failed.result, failed.exit_code), (Failed, None));
    let unknown = judged(Err("no answer".into()), Ok(BTreeMap::new()));
    assert_eq!((unknown.result, unknown.exit_code), (Lost, Some(3)));
    let faulty = judged(Ok(Some(since)), Err("is no JSON".to_owned()));
    assert_eq!(faulty.result, Failed);
    assert!(faulty.message.contains("TIDEMILL_VALUES names is no JSON"), "{}", faulty.message);
}

/// BYD-20: what it passes on is in the outcome whoever decides how it ended; what cannot be taken fails one that would
/// have succeeded.
#[test]
fn values_are_in_the_outcome_whatever_decides() {
    use tidemill_model::AttemptResult::{Failed, Success};
    let ended = |exit_code, checked: Option<bool>, values_fault: Option<&str>| {
        let values: BTreeMap<_, _> = match values_fault {
            Some(_) => BTreeMap::new(),
            None => [("rows".to_owned(), "7".to_owned())].into(),
        };
        let values_fault = values_fault.map(str::to_owned);
        let record = ExitRecord { exit_code: Some(exit_code), values, values_fault, ..ExitRecord::default() };
        let end = match checked {
            Some(exists) => ProcessEnd::Checked { record, path: "/a".to_owned(), exists: Ok(exists) },
            None => ProcessEnd::Recorded(record),
        };
        let (outcome, _) = super::outcome::of_process(end);
        (outcome.result, outcome.values.len(), outcome.message)
    };
    assert_eq!(ended(0, None, None), (Success, 1, String::new()));
    assert_eq!(ended(3, None, None), (Failed, 1, String::new()));
    assert_eq!(ended(3, Some(true), None), (Success, 1, String::new()));
    assert_eq!(ended(0, Some(false), None), (Failed, 1, "its output path /a does not exist".to_owned()));
    let fault = "the file that TIDEMILL_VALUES names is bad".to_owned();
    assert_eq!(ended(0, None, Some("is bad")), (Failed, 0, fault.clone()));
    assert_eq!(ended(3, None, Some("is bad")), (Failed, 0, fault.clone()));
    assert_eq!(ended(3, Some(true), Some("is bad")), (Failed, 0, fault));
}

/// EXE-13, EXE-4: where the final state decides, an output path does not make a success of work that failed, or of work that nobody
/// could ask for; by the exit code it does, and the message says what is not known.
#[test]
fn final_state_counts_before_the_output_path() {
    use crate::attempt_dir::ExternalRecord;
    use crate::external_work::ExternalState::{self, Failed as HasFailed, Succeeded};
    use tidemill_model::AttemptResult::{Failed, Lost, Success};
    let id = tidemill_model::ExternalWorkId::try_from("application_1").unwrap();
    let ended = |state: Option<ExternalState>, unconfirmed, decides| {
        let work = state.map(|state| (id.clone(), Some(state))).into_iter().collect();
        let external = Some(ExternalRecord { work, unconfirmed, decides });
        let record = ExitRecord { exit_code: Some(0), external, ..ExitRecord::default() };
        let end = ProcessEnd::Checked { record, path: "/a".to_owned(), exists: Ok(true) };
        super::outcome::of_process(end).0
    };
    assert_eq!(ended(Some(Succeeded), false, true).result, Success);
    let failed = ended(Some(HasFailed), false, true);
    assert_eq!(
        (failed.result, &*failed.message),
        (Failed, "its external work application_1 ended as failed")
    );
    assert_eq!(ended(Some(HasFailed), false, false).result, Success);
    assert_eq!(ended(None, true, true).result, Lost);
    let unconfirmed = ended(None, true, false);
    assert_eq!(unconfirmed.result, Success);
    assert_eq!(unconfirmed.message, "whether its external work has ended is not known");
}
