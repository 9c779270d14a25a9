//! Tables of what is heard (`>`) and what comes of it.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use tidemill_model::{
    BatchId, Command, ExternalDependencyId, GroupName, GroupSettings, Incarnation, JobId, JobName, JobType,
    Nonce, ObservationCommand, OnSilence, PathCheck, Program, Registration, RunSpec, ShardId, Token,
    WorkMessage, WorkerCommand, WorkerId,
};

use super::{Input, LOOK_WITHIN_MS, Looked, Output, ProcessEnd, Setup, Worker};
use crate::attempt_dir::ExitRecord;
use crate::shim::KillCause;
use crate::worker::Tag;

const ME: &str = "w-1";
const LIFE: &str = "i-1";

fn job_type(name: &str) -> JobType {
    JobType::try_from(name).unwrap()
}

fn worker() -> Worker {
    let slots = BTreeMap::from([(job_type("shell"), 4), (job_type("noop"), 4)]);
    let registration = Registration {
        worker: WorkerId::new(ME),
        incarnation: Incarnation::new(LIFE),
        group: GroupName::try_from("g").unwrap(),
        host: "h".to_owned(),
        address: "h:1".to_owned(),
        slots: slots.clone(),
        reserved: Default::default(),
        labels: Default::default(),
        live: Vec::new(),
        signature: "s".to_owned(),
    };
    Worker::new(Setup {
        worker: WorkerId::new(ME),
        incarnation: Incarnation::new(LIFE),
        registration,
        signing_key: ed25519_dalek::SigningKey::from_bytes(&[7; 32]),
        slots,
        heartbeat_ms: 60_000,
        stop_grace_ms: 3_000,
    })
}

fn tick(boottime_ms: u64) -> Input {
    Input::Ticked { boottime_ms }
}

fn registered(granted: &[i64]) -> Input {
    Input::Work(WorkMessage::Registered {
        incarnation: Incarnation::new(LIFE),
        shard: ShardId(1),
        settings: GroupSettings::default(),
        granted: granted.iter().map(|token| Token(*token)).collect(),
    })
}

fn assigned(token: i64, of_type: &str) -> Input {
    let worker = WorkerId::new(ME);
    Input::Work(WorkMessage::Assigned {
        worker,
        token: Token(token),
        job_type: job_type(of_type),
        checks: Vec::new(),
    })
}

fn granted(token: i64, of_type: &str, nonce: &str) -> Input {
    let spec = RunSpec {
        token: Token(token),
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
        run_as: None,
        output_path: None,
        ending: None,
    };
    let incarnation = Incarnation::new(LIFE);
    Input::Work(WorkMessage::Granted { incarnation, nonce: Nonce::new(nonce), spec: Box::new(spec) })
}

fn kill(token: i64) -> Input {
    Input::Work(WorkMessage::Kill { token: Token(token), grace_ms: 7 })
}

fn recorded(token: i64) -> Input {
    Input::Work(WorkMessage::Recorded { token: Token(token) })
}

fn assigned_with_path(token: i64) -> Input {
    let checks =
        vec![PathCheck { external_dependency: ExternalDependencyId(77), path: "/data".into(), mark: None }];
    let (worker, job_type) = (WorkerId::new(ME), job_type("shell"));
    Input::Work(WorkMessage::Assigned { worker, token: Token(token), job_type, checks })
}

fn looked(token: i64, looked: Looked) -> Input {
    Input::Looked { token: Token(token), looked }
}

fn refused(token: i64) -> Input {
    Input::Work(WorkMessage::Refused { token: Token(token), reason: String::new() })
}

fn started(token: i64) -> Input {
    Input::ProcessStarted { token: Token(token) }
}

fn exited(token: i64, exit_code: i32) -> Input {
    let record = ExitRecord { exit_code: Some(exit_code), ..ExitRecord::default() };
    Input::ProcessEnded { token: Token(token), end: ProcessEnd::Recorded(record) }
}

fn killed(token: i64, because: KillCause) -> Input {
    let record = ExitRecord { signal: Some(15), kill_cause: Some(because), ..ExitRecord::default() };
    Input::ProcessEnded { token: Token(token), end: ProcessEnd::Recorded(record) }
}

fn alive(sent_at_ms: u64) -> Input {
    Input::Acknowledged(Tag::Alive { sent_at_ms })
}

/// A worker that is registered and has a lease until about 600 s.
pub(super) fn registered_worker() -> Worker {
    let mut worker = worker();
    for input in [tick(1_000), alive(1_000), registered(&[])] {
        worker.step(input);
    }
    worker
}

