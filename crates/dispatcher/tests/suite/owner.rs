//! The owner without threads, one rule at a time.

use crate::kit::client::submission;
use crate::kit::requester::{
    GROUP, Requester, appended_kinds, envelope_of, hash_of, heartbeat, is_append, report_failed,
    request_start,
};
use crate::kit::worker::registration;
use tidemill_dispatcher::{Config, Error, Input, Moment, Output, Owner, Role, Start};
use tidemill_engine::Effect;
use tidemill_log::{AppendError, Frame, Kind, Payload};
use tidemill_model::{
    BatchCommand, CatalogueCommand, Command, Envelope, GroupSettings, InstanceId, Level, LevelCommand,
    Outcome, Process, Rejection, ShardCommand, ShardId, Token, WorkMessage, WorkerCommand, WorkerId,
};

fn claims(outputs: &[Output]) -> bool {
    outputs.iter().any(|output| match output {
        Output::Append(record) => Frame::decode(record).unwrap().kind == Kind::Claim,
        _ => false,
    })
}

/// Caught up with a journal that ends as given, suggested, and this long patient: does it claim?
fn claims_after(ms: i64, config: Config, end: impl Fn(&mut Requester)) -> bool {
    let mut requester = Requester::with(config);
    end(&mut requester);
    requester.step(Input::Suggested(true));
    requester.read_journal();
    let ends = requester.ends();
    requester.step(ends);
    requester.pass(ms);
    let outputs = requester.drive();
    claims(&outputs)
}

fn owned_by(incarnation: &'static str, then: Option<Kind>) -> impl Fn(&mut Requester) {
    move |requester| {
        let claim = requester.head().claim(incarnation, "it:1").unwrap();
        requester.land(claim);
        if let Some(kind) = then {
            let record = requester.head().tip().next(kind, Vec::new()).unwrap().0;
            requester.land(record);
        }
    }
}

/// Rule 3.
#[test]
fn claim_waits_for_silence_unless_nobody_owns() {
    let after = |ms, end: &dyn Fn(&mut Requester)| claims_after(ms, Config::default(), end);
    assert!(after(0, &|_| {}), "nobody has ever owned it");
    assert!(after(0, &owned_by("other", Some(Kind::Resigned))), "handed over");
    assert!(!after(999, &owned_by("other", None)), "the owner may live");
    assert!(after(1_000, &owned_by("other", None)));
    assert!(after(0, &owned_by("me", None)), "an earlier life of itself");
}

/// Rule 12.
#[test]
fn stopped_partition_is_left_alone_until_a_person_says_so() {
    let stopped = owned_by("other", Some(Kind::Stopped));
    assert!(!claims_after(60_000, Config::default(), &stopped));
    let config = Config { claim_stopped: true, ..Config::default() };
    assert!(claims_after(60_000, config, &stopped));
}

/// Rule 3: fold first.
#[test]
fn nothing_is_claimed_before_it_is_suggested_and_the_journal_is_read() {
    let mut requester = Requester::new();
    assert_eq!(requester.drive(), [], "not suggested");
    requester.step(Input::Suggested(true));
    assert_eq!(requester.drive(), [Output::AskEnds]);
    assert_eq!(requester.drive(), [], "one question at a time");
    let genesis = requester.unread_journal();
    owned_by("other", Some(Kind::Resigned))(&mut requester);
    let ends = requester.ends();
    requester.step(ends);
    requester.step(genesis);
    requester.pass(60_000);
    assert_eq!(requester.drive(), [], "two records are not read");
    requester.read_journal();
    requester.step(Input::Suggested(false));
    assert_eq!(requester.drive(), []);
    requester.step(Input::Suggested(true));
    assert!(claims(&requester.drive()));
    assert_eq!(
        (requester.owner.role(), requester.drive()),
        (Role::Claiming, vec![]),
        "until it reads its claim"
    );
}

#[test]
fn void_claim_restarts_with_a_wait() {
    let mut requester = Requester::new();
    requester.step(Input::Suggested(true));
    requester.read_journal();
    let ends = requester.ends();
    requester.step(ends);
    let claim = requester.drive();
    let foreign = requester.foreign_claim();
    let foreign_first = requester.land(foreign);
    let Output::Append(record) = &claim[0] else { panic!("{claim:?}") };
    requester.land(record.clone());
    let outputs = requester.read_journal();
    assert!(matches!(&outputs[..], [Output::Restart { back_off: true, .. }]), "{outputs:?} {foreign_first}");
}

