//! EXE-12: a person vouches for the end of one attempt. EXE-8: people are warned before a lease ends what runs.

use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    AlarmEvent, AlarmKind, AttemptResult, BatchCommand, BatchId, Command, Event, GroupSettings, OnSilence,
    Token, WorkMessage, WorkerCommand, WorkerId,
};

use crate::kit::{GROUP, START, Script, World, job, rejection};

/// A worker of this group runs an attempt of a job with one retry, where the newest level stands.
fn running(settings: GroupSettings) -> (World, WorkerId, BatchId, Token) {
    let mut world = World::with(START, settings);
    world.raise();
    let ids = world.define(vec![job("a", json!({"retries": 1, "retry_interval_s": 0}))]);
    let worker = world.worker("w", 2, Script::Run);
    let batch = world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    world.events();
    let token = world.played(&worker).last_token();
    (world, worker, batch, token)
}

fn holds() -> GroupSettings {
    GroupSettings { on_silence: OnSilence::Hold, ..GroupSettings::default() }
}

fn vouch(world: &mut World, batch: BatchId, token: Token, reason: &str) -> String {
    let command = BatchCommand::VouchEnded { batch, token, reason: reason.to_owned() };
    rejection(&world.ask(GROUP, Command::Batch(command)))
}

/// EXE-12: what a group holds ends by a person's word and is tried again; its worker is asked to kill it all the same.
#[test]
fn attempt_of_a_lost_worker_ends_by_a_persons_word() {
    let (mut world, worker, batch, token) = running(holds());
    assert!(
        vouch(&mut world, batch, token, "looked").contains("tidemill batch kill"),
        "its worker is heard of"
    );
    world.lost(&worker);
    world.events();
    world.worker("x", 1, Script::Succeed);
    world.events();
    assert!(vouch(&mut world, batch, token, " ").contains("say how you know"));
    assert!(vouch(&mut world, batch, Token::mint(99, GROUP), "looked").contains("that of batch"));
    assert_eq!(world.told(), "", "a refusal changes nothing");
    assert_eq!(vouch(&mut world, batch, token, "its host is off"), "accepted: Done");
    expect![[r#"
        b1 t1 vouched for by test
        b1 attempt 1 Lost
        b1 retry 2 at 2026-07-01 10:10
        b1 retry due
        b1 assigned t2 attempt 2 to x
        b1 granted t2
        b1 started t2
        b1 attempt 2 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
    let asked = world.played(&worker).heard.clone();
    let kill = |message: &WorkMessage| matches!(message, WorkMessage::Kill { token: of, .. } if *of == token);
    assert!(asked.iter().any(kill), "{asked:?}");
    let again = vouch(&mut world, batch, token, "again");
    assert!(again.contains("finished"), "{again}");
    assert_eq!(world.partition, world.folded());
}

/// EXE-12: a process that a kill does not end, on a worker that is heard of: the batch ends as killed, by whoever asked for that.
#[test]
fn attempt_that_cannot_be_killed_ends_by_a_persons_word() {
    let (mut world, worker, batch, token) = running(GroupSettings::default());
    world.played(&worker).script = Script::Silent;
    world.kill(batch);
    world.events();
    assert_eq!(world.unfinished(), 1);
    assert_eq!(vouch(&mut world, batch, token, "its disk is dead"), "accepted: Done");
    expect![[r#"
        b1 t1 vouched for by test
        b1 attempt 1 Lost
        b1 finished killed by ann
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
}

/// EXE-12: what does not run, and a batch that nobody knows.
#[test]
fn nothing_but_what_runs_is_vouched_for() {
    let (mut world, _, _, token) = running(GroupSettings::default());
    let unknown = vouch(&mut world, BatchId::mint(99, GROUP), token, "r");
    assert!(unknown.contains("unknown") || unknown.contains("no batch"), "{unknown}");
    let ids = world.define(vec![job("b", json!({"type": "python", "command": "true"}))]);
    let waits = world.batch(ids[0], None);
    assert!(vouch(&mut world, waits, token, "r").contains("has no attempt that may"));
    assert_eq!(world.partition, world.folded());
}

fn warn(world: &mut World, worker: &WorkerId) -> Vec<AlarmEvent> {
    let incarnation = world.played(worker).incarnation.clone();
    let command = WorkerCommand::WarnOfLease { worker: worker.clone(), incarnation };
    world.observe(GROUP, Command::Worker(command));
    let alarm = |event: Event| match event {
        Event::Alarm(alarm @ AlarmEvent::Raised { kind: AlarmKind::LeaseHalfOver, .. }) => Some(alarm),
        _ => None,
    };
    world.events().into_iter().filter_map(alarm).collect()
}

fn owes(world: &World) -> bool {
    world.partition.group(GROUP).unwrap().live_workers().any(|worker| worker.owes_warning)
}

/// EXE-8: once in each silence of a worker whose lease ends what runs there, with its jobs.
#[test]
fn half_of_a_lease_warns_once_of_what_will_be_ended() {
    let (mut world, worker, batch, _) = running(GroupSettings::default());
    assert!(!owes(&world) && warn(&mut world, &worker).is_empty(), "it is heard of");
    world.lost(&worker);
    world.events();
    assert!(owes(&world));
    let alarms = warn(&mut world, &worker);
    let [AlarmEvent::Raised { message, worker: Some(of), .. }] = &alarms[..] else { panic!("{alarms:?}") };
    assert!(*of == worker && message.contains(&format!(" (batch {batch})")), "{message}");
    assert!(!owes(&world) && warn(&mut world, &worker).is_empty(), "it was said");
    let alive = world.played(&worker).heartbeat();
    world.say(alive);
    world.lost(&worker);
    world.events();
    assert_eq!(warn(&mut world, &worker).len(), 1, "another silence");
    assert_eq!(world.partition, world.folded());
}

/// EXE-8: where nothing runs, or nothing will be ended, or an older program has to read it, there is no warning.
#[test]
fn half_of_a_lease_that_ends_nothing_warns_of_nothing() {
    let (mut world, worker, ..) = running(holds());
    world.lost(&worker);
    assert!(!owes(&world), "a group that holds ends nothing");
    let (mut world, worker, batch, token) = running(GroupSettings::default());
    let end = world.played(&worker).finished(token, AttemptResult::Success);
    world.say(end);
    world.lost(&worker);
    assert!(!owes(&world), "batch {batch} has ended");
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({}))]);
    let worker = world.worker("w", 1, Script::Run);
    world.batch(ids[0], None);
    world.lost(&worker);
    assert!(!owes(&world) && warn(&mut world, &worker).is_empty(), "level 1 stands");
}

/// ZMB-1, EXE-4: what has reported code 0 has succeeded, though its worker is lost for good, its shim was killed, or a person vouches;
/// what has reported another code, or none, is lost.
#[test]
fn attempt_that_has_reported_zero_has_succeeded_though_it_is_lost() {
    for (code, ends) in [(Some(0), "success"), (Some(3), "failed"), (None, "failed")] {
        for way in ["lease", "report", "word"] {
            let mut world = World::new();
            world.raise();
            let more = json!({"type": "shell", "command": "true", "success_check": "user_code"});
            let ids = world.define(vec![job("a", more)]);
            let worker = world.worker("w", 1, Script::Run);
            let batch = world.batch(ids[0], None);
            let token = world.played(&worker).last_token();
            if let Some(code) = code {
                world.say(Command::Worker(WorkerCommand::ReportUserCode {
                    token,
                    code,
                    seal: String::new(),
                }));
            }
            match way {
                "lease" => {
                    world.lost(&worker);
                    world.lease_over(&worker);
                }
                "report" => {
                    let lost = world.played(&worker).finished(token, AttemptResult::Lost);
                    world.say(lost);
                }
                _ => {
                    world.lost(&worker);
                    vouch(&mut world, batch, token, "looked");
                }
            }
            let told = world.told();
            assert!(told.contains(&format!("b1 finished {ends}")), "{code:?} by {way}: {told}");
            assert_eq!(world.partition, world.folded());
        }
    }
}