/// A worker that runs token 8.
fn running_worker() -> Worker {
    let mut worker = registered_worker();
    for input in [assigned(8, "shell"), granted(8, "shell", "i-1-1"), started(8)] {
        worker.step(input);
    }
    worker
}

fn show(output: Output) -> String {
    match output {
        Output::Append { tag: _, command } => match command {
            Command::Worker(WorkerCommand::Register(registration)) => {
                format!("register {}, live {:?}", registration.incarnation, registration.live)
            }
            Command::Worker(WorkerCommand::Heartbeat(_)) => "heartbeat".to_owned(),
            Command::Worker(WorkerCommand::RequestStart(request)) => {
                format!("request {} with {}", request.token, request.nonce)
            }
            Command::Worker(WorkerCommand::RejectAssignment { token, nonce, reason, .. }) => {
                let asked = nonce.as_ref().map_or("nothing asked", Nonce::as_str);
                format!("reject {token} ({asked}): {reason}")
            }
            Command::Worker(WorkerCommand::ReportStarted { token, .. }) => format!("report {token} started"),
            Command::Worker(WorkerCommand::ReportFinished { token, outcome, .. }) => {
                let said = match outcome.exit_code {
                    Some(code) if outcome.message.is_empty() => format!("exit code {code}"),
                    Some(_) | None => outcome.message.clone(),
                };
                format!("report {token} {:?}: {said}", outcome.result)
            }
            Command::Observation(ObservationCommand::RecheckFailed {
                token, external_dependencies, ..
            }) => {
                format!("{token} lacks {external_dependencies:?}")
            }
            other => panic!("a worker does not send {other:?}"),
        },
        Output::Look { token, checks } => format!("look at {} paths of {token}", checks.len()),
        Output::Spawn { spec, lease, grace_ms } => {
            let lease = lease.map(|lease| (lease.term_at_ms, lease.kill_at_ms));
            format!("spawn {}, lease {lease:?}, grace {grace_ms}", spec.token)
        }
        Output::KillProcess { token, grace_ms, because } => {
            format!("kill {token}, grace {grace_ms}, {}", because.as_str())
        }
        Output::RenewLease(lease) => format!("lease {} {}", lease.term_at_ms, lease.kill_at_ms),
        Output::Forget { token } => format!("forget {token}"),
        Output::Exit => "exit".to_owned(),
    }
}

fn name(input: &Input) -> String {
    match input {
        Input::Work(WorkMessage::Granted { nonce, .. }) => format!("granted for {nonce}"),
        Input::Work(WorkMessage::Registered { granted, .. }) => format!("registered, granted {granted:?}"),
        Input::Work(message) => {
            let text = format!("{message:?}");
            text.split([' ', '{', '(']).next().unwrap_or_default().to_lowercase()
        }
        Input::Ticked { boottime_ms } => format!("tick {boottime_ms}"),
        Input::Measured(_) => "measured".to_owned(),
        Input::Acknowledged(_) => "acknowledged".to_owned(),
        Input::Failed(_) => "append failed".to_owned(),
        Input::ProcessStarted { .. } => "process started".to_owned(),
        Input::ProcessEnded { .. } => "process ended".to_owned(),
        Input::Found { .. } => "found".to_owned(),
        Input::Looked { looked, .. } => format!("looked: {looked:?}"),
        Input::Fitness { unready } => unready.clone().unwrap_or_else(|| "fit".to_owned()),
        Input::Missed => "missed".to_owned(),
        Input::Stop => "stop".to_owned(),
    }
}

fn check(mut worker: Worker, inputs: impl IntoIterator<Item = Input>, expected: Expect) {
    let mut told = String::new();
    for input in inputs {
        told += &format!("> {}\n", name(&input));
        for output in worker.step(input) {
            told += &format!("{}\n", show(output));
        }
    }
    expected.assert_eq(&told);
}