/// Rule 3: what was accepted before the foreign claim still gets its effects, and nothing after it.
#[test]
fn foreign_claim_ends_ownership_at_once() {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(GroupSettings::default());
    requester.submit_request(GROUP, submission("a"));
    requester.read_commands();
    let outputs = requester.drive();
    let Some(Output::Append(record)) = outputs.into_iter().find(is_append) else { panic!("no append") };
    requester.land(record);
    let foreign = requester.foreign_claim();
    requester.land(foreign);
    let outputs = requester.read_journal();
    assert!(outputs.iter().any(|output| matches!(output, Output::Act(Effect::Reply { .. }))), "{outputs:?}");
    assert!(matches!(outputs.last(), Some(Output::Restart { back_off: true, .. })), "{outputs:?}");
    // A farewell that links to the foreign claim would count, and depose its owner (simulator, seed 2957).
    assert_eq!((requester.owner.resigned_record(), requester.owner.stopped_record()), (None, None));
}

/// An owner with a submission under way, and the bytes of its append.
fn submitting() -> (Requester, Payload) {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(GroupSettings::default());
    requester.submit_request(GROUP, submission("a"));
    requester.read_commands();
    let appends: Vec<Output> = requester.drive().into_iter().filter(is_append).collect();
    let [Output::Append(record)] = &appends[..] else { panic!("{appends:?}") };
    let record = record.clone();
    (requester, record)
}

/// Rule 4.
#[test]
fn refused_and_unknown_outcomes_begin_anew() {
    for (error, waits) in
        [(AppendError::Refused("x".into()), true), (AppendError::Unknown("x".into()), false)]
    {
        let (mut requester, _) = submitting();
        let outputs = requester.step(Input::Appended(Err(error)));
        let expected = Output::Restart { back_off: waits, reason: "x".to_owned() };
        assert_eq!(outputs, [expected]);
    }
}

#[test]
fn full_log_gets_the_same_record_again_after_a_tick_however_much_arrives() {
    let (mut requester, record) = submitting();
    assert_eq!(requester.step(Input::Appended(Err(AppendError::Full))), []);
    for _ in 0..5 {
        requester.pass(49);
        requester.submit_request(GROUP, submission("b"));
        requester.read_commands();
        assert_eq!(requester.drive(), []);
    }
    requester.pass(5);
    assert_eq!(requester.drive(), [Output::Append(record)]);
    assert_eq!(requester.drive(), []);
}

/// Rule 4: a record too large is a bug; the partition stops, and says so where others read it.
#[test]
fn too_large_record_stops_the_partition_on_record() {
    let (mut requester, _) = submitting();
    assert_eq!(requester.owner.stopped_record(), None, "while an append is under way");
    let result = requester.owner.step(Input::Appended(Err(AppendError::TooLarge)), requester.moment);
    assert!(matches!(result, Err(Error::Append { .. })), "{result:?}");
    let record = requester.owner.stopped_record().unwrap();
    requester.land(record);
    assert!(requester.head().stopped);
}

/// Rules 1 and 6.
#[test]
fn commands_gather_while_an_append_is_under_way_and_effects_wait_for_the_read_back() {
    let (mut requester, record) = submitting();
    for name in ["b", "c", "d"] {
        requester.submit_request(GROUP, submission(name));
        assert_eq!(requester.read_commands(), []);
        assert_eq!(requester.drive(), [], "one append at a time");
    }
    assert_eq!(requester.owner.backlog(), 3);
    assert!(requester.owner.state().is_none(), "nobody sees what is not in the journal");
    let offset = requester.land(record);
    assert_eq!(requester.step(Input::Appended(Ok(offset))), [], "acknowledged is not read back");
    let acts = requester.read_journal();
    let replies = acts.iter().filter(|act| matches!(act, Output::Act(Effect::Reply { .. })));
    assert_eq!(replies.count(), 1);
    let outputs = requester.drive();
    let envelope = envelope_of(outputs.iter().find(|output| is_append(output)).unwrap());
    assert_eq!(envelope.causes.iter().filter(|cause| cause.events == 2).count(), 3, "{envelope:?}");
    assert_eq!(envelope.resume.unwrap().hash, hash_of(requester.commands.last().unwrap()), "rule 5");
}

/// A job that fires every ten minutes, defined right after midnight.
fn with_schedule(missed_runs: &str) -> Requester {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(GroupSettings::default());
    requester.apply(serde_json::json!({
        "name": "a", "group": "demo", "type": "noop", "missed_runs": missed_runs,
        "schedule": {"cron": "0 0/10 * * * ?", "zone": "UTC"},
    }));
    requester
}

fn run_by_hand(requester: &Requester, minutes: i64) -> Command {
    let history = requester.history();
    let job = history.events().find_map(|event| match event {
        tidemill_model::Event::Replication(tidemill_model::ReplicationEvent::JobReplicated {
            definition,
            ..
        }) => Some(definition.id),
        _ => None,
    });
    let at = crate::kit::requester::MIDNIGHT + jiff::SignedDuration::from_mins(minutes);
    Command::Batch(BatchCommand::RunJob {
        job: job.unwrap(),
        logical_time: Some(at),
        parameters: Default::default(),
        concurrent: true,
    })
}

/// Rule 10: what was in the log before the timer's time is decided first, however late it is read.
#[test]
fn timer_waits_for_the_commands_below_ends_that_were_asked_for_after_its_time() {
    let mut requester = with_schedule("all");
    let due_in =
        requester.owner.next_timer().unwrap().duration_since(requester.moment.wall).as_millis() as i64;
    requester.pass(due_in - 1);
    requester.settle();
    let before = requester.kinds().len();
    let command = run_by_hand(&requester, 10);
    requester.submit_request(GROUP, command);
    requester.pass(2);
    let outputs = requester.drive();
    assert_eq!(outputs, [Output::AskEnds], "the old ends are from before its time");
    let ends = requester.ends();
    requester.step(ends);
    assert_eq!(requester.drive(), [], "a command below the ends is not read");
    requester.settle();
    let kinds = requester.kinds_since(before);
    let made: Vec<&String> =
        kinds.iter().filter(|kind| *kind == "batch.generated" || *kind == "schedule.skipped").collect();
    assert_eq!(made, ["batch.generated", "schedule.skipped"], "by hand first, and so not by schedule");
}

/// No flood of commands holds a timer up for longer than its own ends.
#[test]
fn timer_goes_before_commands_that_came_after_its_ends() {
    let mut requester = with_schedule("all");
    requester.pass(11 * 60_000);
    let ask = requester.drive();
    assert!(ask.contains(&Output::AskEnds), "{ask:?}");
    let ends = requester.ends();
    for n in 0..2_000 {
        requester.submit_request(GROUP, submission(&format!("j{n}")));
    }
    requester.read_commands();
    requester.step(ends);
    let outputs = requester.drive();
    let kinds = appended_kinds(&outputs);
    assert_eq!(kinds[..3], ["worker.lost", "batch.generated", "job.submitted"]);
    assert!(requester.owner.backlog() > 0, "the flood did not fit into one envelope");
}

/// A5, GEN-3: the owner is away over three base times.
#[test]
fn catching_up_makes_exactly_what_the_policy_says() {
    for (policy, generated, skipped) in [("all", 3, 0), ("latest", 1, 2), ("none", 0, 3)] {
        let mut requester = with_schedule(policy);
        let before = requester.kinds().len();
        requester.pass(35 * 60_000);
        requester.another("next");
        requester.own();
        let kinds = requester.kinds_since(before);
        assert_eq!(kinds.iter().filter(|kind| *kind == "batch.generated").count(), generated, "{policy}");
        let history = requester.history();
        let counts = history.events().filter_map(|event| match event {
            tidemill_model::Event::Schedule(tidemill_model::ScheduleEvent::Skipped { count, .. }) => {
                Some(*count)
            }
            _ => None,
        });
        assert_eq!(counts.sum::<u64>(), skipped, "{policy}");
        requester.settle();
        assert_eq!(requester.kinds_since(before).len(), kinds.len(), "and only once");
    }
}

/// A5: a fact that reached the log in the meantime is not overtaken by the timers of that time.
#[test]
fn what_was_requested_during_the_outage_counts_before_the_missed_fires() {
    let mut requester = with_schedule("all");
    let before = requester.kinds().len();
    requester.pass(25 * 60_000);
    let command = run_by_hand(&requester, 20);
    requester.submit_request(GROUP, command);
    requester.pass(10 * 60_000);
    requester.another("next");
    requester.own();
    let kinds = requester.kinds_since(before);
    let made: Vec<&str> = kinds
        .iter()
        .map(String::as_str)
        .filter(|k| ["batch.generated", "schedule.skipped"].contains(k))
        .collect();
    assert_eq!(made, ["batch.generated", "batch.generated", "schedule.skipped", "batch.generated"]);
}

fn brisk() -> GroupSettings {
    GroupSettings { lost_after_ms: 30_000, lease_ms: 60_000, lease_margin_ms: 5_000, ..Default::default() }
}

/// Rule 9, EXE-8.
#[test]
fn silence_is_counted_by_the_monotonic_clock_only() {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(brisk());
    let heard = requester.moment;
    let at = |boot_ms: u64, wall_ms: i64| Moment {
        boot_ms: heard.boot_ms + boot_ms,
        wall: heard.wall + jiff::SignedDuration::from_millis(wall_ms),
    };
    let mut lost_at = |moment: Moment| {
        requester.moment = moment;
        requester.settle();
        let kinds = requester.kinds();
        let lost = kinds.iter().filter(|kind| *kind == "worker.lost").count();
        (lost, kinds.iter().filter(|kind| *kind == "lease.expired").count())
    };
    assert_eq!(lost_at(at(29_999, 34_000)), (0, 0), "the wall clock is ahead");
    assert_eq!(lost_at(at(30_251, 26_000)), (1, 0), "the wall clock is behind");
    assert_eq!(lost_at(at(64_900, 69_000)), (1, 0));
    assert_eq!(lost_at(at(65_500, 61_000)), (1, 1));
}