#[test]
fn registration_is_repeated_until_it_is_answered_and_again_when_the_owner_forgot() {
    let unregistered = || Input::Work(WorkMessage::Unregistered { incarnation: Incarnation::new(LIFE) });
    let inputs = [
        tick(1_000),
        tick(2_000),
        tick(3_000),
        tick(6_999),
        tick(7_000),
        registered(&[]),
        tick(50_000),
        unregistered(),
    ];
    check(
        worker(),
        inputs,
        expect![[r#"
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
            > registered, granted []
            > tick 50000
            > unregistered
            register i-1.2, live []
            heartbeat
        "#]],
    );
}

/// DEP-6: it asks to start only what it found there; what is gone, and what nobody can tell, goes back. A look that
/// comes back too late changes nothing.
#[test]
fn paths_are_looked_at_before_the_start_is_asked_for() {
    let inputs = [
        assigned_with_path(8),
        assigned_with_path(8),
        looked(8, Looked::There),
        assigned_with_path(9),
        looked(9, Looked::Gone(vec![ExternalDependencyId(77)])),
        assigned_with_path(10),
        looked(10, Looked::Unknown("the name node is away".to_owned())),
        assigned_with_path(11),
        refused(11),
        looked(11, Looked::There),
        assigned_with_path(12),
        tick(1_000 + LOOK_WITHIN_MS + 999),
        tick(1_000 + LOOK_WITHIN_MS + 1_000),
        looked(12, Looked::There),
        assigned_with_path(13),
        Input::Stop,
    ];
    check(
        registered_worker(),
        inputs,
        expect![[r#"
            > assigned
            look at 1 paths of 8
            > assigned
            > looked: There
            request 8 with i-1-1
            > assigned
            look at 1 paths of 9
            > looked: Gone([ExternalDependencyId(77)])
            9 lacks [ExternalDependencyId(77)]
            > assigned
            look at 1 paths of 10
            > looked: Unknown("the name node is away")
            reject 10 (nothing asked): cannot tell whether its paths are there: the name node is away
            > assigned
            look at 1 paths of 11
            > refused
            > looked: There
            > assigned
            look at 1 paths of 12
            > tick 31999
            request 8 with i-1-1
            > tick 32000
            reject 12 (nothing asked): cannot tell whether its paths are there: it takes too long
            > looked: There
            > assigned
            look at 1 paths of 13
            > stop
            reject 8 (i-1-1): the worker is stopping
            reject 13 (nothing asked): the worker is stopping
            exit
        "#]],
    );
}

/// Rule 8: asked once, repeated with the same nonce, started once.
#[test]
fn only_the_grant_of_the_own_nonce_starts_and_only_once() {
    let inputs = [
        assigned(8, "shell"),
        assigned(8, "shell"),
        tick(3_000),
        granted(8, "shell", "i-1-1"),
        granted(8, "shell", "i-1-1"),
        started(8),
        exited(8, 0),
        recorded(8),
        granted(8, "shell", "i-1-1"),
        assigned(8, "shell"),
        refused(8),
        granted(8, "shell", "i-1-2"),
    ];
    check(
        registered_worker(),
        inputs,
        expect![[r#"
            > assigned
            request 8 with i-1-1
            > assigned
            > tick 3000
            request 8 with i-1-1
            > granted for i-1-1
            spawn 8, lease Some((590000, 600000)), grace 10000
            > granted for i-1-1
            > process started
            report 8 started
            > process ended
            report 8 Success: exit code 0
            > recorded
            forget 8
            > granted for i-1-1
            report 8 Lost: it does not run on this worker
            > assigned
            > refused
            > granted for i-1-2
        "#]],
    );
}

#[test]
fn noop_does_everything_but_fork() {
    let inputs = [assigned(8, "noop"), granted(8, "noop", "i-1-1"), recorded(8)];
    check(
        registered_worker(),
        inputs,
        expect![[r#"
            > assigned
            request 8 with i-1-1
            > granted for i-1-1
            report 8 started
            report 8 Success: exit code 0
            > recorded
        "#]],
    );
}

#[test]
fn type_without_slots_is_given_back() {
    check(
        registered_worker(),
        [assigned(8, "spark")],
        expect![[r#"
            > assigned
            reject 8 (nothing asked): this worker has no slots for type spark
        "#]],
    );
}

#[test]
fn what_is_meant_for_an_earlier_life_is_ignored() {
    let other = Incarnation::new("i-0");
    let settings = GroupSettings::default();
    let old =
        WorkMessage::Registered { incarnation: other, shard: ShardId(1), settings, granted: Vec::new() };
    let inputs = [tick(1_000), Input::Work(old), assigned(8, "shell"), recorded(8), refused(8)];
    check(
        worker(),
        inputs,
        expect![[r#"
            > tick 1000
            register i-1, live []
            heartbeat
            > registered, granted []
            > assigned
            > recorded
            > refused
        "#]],
    );
}

/// EXE-5
#[test]
fn kill_ends_what_runs_and_proves_that_the_rest_never_starts() {
    let inputs = [kill(8), killed(8, KillCause::Asked), kill(8), recorded(8)];
    check(
        running_worker(),
        inputs,
        expect![[r#"
        > kill
        kill 8, grace 7, asked
        > process ended
        report 8 Killed: killed on request
        > kill
        report 8 Killed: killed on request
        > recorded
        forget 8
    "#]],
    );
    let inputs = [assigned(8, "shell"), kill(8), granted(8, "shell", "i-1-1"), recorded(8)];
    check(
        registered_worker(),
        inputs,
        expect![[r#"
        > assigned
        request 8 with i-1-1
        > kill
        report 8 Killed: killed before it started
        > granted for i-1-1
        > recorded
    "#]],
    );
    let unknown = [kill(9), tick(3_000), tick(7_000), tick(15_000), tick(31_000), tick(61_000), tick(91_000)];
    check(
        registered_worker(),
        unknown,
        expect![[r#"
        > kill
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
    "#]],
    );
}

#[test]
fn finish_is_reported_until_it_is_on_record() {
    let inputs =
        [exited(8, 3), tick(3_000), tick(6_999), tick(7_000), tick(50_000), recorded(8), tick(99_000)];
    check(
        running_worker(),
        inputs,
        expect![[r#"
            > process ended
            report 8 Failed: exit code 3
            > tick 3000
            report 8 Failed: exit code 3
            > tick 6999
            > tick 7000
            report 8 Failed: exit code 3
            > tick 50000
            report 8 Failed: exit code 3
            > recorded
            forget 8
            > tick 99000
            heartbeat
        "#]],
    );
}

#[test]
fn start_whose_report_failed_is_reported_again() {
    let inputs = [Input::Failed(Tag::Started(Token(8))), tick(1_999), tick(2_000), tick(9_000)];
    check(
        running_worker(),
        inputs,
        expect![[r#"
        > append failed
        > tick 1999
        > tick 2000
        report 8 started
        > tick 9000
    "#]],
    );
}

/// EXE-8: after a restart the owner's list and the worker's directories are brought together.
#[test]
fn listed_and_gone_is_reported_and_unlisted_and_there_is_ended() {
    let found = |token, end| Input::Found { token: Token(token), end };
    let ended = ExitRecord { exit_code: Some(0), ..ExitRecord::default() };
    let inputs = [
        found(8, Some(ProcessEnd::Recorded(ended.clone()))),
        found(9, Some(ProcessEnd::Vanished)),
        found(10, Some(ProcessEnd::Recorded(ended))),
        found(11, None),
        found(12, None),
        tick(1_000),
        registered(&[8, 9, 11, 13]),
        killed(11, KillCause::WorkerGone),
        recorded(8),
    ];
    check(
        worker(),
        inputs,
        expect![[r#"
            > found
            > found
            > found
            > found
            > found
            > tick 1000
            register i-1, live [Token(11), Token(12)]
            heartbeat
            > registered, granted [Token(8), Token(9), Token(11), Token(13)]
            forget 10
            kill 12, grace 10000, disowned
            report 8 Success: exit code 0
            report 9 Lost: its shim was killed, so how it ended is not known; nothing of it runs any more
            report 13 Lost: the worker does not have it
            > process ended
            report 11 Lost: killed because the worker process was gone
            > recorded
            forget 8
        "#]],
    );
}

#[test]
fn late_answer_to_an_old_registration_ends_nothing() {
    check(
        running_worker(),
        [registered(&[])],
        expect![[r#"
            > registered, granted []
        "#]],
    );
}

#[test]
fn what_the_owner_gave_up_is_ended() {
    let inputs = [recorded(8), killed(8, KillCause::Disowned), recorded(8)];
    check(
        running_worker(),
        inputs,
        expect![[r#"
        > recorded
        kill 8, grace 10000, disowned
        > process ended
        report 8 Lost: killed because the owner does not know of it
        > recorded
        forget 8
    "#]],
    );
}

/// Rule 9: counted from the sending of what was acknowledged.
#[test]
fn lease_counts_from_the_sending_and_only_when_acknowledged() {
    let inputs = [tick(61_000), tick(62_000), alive(61_000), alive(61_000), alive(1_000)];
    check(
        running_worker(),
        inputs,
        expect![[r#"
        > tick 61000
        heartbeat
        > tick 62000
        > acknowledged
        lease 650000 660000
        > acknowledged
        > acknowledged
    "#]],
    );
}

#[test]
fn nothing_starts_after_the_lease() {
    let inputs = [assigned(8, "shell"), tick(590_000), granted(8, "shell", "i-1-1")];
    check(
        registered_worker(),
        inputs,
        expect![[r#"
        > assigned
        request 8 with i-1-1
        > tick 590000
        heartbeat
        request 8 with i-1-1
        > granted for i-1-1
        report 8 Lost: not started: the worker's lease had run out
    "#]],
    );
}

/// Rule 9, EXE-8: a worker that was cut off until its lease was over asks for nothing in the life that it had. A
/// sign of life that was under way all the time does not bring the lease back, and the grant that comes with it
/// is of that life.
#[test]
fn lease_that_ran_out_ends_the_life() {
    let inputs = [
        assigned(8, "shell"),
        tick(600_000),
        tick(601_000),
        alive(590_000),
        granted(8, "shell", "i-1-1"),
        tick(660_000),
        alive(600_000),
    ];
    check(
        registered_worker(),
        inputs,
        expect![[r#"
            > assigned
            request 8 with i-1-1
            > tick 600000
            register i-1.2, live []
            heartbeat
            > tick 601000
            > acknowledged
            > granted for i-1-1
            > tick 660000
            register i-1.2, live []
            heartbeat
            > acknowledged
        "#]],
    );
}

/// Rule 9, EXE-8: the same of a life that the owner has answered, and of which no sign of life was ever acknowledged: it
/// never had a lease, and the owner may have ended it all the same.
#[test]
fn life_that_is_answered_and_never_heard_of_ends_after_a_lease() {
    let mut worker = worker();
    for input in [tick(1_000), registered(&[])] {
        worker.step(input);
    }
    let inputs = [assigned(8, "shell"), tick(600_000), granted(8, "shell", "i-1-1"), alive(600_000)];
    check(
        worker,
        inputs,
        expect![[r#"
            > assigned
            request 8 with i-1-1
            > tick 600000
            register i-1.2, live []
            heartbeat
            > granted for i-1-1
            > acknowledged
        "#]],
    );
}

#[test]
fn group_that_holds_has_no_lease() {
    let settings = GroupSettings { on_silence: OnSilence::Hold, ..GroupSettings::default() };
    let incarnation = Incarnation::new(LIFE);
    let answer = WorkMessage::Registered { incarnation, shard: ShardId(1), settings, granted: Vec::new() };
    let inputs =
        [tick(1_000), alive(1_000), Input::Work(answer), assigned(8, "shell"), granted(8, "shell", "i-1-1")];
    check(
        worker(),
        inputs,
        expect![[r#"
            > tick 1000
            register i-1, live []
            heartbeat
            > acknowledged
            > registered, granted []
            > assigned
            request 8 with i-1-1
            > granted for i-1-1
            spawn 8, lease None, grace 10000
        "#]],
    );
}

/// OPS-6
#[test]
fn stop_waits_then_kills_then_says_so() {
    let mut worker = running_worker();
    worker.step(assigned(9, "shell"));
    let inputs = [
        Input::Stop,
        assigned(10, "shell"),
        granted(9, "shell", "i-1-2"),
        tick(3_999),
        tick(4_000),
        killed(8, KillCause::WorkerStopped),
        tick(5_000),
        recorded(8),
        recorded(9),
        tick(5_100),
    ];
    check(
        worker,
        inputs,
        expect![[r#"
            > stop
            reject 9 (i-1-2): the worker is stopping
            > assigned
            > granted for i-1-2
            report 9 Lost: it does not run on this worker
            > tick 3999
            report 9 Lost: it does not run on this worker
            > tick 4000
            kill 8, grace 10000, worker_stopped
            > process ended
            report 8 Lost: killed because the worker was stopped
            > tick 5000
            > recorded
            forget 8
            > recorded
            > tick 5100
            exit
        "#]],
    );
}

#[test]
fn stopping_worker_does_not_wait_for_ever_to_be_heard() {
    let inputs = [Input::Stop, exited(8, 0), tick(3_000), tick(8_000)];
    check(
        running_worker(),
        inputs,
        expect![[r#"
            > stop
            > process ended
            report 8 Success: exit code 0
            > tick 3000
            report 8 Success: exit code 0
            > tick 8000
            report 8 Success: exit code 0
            exit
        "#]],
    );
}

#[test]
fn second_stop_is_at_once() {
    let inputs = [Input::Stop, Input::Stop, killed(8, KillCause::WorkerStopped), tick(1_100)];
    check(
        running_worker(),
        inputs,
        expect![[r#"
        > stop
        > stop
        kill 8, grace 0, worker_stopped
        > process ended
        report 8 Lost: killed because the worker was stopped
        > tick 1100
        exit
    "#]],
    );
    check(
        registered_worker(),
        [Input::Stop],
        expect![[r#"
        > stop
        exit
    "#]],
    );
}

/// EXE-8: a life that the owner has ended is over; what still runs is presented by the next.
#[test]
fn worker_whose_life_was_ended_begins_another() {
    let unregistered = |life| Input::Work(WorkMessage::Unregistered { incarnation: Incarnation::new(life) });
    let answer = WorkMessage::Registered {
        incarnation: Incarnation::new("i-1.2"),
        shard: ShardId(1),
        settings: GroupSettings::default(),
        granted: Vec::new(),
    };
    let inputs = [
        assigned(9, "shell"),
        unregistered(LIFE),
        unregistered(LIFE),
        granted(9, "shell", "i-1-2"),
        Input::Work(answer),
        assigned(9, "shell"),
    ];
    check(
        running_worker(),
        inputs,
        expect![[r#"
        > assigned
        request 9 with i-1-2
        > unregistered
        register i-1.2, live [Token(8)]
        heartbeat
        > unregistered
        > granted for i-1-2
        > registered, granted []
        kill 8, grace 10000, disowned
        > assigned
        request 9 with i-1.2-3
    "#]],
    );
}

#[test]
fn worker_that_missed_something_asks_for_everything() {
    check(
        running_worker(),
        [Input::Missed, registered(&[8])],
        expect![[r#"
        > missed
        register i-1, live [Token(8)]
        heartbeat
        > registered, granted [Token(8)]
    "#]],
    );
}

/// Else the owner would wait for the end of what never begins.
#[test]
fn grant_to_a_question_that_was_given_up_is_answered_with_lost() {
    let inputs = [
        assigned(8, "shell"),
        refused(8),
        granted(8, "shell", "i-1-1"),
        recorded(8),
        assigned(9, "shell"),
        granted(9, "shell", "i-1-0"),
        granted(9, "shell", "i-1-2"),
        recorded(9),
    ];
    check(
        registered_worker(),
        inputs,
        expect![[r#"
        > assigned
        request 8 with i-1-1
        > refused
        > granted for i-1-1
        report 8 Lost: it does not run on this worker
        > recorded
        > assigned
        request 9 with i-1-2
        > granted for i-1-0
        report 9 Lost: it does not run on this worker
        > granted for i-1-2
        > recorded
    "#]],
    );
}

/// EXE-1: what cannot be written down goes back, again and again until it was taken back, and costs nothing.
#[test]
fn granted_attempt_without_room_is_given_back_until_it_is_taken_back() {
    let no_room = Input::ProcessEnded { token: Token(1), end: ProcessEnd::NoRoom("full".to_owned()) };
    let inputs = [
        tick(1_000),
        registered(&[]),
        alive(1_000),
        assigned(1, "shell"),
        granted(1, "shell", "i-1-1"),
        no_room,
        tick(3_000),
        refused(1),
        tick(60_000),
        kill(1),
    ];
    check(
        worker(),
        inputs,
        expect![[r#"
            > tick 1000
            register i-1, live []
            heartbeat
            > registered, granted []
            > acknowledged
            lease 590000 600000
            > assigned
            request 1 with i-1-1
            > granted for i-1-1
            spawn 1, lease Some((590000, 600000)), grace 10000
            > process ended
            reject 1 (i-1-1): full
            > tick 3000
            reject 1 (i-1-1): full
            > refused
            > tick 60000
            > kill
            report 1 Killed: it does not run on this worker
        "#]],
    );
}

/// MON-7: a worker that can take no work says so at once, gives back what it is assigned, and says when it can again.
#[test]
fn unready_worker_says_so_and_takes_nothing() {
    let turn = |unready: Option<&str>| Input::Fitness { unready: unready.map(str::to_owned) };
    let inputs = [
        tick(1_000),
        registered(&[]),
        turn(Some("full")),
        assigned(1, "shell"),
        turn(None),
        assigned(2, "shell"),
    ];
    check(
        worker(),
        inputs,
        expect![[r#"
            > tick 1000
            register i-1, live []
            heartbeat
            > registered, granted []
            > full
            heartbeat
            > assigned
            reject 1 (nothing asked): full
            > fit
            heartbeat
            > assigned
            request 2 with i-1-1
        "#]],
    );
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