/// Rule 9: a heartbeat that is in the log counts, however late it is read.
#[test]
fn nobody_is_lost_before_everything_up_to_the_ends_was_read() {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(brisk());
    requester.pass(20_000);
    requester.say(GROUP, heartbeat());
    requester.pass(20_000);
    let before = requester.kinds().len();
    let ask = requester.drive();
    assert_eq!(ask, [Output::AskEnds]);
    let ends = requester.ends();
    requester.step(ends);
    assert_eq!(requester.drive(), []);
    requester.settle();
    assert_eq!(requester.kinds_since(before), Vec::<String>::new());
    requester.pass(30_251);
    requester.settle();
    assert_eq!(requester.kinds_since(before), ["worker.lost"]);
}

/// Rule 9. The present life would be lost, its lease over, and a second attempt started beside its first.
#[test]
fn a_late_word_of_an_earlier_life_does_not_silence_the_present_one() {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(GroupSettings::default());
    requester.pass(20_000);
    requester.say(GROUP, heartbeat());
    requester.settle();
    requester.pass(20_000);
    requester.say(GROUP, Command::Worker(WorkerCommand::Register(Box::new(registration("w1", "life-2", 2)))));
    requester.say(GROUP, heartbeat());
    requester.settle();
    let before = requester.kinds().len();
    requester.pass(1_000);
    requester.settle();
    assert_eq!(requester.kinds_since(before), [""; 0]);
}

/// Rule 9: a new owner gives everyone the whole time, counted from its claim.
#[test]
fn silence_counts_from_the_claim_of_a_new_owner() {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(brisk());
    requester.pass(3_600_000);
    requester.another("next");
    requester.own();
    let before = requester.kinds().len();
    requester.pass(29_000);
    requester.settle();
    assert_eq!(requester.kinds_since(before), Vec::<String>::new());
    requester.pass(1_500);
    requester.settle();
    assert_eq!(requester.kinds_since(before), ["worker.lost"]);
}

/// Rule 10.
#[test]
fn clock_that_steps_stops_the_owner() {
    for step_ms in [-5_001, 5_001] {
        let mut requester = Requester::new();
        requester.own();
        requester.moment.wall += jiff::SignedDuration::from_millis(step_ms);
        let result = requester.owner.drive(requester.moment);
        assert!(matches!(result, Err(Error::Clock { off_ms, .. }) if off_ms == step_ms), "{result:?}");
    }
}

/// Rule 10: against the log's time of the claim; but a process that slept before reading it is not off.
#[test]
fn clock_is_held_against_the_logs_time_of_the_claim() {
    for (log_ahead_ms, slept_ms, works) in [
        (0, 0, true),
        (4_999, 0, true),
        (5_001, 0, false),
        (-5_001, 0, false),
        (0, 60_000, true),
        (-5_001, 60_000, false),
    ] {
        let mut requester = Requester::new();
        requester.step(Input::Suggested(true));
        requester.read_journal();
        let ends = requester.ends();
        requester.step(ends);
        let Output::Append(claim) = requester.drive().remove(0) else { panic!("no claim") };
        let sent = requester.moment.wall;
        requester.moment.wall = sent + jiff::SignedDuration::from_millis(log_ahead_ms);
        requester.land(claim);
        requester.moment.wall = sent;
        requester.pass(slept_ms);
        let input = requester.unread_journal();
        let result = requester.owner.step(input, requester.moment);
        assert_eq!(result.is_ok(), works, "{log_ahead_ms} {slept_ms}: {result:?}");
    }
}

/// Rule 10: a step while the claim is on its way, which the log's time of it cannot tell from a slow read.
#[test]
fn clock_that_steps_while_the_claim_is_under_way_stops_the_owner() {
    for (step_ms, works) in [(4_999, true), (5_001, false), (60_000, false)] {
        let mut requester = Requester::new();
        requester.step(Input::Suggested(true));
        requester.read_journal();
        let ends = requester.ends();
        requester.step(ends);
        let Output::Append(claim) = requester.drive().remove(0) else { panic!("no claim") };
        requester.land(claim);
        requester.pass(1_000);
        requester.moment.wall += jiff::SignedDuration::from_millis(step_ms);
        let input = requester.unread_journal();
        let result = requester.owner.step(input, requester.moment);
        assert_eq!(result.is_ok(), works, "{step_ms}: {result:?}");
    }
}

/// Rule 5: a commands topic that is not the one of the resume point.
#[test]
fn lost_commands_stop_the_partition() {
    let restart = || {
        let mut requester = Requester::new();
        requester.own();
        requester.furnish(GroupSettings::default());
        requester.another("next");
        requester
    };
    let claim = |requester: &mut Requester| {
        requester.step(Input::Suggested(true));
        requester.read_journal();
        requester.pass(2_000);
        let ends = requester.ends();
        requester.step(ends);
        let Output::Append(claim) = requester.drive().remove(0) else { panic!("no claim") };
        requester.land(claim);
        let outputs = requester.read_journal();
        requester.carry_out(outputs.into_iter().filter(|o| matches!(o, Output::ReadCommands(_))).collect());
    };
    let mut other_record = restart();
    let resume = other_record.history().state.resume().unwrap().clone();
    let value = b"{}".to_vec();
    other_record.commands[resume.offset as usize].value = value.into();
    claim(&mut other_record);
    let commands = other_record.unread_commands();
    let result = other_record.owner.step(commands, other_record.moment);
    assert!(matches!(result, Err(Error::CommandsLost { .. })), "{result:?}");

    let mut shorter = restart();
    shorter.commands.truncate(resume.offset as usize);
    claim(&mut shorter);
    let ends = shorter.ends();
    let result = shorter.owner.step(ends, shorter.moment);
    assert!(matches!(result, Err(Error::CommandsLost { .. })), "{result:?}");

    let mut same = restart();
    claim(&mut same);
    let ends = same.ends();
    same.step(ends);
    assert_eq!(same.drive(), [], "nothing is decided before the resume point was checked");
    same.settle();
    assert_eq!(same.owner.role(), Role::Owning);
}

#[test]
fn journal_of_another_count_is_refused() {
    let mut requester = Requester::new();
    let start = Start { count: 3, ..requester.start.clone() };
    requester.owner = Owner::new(start);
    let input = requester.unread_journal();
    let result = requester.owner.step(input, requester.moment);
    assert!(matches!(result, Err(Error::PartitionCount { journal: 1, log: 3, .. })), "{result:?}");
}

/// Rule 12: a reader never skips what it does not understand.
#[test]
fn unreadable_body_stops_the_reader() {
    let mut requester = Requester::new();
    owned_by("other", None)(&mut requester);
    let newer = br#"{"now":"2030-01-01T00:00:00.000Z","events":[{"shard":1,"event":{"of_tomorrow":{}}}]}"#;
    let record = requester.head().tip().next(Kind::Envelope, newer.to_vec()).unwrap().0;
    requester.land(record);
    let input = requester.unread_journal();
    let result = requester.owner.step(input, requester.moment);
    assert!(matches!(result, Err(Error::Unreadable { offset: 2, .. })), "{result:?}");
}

/// Rule 3.
#[test]
fn resigning_is_on_record_and_the_next_one_claims_at_once() {
    let (mut requester, record) = submitting();
    requester.step(Input::Resign);
    assert_eq!(requester.drive(), [], "what is under way is finished first");
    requester.land(record);
    requester.read_journal();
    let outputs = requester.drive();
    let [Output::Append(resigned)] = &outputs[..] else { panic!("{outputs:?}") };
    requester.land(resigned.clone());
    assert_eq!(requester.read_journal(), [Output::Resigned]);
    assert!(requester.head().resigned);
    requester.another("next");
    requester.step(Input::Suggested(true));
    requester.read_journal();
    let ends = requester.ends();
    requester.step(ends);
    assert!(claims(&requester.drive()));
}

/// Rule 12.
#[test]
fn command_that_cannot_be_decoded_is_set_aside_once_that_is_on_record() {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(GroupSettings::default());
    requester.submit_request_raw(b"?".to_vec());
    requester.read_commands();
    let outputs = requester.drive();
    assert!(!outputs.iter().any(|output| matches!(output, Output::Act(_))), "{outputs:?}");
    requester.carry_out(outputs);
    let offset = requester.commands.len() as u64 - 1;
    let letter = requester.acts.last().unwrap();
    assert!(matches!(letter, Effect::DeadLetter { offset: o, .. } if *o == offset), "{letter:?}");
    let panics = requester.submit_request(GROUP, Command::Shard(ShardCommand::PlantedPanic {}));
    let fine = requester.submit_request(GROUP, submission("a"));
    requester.settle();
    let outcome = |request| {
        requester.acts.iter().find_map(|act| match act {
            Effect::Reply { reply, .. } if reply.request == request => Some(reply.outcome.clone()),
            _ => None,
        })
    };
    assert!(matches!(outcome(panics), Some(Outcome::Refused(Rejection::DeadLettered { .. }))));
    assert!(matches!(outcome(fine), Some(Outcome::Answered(_))));
}

/// Rule 6: effects may be lost, what they say is not.
#[test]
fn lost_effects_are_said_again_also_if_that_is_heard_while_an_append_is_under_way() {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(GroupSettings::default());
    requester.submit_request(GROUP, submission("a"));
    requester.settle();
    let token = Token::mint(1, GROUP);
    let assigned = |acts: &[Effect]| {
        let is = |act: &&Effect| matches!(act, Effect::Work { message: WorkMessage::Assigned { token: t, .. }, .. } if *t == token);
        acts.iter().filter(is).count()
    };
    assert_eq!(assigned(&requester.acts), 1);
    requester.step(Input::EffectsLost);
    requester.settle();
    assert_eq!(assigned(&requester.acts), 2);
    requester.pass(1_000);
    requester.submit_request(GROUP, submission("b"));
    requester.read_commands();
    let append: Vec<Output> = requester.drive().into_iter().filter(is_append).collect();
    requester.step(Input::EffectsLost);
    assert_eq!(requester.drive(), [], "an append is under way");
    requester.carry_out(append);
    requester.settle();
    assert_eq!(assigned(&requester.acts), 3);
    requester.step(Input::EffectsLost);
    requester.settle();
    assert_eq!(assigned(&requester.acts), 3, "not more than once a second");
    requester.pass(1_000);
    requester.settle();
    assert_eq!(assigned(&requester.acts), 4);
}

/// Rule 6: a new owner says everything outstanding again.
#[test]
fn new_owner_says_what_is_outstanding() {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(GroupSettings::default());
    requester.submit_request(GROUP, submission("a"));
    requester.submit_request(GROUP, submission("b"));
    requester.settle();
    requester.say(GROUP, request_start(Token::mint(1, GROUP)));
    requester.settle();
    requester.another("next");
    requester.acts.clear();
    requester.own();
    let said: Vec<&str> = requester
        .acts
        .iter()
        .filter_map(|act| match act {
            Effect::Work { message: WorkMessage::Granted { .. }, .. } => Some("granted"),
            Effect::Work { message: WorkMessage::Assigned { .. }, .. } => Some("assigned"),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["granted", "assigned"]);
}

/// Rule 5: heartbeats make no events, and are covered in the end.
#[test]
fn commands_without_effect_are_covered_after_a_while() {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(GroupSettings::default());
    let before = requester.head().offset;
    requester.say(GROUP, heartbeat());
    requester.settle();
    assert_eq!(requester.head().offset, before, "a heartbeat alone is not worth a record");
    requester.pass(5_000);
    requester.settle();
    assert_eq!(requester.head().offset, before + 1);
    let resume = requester.history().state.resume().unwrap().offset;
    assert_eq!(resume, requester.commands.len() as u64 - 1);
    requester.pass(60_000);
    requester.settle();
    assert_eq!(requester.head().offset, before + 2, "only the lost worker: nothing is left to cover");
}

/// An attempt that fails comes back when its time has come, by a timer.
#[test]
fn retry_comes_due_by_a_timer() {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(GroupSettings::default());
    let Command::Batch(BatchCommand::SubmitJob(mut job)) = submission("a") else { panic!("a submission") };
    (job.retries, job.retry_interval_s) = (1, 20);
    requester.submit_request(GROUP, Command::Batch(BatchCommand::SubmitJob(job)));
    requester.settle();
    for command in [request_start(Token::mint(1, GROUP)), report_failed(Token::mint(1, GROUP))] {
        requester.say(GROUP, command);
        requester.settle();
    }
    requester.pass(19_999);
    requester.settle();
    assert!(!requester.kinds().contains(&"retry.due".to_owned()));
    requester.pass(1);
    requester.settle();
    let kinds = requester.kinds();
    assert_eq!(kinds[kinds.len() - 2..], ["retry.due", "batch.assigned"]);
}

/// The catalogue's messages to a shard are sent again until they are acknowledged.
#[test]
fn messages_between_shards_are_sent_again_until_acknowledged() {
    let mut requester = Requester::new();
    requester.own();
    let name = "demo".try_into().unwrap();
    let worker_key = crate::kit::worker::public_key();
    let settings = GroupSettings::default();
    requester.submit_request(
        ShardId::CATALOGUE,
        Command::Catalogue(CatalogueCommand::DefineGroup { name, worker_key, settings }),
    );
    requester.read_commands();
    let sends = |outputs: &[Output]| {
        let is = |output: &&Output| {
            matches!(
                output,
                Output::Act(Effect::Send { command: Command::Shard(ShardCommand::Deliver { .. }), .. })
            )
        };
        outputs.iter().filter(is).count()
    };
    let outputs = requester.drive();
    let Some(Output::Append(record)) = outputs.into_iter().find(is_append) else { panic!("no append") };
    requester.land(record);
    let first = requester.read_journal();
    assert_eq!(sends(&first), 1);
    requester.pass(2_900);
    assert_eq!(sends(&requester.drive()), 0);
    requester.pass(200);
    let again = requester.drive();
    assert_eq!(sends(&again), 1, "{again:?}");
    requester.carry_out(first);
    requester.carry_out(again);
    requester.settle();
    requester.pass(60_000);
    assert_eq!(sends(&requester.drive()), 0, "acknowledged");
    assert_eq!(requester.history().count("group.replicated"), 1, "a repeat changes nothing");
}

/// Rule 7, 33d909e: under load, where the next append is under way before the last one was read, a lost message
/// between shards is sent again as well.
#[test]
fn messages_between_shards_are_sent_again_while_an_append_is_under_way() {
    let mut requester = Requester::new();
    requester.own();
    let (name, worker_key) = ("demo".try_into().unwrap(), crate::kit::worker::public_key());
    let settings = GroupSettings::default();
    requester.submit_request(
        ShardId::CATALOGUE,
        Command::Catalogue(CatalogueCommand::DefineGroup { name, worker_key, settings }),
    );
    requester.read_commands();
    let is_send = |output: &&Output| {
        matches!(
            output,
            Output::Act(Effect::Send { command: Command::Shard(ShardCommand::Deliver { .. }), .. })
        )
    };
    let mut append = requester.drive().into_iter().find(is_append);
    let mut sent = 0;
    for round in 0..40 {
        let Some(Output::Append(record)) = append.take() else { panic!("no append in round {round}") };
        // The next command is there before the append comes back, so the next append follows at once.
        requester.submit_request(
            ShardId::CATALOGUE,
            Command::Catalogue(CatalogueCommand::RevokeKey { app: "nobody".to_owned() }),
        );
        requester.read_commands();
        requester.pass(100);
        let between = requester.drive();
        requester.land(record);
        let back = requester.read_journal();
        let after = requester.drive();
        sent += between.iter().chain(&back).chain(&after).filter(is_send).count();
        append = after.into_iter().find(is_append);
    }
    assert_eq!(sent, 2, "once, and again after three seconds of four");
}

/// Rule 9: a lease that was shortened while a worker goes by the longer one is not over early.
#[test]
fn a_shortened_lease_counts_for_workers_that_were_told_of_it() {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(brisk());
    requester.submit_request(GROUP, submission("a"));
    requester.settle();
    requester.say(GROUP, request_start(Token::mint(1, GROUP)));
    requester.settle();
    let (name, worker_key) = ("demo".try_into().unwrap(), crate::kit::worker::public_key());
    let settings =
        GroupSettings { lost_after_ms: 1_000, lease_ms: 2_000, lease_margin_ms: 0, ..Default::default() };
    requester.submit_request(
        ShardId::CATALOGUE,
        Command::Catalogue(CatalogueCommand::DefineGroup { name, worker_key, settings }),
    );
    requester.settle();
    let mut expired_after = |ms| {
        requester.pass(ms);
        requester.settle();
        requester.settle();
        requester.kinds().contains(&"lease.expired".to_owned())
    };
    assert!(!expired_after(2_000));
    assert!(!expired_after(62_000), "65 s, its lease and margin, are not over");
    assert!(expired_after(2_000));
}

fn process(reads: u32) -> Command {
    let process = Process {
        id: InstanceId::new("p"),
        host: "h".to_owned(),
        roles: vec!["api".to_owned()],
        version: "1".to_owned(),
        reads: Level::new(reads),
        expire_after_ms: 30_000,
    };
    Command::Level(LevelCommand::RegisterProcess { process: Box::new(process), number: 0 })
}

/// Rule 13, OPS-9: the registration of a dead process ends after the silence that it named, counted by the monotonic clock
/// and only once every command was read; while it shows that it is alive it stands.
#[test]
fn silent_process_expires() {
    let mut requester = Requester::new();
    requester.own();
    requester.say(ShardId::CATALOGUE, process(1));
    requester.settle();
    let before = requester.kinds().len();
    let passed = |requester: &mut Requester, ms: u64| {
        for _ in 0..ms / 1_000 {
            requester.pass(1_000);
            requester.settle();
        }
        requester.kinds_since(before)
    };
    passed(&mut requester, 20_000);
    requester.say(ShardId::CATALOGUE, process(1));
    assert_eq!(passed(&mut requester, 30_000), [""; 0]);
    assert_eq!(passed(&mut requester, 2_000), ["process.expired"]);
}

/// Rule 13, OPS-9: what processes sent during an outage of the log may be lost, so that time is nobody's silence.
#[test]
fn outage_of_the_log_expires_no_process() {
    let mut requester = Requester::new();
    requester.own();
    requester.say(ShardId::CATALOGUE, process(1));
    requester.settle();
    let before = requester.kinds().len();
    requester.pass(600_000);
    for _ in 0..29 {
        requester.settle();
        requester.pass(1_000);
    }
    assert_eq!(requester.kinds_since(before), [""; 0]);
    for _ in 0..3 {
        requester.settle();
        requester.pass(1_000);
    }
    assert_eq!(requester.kinds_since(before), ["process.expired"]);
}

/// Rule 13, OPS-9: a command of a level that the partition has not heard of yet raises it in the record before the one that
/// decides it.
#[test]
fn command_of_a_higher_level_raises_its_partition_first() {
    let mut requester = Requester::new();
    requester.own();
    requester.furnish(GroupSettings::default());
    requester.settle();
    let (before, records) = (requester.kinds().len(), requester.journal.len());
    let vouch = WorkerCommand::VouchEnded { worker: WorkerId::new("nobody"), reason: "r".to_owned() };
    requester.submit_request(GROUP, Command::Worker(vouch));
    requester.settle();
    requester.settle();
    assert_eq!(requester.kinds_since(before), ["level.replicated"]);
    let envelopes = requester.journal[records..].iter().map(|record| {
        let frame = Frame::decode(&record.value).unwrap();
        Envelope::read(&frame.body, Level::READS).unwrap()
    });
    let decided = envelopes.map(|envelope| {
        let refused = envelope.causes.iter().any(|cause| matches!(cause.outcome, Outcome::Refused(_)));
        (envelope.level.number(), refused)
    });
    assert_eq!(decided.collect::<Vec<_>>(), [(1, false), (2, true)]);
}

/// Rule 13, OPS-9: an owner that cannot read a command because it is of a higher level leaves the partition, and decides none
/// of what lies before it in the same record; a command that nobody knows is set aside.
#[test]
fn owner_stops_at_a_command_of_a_level_that_it_does_not_read() {
    let mut requester = Requester::new();
    requester.own();
    let decided = requester.kinds().len();
    requester.say(ShardId::CATALOGUE, process(1));
    let unknown = |level: u32| {
        let command = r#""shard": 0, "actor": {"app": "a"}, "command": {"shard": {"new": {}}}"#;
        format!(r#"{{"level": {level}, {command}}}"#).into_bytes()
    };
    let next = Level::READS.number() + 1;
    requester.submit_request_raw(unknown(next));
    requester.read_commands();
    let moment = requester.moment;
    let stopped = requester.owner.drive(moment).unwrap_err();
    assert!(matches!(stopped, Error::TooNew { log: "commands", .. }), "{stopped}");
    let why = format!("it goes on with level {next}, and this process reads up to level {}", Level::READS);
    assert!(stopped.to_string().contains(&why), "{stopped}");
    assert_eq!(requester.kinds().len(), decided);

    let mut requester = Requester::new();
    requester.own();
    requester.submit_request_raw(unknown(2));
    requester.settle();
    assert!(requester.kinds().contains(&"command.dead_lettered".to_owned()), "{:?}", requester.kinds());
}

/// Rule 13, OPS-9: an owner that does not read the level which another one raised stops with its name before it folds
/// anything of that level; one that raised it itself leaves the partition.
#[test]
fn owner_stops_at_a_level_that_it_does_not_read() {
    let mut requester = Requester::with(Config { reads: Level::new(2), ..Config::default() });
    requester.own();
    requester.say(ShardId::CATALOGUE, process(2));
    requester.settle();
    assert!(requester.kinds().contains(&"level.raised".to_owned()), "{:?}", requester.kinds());
    requester.start.config.reads = Level::FIRST;
    requester.another("old");
    let records = requester.journal.clone();
    let moment = requester.moment;
    let stopped = requester.owner.step(Input::Journal(records), moment).unwrap_err();
    assert!(
        matches!(stopped, Error::TooNew { level, reads, .. } if level == Level::new(2) && reads == Level::FIRST)
    );
    assert!(
        stopped.to_string().contains("it goes on with level 2, and this process reads up to level 1"),
        "{stopped}"
    );
    let state = requester.owner.state().unwrap();
    assert_eq!(state.level(), Level::FIRST, "nothing of it was folded");

    let mut own = Requester::with(Config { reads: Level::FIRST, ..Config::default() });
    own.own();
    own.say(ShardId::CATALOGUE, process(2));
    own.read_commands();
    let moment = own.moment;
    let raising = own.owner.drive(moment).unwrap();
    own.carry_out(raising);
    own.read_journal();
    let error = own.owner.drive(moment).unwrap_err();
    assert!(matches!(error, Error::TooNew { .. }), "{error}");
}
