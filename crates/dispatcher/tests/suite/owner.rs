//! The owner without threads, one rule at a time.

use crate::kit::client::submission;
use crate::kit::desk::{
    Desk, GROUP, appended_kinds, envelope_of, hash_of, heartbeat, is_append, report_failed, request_start,
};
use crate::kit::worker::registration;
use tidemill_dispatcher::{Config, Error, Input, Moment, Output, Owner, Role, Start};
use tidemill_engine::Effect;
use tidemill_log::{AppendError, Frame, Kind};
use tidemill_model::{Command, GroupSettings, Outcome, Rejection, ShardId, Token, WorkMessage};

fn claims(outputs: &[Output]) -> bool {
    outputs.iter().any(|output| match output {
        Output::Append(record) => Frame::decode(record).unwrap().kind == Kind::Claim,
        _ => false,
    })
}

/// Caught up with a journal that ends as given, suggested, and this long patient: does it claim?
fn claims_after(ms: i64, config: Config, end: impl Fn(&mut Desk)) -> bool {
    let mut desk = Desk::with(config);
    end(&mut desk);
    desk.step(Input::Suggested(true));
    desk.read_journal();
    let ends = desk.ends();
    desk.step(ends);
    desk.pass(ms);
    let outputs = desk.drive();
    claims(&outputs)
}

fn owned_by(incarnation: &'static str, then: Option<Kind>) -> impl Fn(&mut Desk) {
    move |desk| {
        let claim = desk.head().claim(incarnation, "it:1").unwrap();
        desk.land(claim);
        if let Some(kind) = then {
            let record = desk.head().tip().next(kind, Vec::new()).unwrap().0;
            desk.land(record);
        }
    }
}

/// Rule 3.
#[test]
fn claim_waits_for_silence_unless_nobody_owns() {
    let after = |ms, end: &dyn Fn(&mut Desk)| claims_after(ms, Config::default(), end);
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
    let mut desk = Desk::new();
    assert_eq!(desk.drive(), [], "not suggested");
    desk.step(Input::Suggested(true));
    assert_eq!(desk.drive(), [Output::AskEnds]);
    assert_eq!(desk.drive(), [], "one question at a time");
    let genesis = desk.unread_journal();
    owned_by("other", Some(Kind::Resigned))(&mut desk);
    let ends = desk.ends();
    desk.step(ends);
    desk.step(genesis);
    desk.pass(60_000);
    assert_eq!(desk.drive(), [], "two records are not read");
    desk.read_journal();
    desk.step(Input::Suggested(false));
    assert_eq!(desk.drive(), []);
    desk.step(Input::Suggested(true));
    assert!(claims(&desk.drive()));
    assert_eq!((desk.owner.role(), desk.drive()), (Role::Claiming, vec![]), "until it reads its claim");
}

#[test]
fn void_claim_restarts_with_a_wait() {
    let mut desk = Desk::new();
    desk.step(Input::Suggested(true));
    desk.read_journal();
    let ends = desk.ends();
    desk.step(ends);
    let claim = desk.drive();
    let foreign = desk.foreign_claim();
    let foreign_first = desk.land(foreign);
    let Output::Append(record) = &claim[0] else { panic!("{claim:?}") };
    desk.land(record.clone());
    let outputs = desk.read_journal();
    assert!(matches!(&outputs[..], [Output::Restart { back_off: true, .. }]), "{outputs:?} {foreign_first}");
}

/// Rule 3: what was accepted before the foreign claim still gets its effects, and nothing after it.
#[test]
fn foreign_claim_ends_ownership_at_once() {
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(GroupSettings::default());
    desk.wish(GROUP, submission("a"));
    desk.read_commands();
    let outputs = desk.drive();
    let Some(Output::Append(record)) = outputs.into_iter().find(is_append) else { panic!("no append") };
    desk.land(record);
    let foreign = desk.foreign_claim();
    desk.land(foreign);
    let outputs = desk.read_journal();
    assert!(outputs.iter().any(|output| matches!(output, Output::Act(Effect::Reply { .. }))), "{outputs:?}");
    assert!(matches!(outputs.last(), Some(Output::Restart { back_off: true, .. })), "{outputs:?}");
    // A farewell that links to the foreign claim would count, and depose its owner (simulator, seed 2957).
    assert_eq!((desk.owner.resigned_record(), desk.owner.stopped_record()), (None, None));
}

/// An owner with a submission under way, and the bytes of its append.
fn submitting() -> (Desk, Vec<u8>) {
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(GroupSettings::default());
    desk.wish(GROUP, submission("a"));
    desk.read_commands();
    let appends: Vec<Output> = desk.drive().into_iter().filter(is_append).collect();
    let [Output::Append(record)] = &appends[..] else { panic!("{appends:?}") };
    let record = record.clone();
    (desk, record)
}

/// Rule 4.
#[test]
fn refused_and_unknown_outcomes_begin_anew() {
    for (error, waits) in
        [(AppendError::Refused("x".into()), true), (AppendError::Unknown("x".into()), false)]
    {
        let (mut desk, _) = submitting();
        let outputs = desk.step(Input::Appended(Err(error)));
        let expected = Output::Restart { back_off: waits, reason: "x".to_owned() };
        assert_eq!(outputs, [expected]);
    }
}

#[test]
fn full_log_gets_the_same_record_again_after_a_tick_however_much_arrives() {
    let (mut desk, record) = submitting();
    assert_eq!(desk.step(Input::Appended(Err(AppendError::Full))), []);
    for _ in 0..5 {
        desk.pass(49);
        desk.wish(GROUP, submission("b"));
        desk.read_commands();
        assert_eq!(desk.drive(), []);
    }
    desk.pass(5);
    assert_eq!(desk.drive(), [Output::Append(record)]);
    assert_eq!(desk.drive(), []);
}

/// Rule 4: a record too large is a bug; the partition stops, and says so where others read it.
#[test]
fn too_large_record_stops_the_partition_on_record() {
    let (mut desk, _) = submitting();
    assert_eq!(desk.owner.stopped_record(), None, "while an append is under way");
    let result = desk.owner.step(Input::Appended(Err(AppendError::TooLarge)), desk.moment);
    assert!(matches!(result, Err(Error::Append { .. })), "{result:?}");
    let record = desk.owner.stopped_record().unwrap();
    desk.land(record);
    assert!(desk.head().stopped);
}

/// Rules 1 and 6.
#[test]
fn commands_gather_while_an_append_is_under_way_and_effects_wait_for_the_read_back() {
    let (mut desk, record) = submitting();
    for name in ["b", "c", "d"] {
        desk.wish(GROUP, submission(name));
        assert_eq!(desk.read_commands(), []);
        assert_eq!(desk.drive(), [], "one append at a time");
    }
    assert_eq!(desk.owner.backlog(), 3);
    assert!(desk.owner.state().is_none(), "nobody sees what is not in the journal");
    let offset = desk.land(record);
    assert_eq!(desk.step(Input::Appended(Ok(offset))), [], "acknowledged is not read back");
    let acts = desk.read_journal();
    let replies = acts.iter().filter(|act| matches!(act, Output::Act(Effect::Reply { .. })));
    assert_eq!(replies.count(), 1);
    let outputs = desk.drive();
    let envelope = envelope_of(outputs.iter().find(|output| is_append(output)).unwrap());
    assert_eq!(envelope.causes.iter().filter(|cause| cause.events == 2).count(), 3, "{envelope:?}");
    assert_eq!(envelope.resume.unwrap().hash, hash_of(desk.commands.last().unwrap()), "rule 5");
}

/// A job that fires every ten minutes, defined right after midnight.
fn with_schedule(missed_runs: &str) -> Desk {
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(GroupSettings::default());
    desk.apply(serde_json::json!({
        "name": "a", "group": "demo", "type": "noop", "missed_runs": missed_runs,
        "schedule": {"cron": "0 0/10 * * * ?", "zone": "UTC"},
    }));
    desk
}

fn run_by_hand(desk: &Desk, minutes: i64) -> Command {
    let history = desk.history();
    let job = history.events().find_map(|event| match event {
        tidemill_model::Event::JobReceived { definition, .. } => Some(definition.id),
        _ => None,
    });
    let at = crate::kit::desk::MIDNIGHT + jiff::SignedDuration::from_mins(minutes);
    Command::RunJob {
        job: job.unwrap(),
        logical_time: Some(at),
        parameters: Default::default(),
        concurrent: true,
    }
}

/// Rule 10: what was in the log before the timer's time is decided first, however late it is read.
#[test]
fn timer_waits_for_the_commands_below_ends_that_were_asked_for_after_its_time() {
    let mut desk = with_schedule("all");
    let due_in = desk.owner.next_timer().unwrap().duration_since(desk.moment.wall).as_millis() as i64;
    desk.pass(due_in - 1);
    desk.settle();
    let before = desk.kinds().len();
    let command = run_by_hand(&desk, 10);
    desk.wish(GROUP, command);
    desk.pass(2);
    let outputs = desk.drive();
    assert_eq!(outputs, [Output::AskEnds], "the old ends are from before its time");
    let ends = desk.ends();
    desk.step(ends);
    assert_eq!(desk.drive(), [], "a command below the ends is not read");
    desk.settle();
    let kinds = desk.kinds_since(before);
    let made: Vec<&String> =
        kinds.iter().filter(|kind| *kind == "batch_generated" || *kind == "fires_skipped").collect();
    assert_eq!(made, ["batch_generated", "fires_skipped"], "by hand first, and so not by schedule");
}

/// No flood of commands holds a timer up for longer than its own ends.
#[test]
fn timer_goes_before_commands_that_came_after_its_ends() {
    let mut desk = with_schedule("all");
    desk.pass(11 * 60_000);
    let ask = desk.drive();
    assert!(ask.contains(&Output::AskEnds), "{ask:?}");
    let ends = desk.ends();
    for n in 0..2_000 {
        desk.wish(GROUP, submission(&format!("j{n}")));
    }
    desk.read_commands();
    desk.step(ends);
    let outputs = desk.drive();
    let kinds = appended_kinds(&outputs);
    assert_eq!(kinds[..3], ["worker_lost", "batch_generated", "job_submitted"]);
    assert!(desk.owner.backlog() > 0, "the flood did not fit into one envelope");
}

/// A5, GEN-3: the owner is away over three base times.
#[test]
fn catching_up_makes_exactly_what_the_policy_says() {
    for (policy, generated, skipped) in [("all", 3, 0), ("latest", 1, 2), ("none", 0, 3)] {
        let mut desk = with_schedule(policy);
        let before = desk.kinds().len();
        desk.pass(35 * 60_000);
        desk.another("next");
        desk.own();
        let kinds = desk.kinds_since(before);
        assert_eq!(kinds.iter().filter(|kind| *kind == "batch_generated").count(), generated, "{policy}");
        let history = desk.history();
        let counts = history.events().filter_map(|event| match event {
            tidemill_model::Event::FiresSkipped { count, .. } => Some(*count),
            _ => None,
        });
        assert_eq!(counts.sum::<u64>(), skipped, "{policy}");
        desk.settle();
        assert_eq!(desk.kinds_since(before).len(), kinds.len(), "and only once");
    }
}

/// A5: a fact that reached the log in the meantime is not overtaken by the timers of that time.
#[test]
fn what_was_wished_during_the_outage_counts_before_the_missed_fires() {
    let mut desk = with_schedule("all");
    let before = desk.kinds().len();
    desk.pass(25 * 60_000);
    let command = run_by_hand(&desk, 20);
    desk.wish(GROUP, command);
    desk.pass(10 * 60_000);
    desk.another("next");
    desk.own();
    let kinds = desk.kinds_since(before);
    let made: Vec<&str> = kinds
        .iter()
        .map(String::as_str)
        .filter(|k| ["batch_generated", "fires_skipped"].contains(k))
        .collect();
    assert_eq!(made, ["batch_generated", "batch_generated", "fires_skipped", "batch_generated"]);
}

fn brisk() -> GroupSettings {
    GroupSettings { lost_after_ms: 30_000, lease_ms: 60_000, lease_margin_ms: 5_000, ..Default::default() }
}

/// Rule 9, EXE-8.
#[test]
fn silence_is_counted_by_the_monotonic_clock_only() {
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(brisk());
    let heard = desk.moment;
    let at = |boot_ms: u64, wall_ms: i64| Moment {
        boot_ms: heard.boot_ms + boot_ms,
        wall: heard.wall + jiff::SignedDuration::from_millis(wall_ms),
    };
    let mut lost_at = |moment: Moment| {
        desk.moment = moment;
        desk.settle();
        let kinds = desk.kinds();
        let lost = kinds.iter().filter(|kind| *kind == "worker_lost").count();
        (lost, kinds.iter().filter(|kind| *kind == "lease_expired").count())
    };
    assert_eq!(lost_at(at(29_999, 34_000)), (0, 0), "the wall clock is ahead");
    assert_eq!(lost_at(at(30_251, 26_000)), (1, 0), "the wall clock is behind");
    assert_eq!(lost_at(at(64_900, 69_000)), (1, 0));
    assert_eq!(lost_at(at(65_500, 61_000)), (1, 1));
}

/// Rule 9: a heartbeat that is in the log counts, however late it is read.
#[test]
fn nobody_is_lost_before_everything_up_to_the_ends_was_read() {
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(brisk());
    desk.pass(20_000);
    desk.say(GROUP, heartbeat());
    desk.pass(20_000);
    let before = desk.kinds().len();
    let ask = desk.drive();
    assert_eq!(ask, [Output::AskEnds]);
    let ends = desk.ends();
    desk.step(ends);
    assert_eq!(desk.drive(), []);
    desk.settle();
    assert_eq!(desk.kinds_since(before), Vec::<String>::new());
    desk.pass(30_251);
    desk.settle();
    assert_eq!(desk.kinds_since(before), ["worker_lost"]);
}

/// Rule 9. The present life would be lost, its lease over, and a second attempt started beside its first.
#[test]
fn a_late_word_of_an_earlier_life_does_not_silence_the_present_one() {
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(GroupSettings::default());
    desk.pass(20_000);
    desk.say(GROUP, heartbeat());
    desk.settle();
    desk.pass(20_000);
    desk.say(GROUP, Command::RegisterWorker(Box::new(registration("w1", "life-2", 2))));
    desk.say(GROUP, heartbeat());
    desk.settle();
    let before = desk.kinds().len();
    desk.pass(1_000);
    desk.settle();
    assert_eq!(desk.kinds_since(before), [""; 0]);
}

/// Rule 9: a new owner gives everyone the whole time, counted from its claim.
#[test]
fn silence_counts_from_the_claim_of_a_new_owner() {
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(brisk());
    desk.pass(3_600_000);
    desk.another("next");
    desk.own();
    let before = desk.kinds().len();
    desk.pass(29_000);
    desk.settle();
    assert_eq!(desk.kinds_since(before), Vec::<String>::new());
    desk.pass(1_500);
    desk.settle();
    assert_eq!(desk.kinds_since(before), ["worker_lost"]);
}

/// Rule 10.
#[test]
fn clock_that_steps_stops_the_owner() {
    for step_ms in [-5_001, 5_001] {
        let mut desk = Desk::new();
        desk.own();
        desk.moment.wall += jiff::SignedDuration::from_millis(step_ms);
        let result = desk.owner.drive(desk.moment);
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
        let mut desk = Desk::new();
        desk.step(Input::Suggested(true));
        desk.read_journal();
        let ends = desk.ends();
        desk.step(ends);
        let Output::Append(claim) = desk.drive().remove(0) else { panic!("no claim") };
        let sent = desk.moment.wall;
        desk.moment.wall = sent + jiff::SignedDuration::from_millis(log_ahead_ms);
        desk.land(claim);
        desk.moment.wall = sent;
        desk.pass(slept_ms);
        let input = desk.unread_journal();
        let result = desk.owner.step(input, desk.moment);
        assert_eq!(result.is_ok(), works, "{log_ahead_ms} {slept_ms}: {result:?}");
    }
}

/// Rule 10: a step while the claim is on its way, which the log's time of it cannot tell from a slow read.
#[test]
fn clock_that_steps_while_the_claim_is_under_way_stops_the_owner() {
    for (step_ms, works) in [(4_999, true), (5_001, false), (60_000, false)] {
        let mut desk = Desk::new();
        desk.step(Input::Suggested(true));
        desk.read_journal();
        let ends = desk.ends();
        desk.step(ends);
        let Output::Append(claim) = desk.drive().remove(0) else { panic!("no claim") };
        desk.land(claim);
        desk.pass(1_000);
        desk.moment.wall += jiff::SignedDuration::from_millis(step_ms);
        let input = desk.unread_journal();
        let result = desk.owner.step(input, desk.moment);
        assert_eq!(result.is_ok(), works, "{step_ms}: {result:?}");
    }
}

/// Rule 5: a commands topic that is not the one of the resume point.
#[test]
fn lost_commands_stop_the_partition() {
    let restart = || {
        let mut desk = Desk::new();
        desk.own();
        desk.furnish(GroupSettings::default());
        desk.another("next");
        desk
    };
    let claim = |desk: &mut Desk| {
        desk.step(Input::Suggested(true));
        desk.read_journal();
        desk.pass(2_000);
        let ends = desk.ends();
        desk.step(ends);
        let Output::Append(claim) = desk.drive().remove(0) else { panic!("no claim") };
        desk.land(claim);
        let outputs = desk.read_journal();
        desk.carry_out(outputs.into_iter().filter(|o| matches!(o, Output::ReadCommands(_))).collect());
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
    let mut desk = Desk::new();
    let start = Start { count: 3, ..desk.start.clone() };
    desk.owner = Owner::new(start);
    let input = desk.unread_journal();
    let result = desk.owner.step(input, desk.moment);
    assert!(matches!(result, Err(Error::PartitionCount { journal: 1, log: 3, .. })), "{result:?}");
}

/// Rule 12: a reader never skips what it does not understand.
#[test]
fn unreadable_body_stops_the_reader() {
    let mut desk = Desk::new();
    owned_by("other", None)(&mut desk);
    let newer = br#"{"now":"2030-01-01T00:00:00.000Z","events":[{"shard":1,"event":{"of_tomorrow":{}}}]}"#;
    let record = desk.head().tip().next(Kind::Envelope, newer.to_vec()).unwrap().0;
    desk.land(record);
    let input = desk.unread_journal();
    let result = desk.owner.step(input, desk.moment);
    assert!(matches!(result, Err(Error::Unreadable { offset: 2, .. })), "{result:?}");
}

/// Rule 3.
#[test]
fn resigning_is_on_record_and_the_next_one_claims_at_once() {
    let (mut desk, record) = submitting();
    desk.step(Input::Resign);
    assert_eq!(desk.drive(), [], "what is under way is finished first");
    desk.land(record);
    desk.read_journal();
    let outputs = desk.drive();
    let [Output::Append(resigned)] = &outputs[..] else { panic!("{outputs:?}") };
    desk.land(resigned.clone());
    assert_eq!(desk.read_journal(), [Output::Resigned]);
    assert!(desk.head().resigned);
    desk.another("next");
    desk.step(Input::Suggested(true));
    desk.read_journal();
    let ends = desk.ends();
    desk.step(ends);
    assert!(claims(&desk.drive()));
}

/// Rule 12.
#[test]
fn command_that_cannot_be_decoded_is_set_aside_once_that_is_on_record() {
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(GroupSettings::default());
    desk.wish_raw(b"?".to_vec());
    desk.read_commands();
    let outputs = desk.drive();
    assert!(!outputs.iter().any(|output| matches!(output, Output::Act(_))), "{outputs:?}");
    desk.carry_out(outputs);
    let offset = desk.commands.len() as u64 - 1;
    let letter = desk.acts.last().unwrap();
    assert!(matches!(letter, Effect::DeadLetter { offset: o, .. } if *o == offset), "{letter:?}");
    let panics = desk.wish(GROUP, Command::PlantedPanic {});
    let fine = desk.wish(GROUP, submission("a"));
    desk.settle();
    let outcome = |request| {
        desk.acts.iter().find_map(|act| match act {
            Effect::Reply { reply, .. } if reply.request == request => Some(reply.outcome.clone()),
            _ => None,
        })
    };
    assert!(matches!(outcome(panics), Some(Outcome::Refused(Rejection::Quarantined { .. }))));
    assert!(matches!(outcome(fine), Some(Outcome::Answered(_))));
}

/// Rule 6: effects may be lost, what they say is not.
#[test]
fn lost_effects_are_said_again_also_if_that_is_heard_while_an_append_is_under_way() {
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(GroupSettings::default());
    desk.wish(GROUP, submission("a"));
    desk.settle();
    let token = Token::mint(1, GROUP);
    let assigned = |acts: &[Effect]| {
        let is = |act: &&Effect| matches!(act, Effect::Work { message: WorkMessage::Assigned { token: t, .. }, .. } if *t == token);
        acts.iter().filter(is).count()
    };
    assert_eq!(assigned(&desk.acts), 1);
    desk.step(Input::EffectsLost);
    desk.settle();
    assert_eq!(assigned(&desk.acts), 2);
    desk.pass(1_000);
    desk.wish(GROUP, submission("b"));
    desk.read_commands();
    let append: Vec<Output> = desk.drive().into_iter().filter(is_append).collect();
    desk.step(Input::EffectsLost);
    assert_eq!(desk.drive(), [], "an append is under way");
    desk.carry_out(append);
    desk.settle();
    assert_eq!(assigned(&desk.acts), 3);
    desk.step(Input::EffectsLost);
    desk.settle();
    assert_eq!(assigned(&desk.acts), 3, "not more than once a second");
    desk.pass(1_000);
    desk.settle();
    assert_eq!(assigned(&desk.acts), 4);
}

/// Rule 6: a new owner says everything outstanding again.
#[test]
fn new_owner_says_what_is_outstanding() {
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(GroupSettings::default());
    desk.wish(GROUP, submission("a"));
    desk.wish(GROUP, submission("b"));
    desk.settle();
    desk.say(GROUP, request_start(Token::mint(1, GROUP)));
    desk.settle();
    desk.another("next");
    desk.acts.clear();
    desk.own();
    let said: Vec<&str> = desk
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
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(GroupSettings::default());
    let before = desk.head().offset;
    desk.say(GROUP, heartbeat());
    desk.settle();
    assert_eq!(desk.head().offset, before, "a heartbeat alone is not worth a record");
    desk.pass(5_000);
    desk.settle();
    assert_eq!(desk.head().offset, before + 1);
    let resume = desk.history().state.resume().unwrap().offset;
    assert_eq!(resume, desk.commands.len() as u64 - 1);
    desk.pass(60_000);
    desk.settle();
    assert_eq!(desk.head().offset, before + 2, "only the lost worker: nothing is left to cover");
}

/// An attempt that fails comes back when its time has come, by a timer.
#[test]
fn retry_comes_due_by_a_timer() {
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(GroupSettings::default());
    let Command::SubmitJob(mut job) = submission("a") else { panic!("a submission") };
    (job.retries, job.retry_interval_ms) = (1, 20_000);
    desk.wish(GROUP, Command::SubmitJob(job));
    desk.settle();
    for command in [request_start(Token::mint(1, GROUP)), report_failed(Token::mint(1, GROUP))] {
        desk.say(GROUP, command);
        desk.settle();
    }
    desk.pass(19_999);
    desk.settle();
    assert!(!desk.kinds().contains(&"retry_due".to_owned()));
    desk.pass(1);
    desk.settle();
    let kinds = desk.kinds();
    assert_eq!(kinds[kinds.len() - 2..], ["retry_due", "batch_assigned"]);
}

/// The catalogue's messages to a shard are sent again until they are acknowledged.
#[test]
fn messages_between_shards_are_sent_again_until_acknowledged() {
    let mut desk = Desk::new();
    desk.own();
    let name = "demo".try_into().unwrap();
    let worker_key = crate::kit::worker::public_key();
    let settings = GroupSettings::default();
    desk.wish(ShardId::CATALOGUE, Command::DefineGroup { name, worker_key, settings });
    desk.read_commands();
    let sends = |outputs: &[Output]| {
        let is = |output: &&Output| {
            matches!(output, Output::Act(Effect::Send { command: Command::Deliver { .. }, .. }))
        };
        outputs.iter().filter(is).count()
    };
    let outputs = desk.drive();
    let Some(Output::Append(record)) = outputs.into_iter().find(is_append) else { panic!("no append") };
    desk.land(record);
    let first = desk.read_journal();
    assert_eq!(sends(&first), 1);
    desk.pass(2_900);
    assert_eq!(sends(&desk.drive()), 0);
    desk.pass(200);
    let again = desk.drive();
    assert_eq!(sends(&again), 1, "{again:?}");
    desk.carry_out(first);
    desk.carry_out(again);
    desk.settle();
    desk.pass(60_000);
    assert_eq!(sends(&desk.drive()), 0, "acknowledged");
    assert_eq!(desk.history().count("group_received"), 1, "a repeat changes nothing");
}

/// Rule 7, 33d909e: under load, where the next append is under way before the last one was read, a lost message
/// between shards is sent again as well.
#[test]
fn messages_between_shards_are_sent_again_while_an_append_is_under_way() {
    let mut desk = Desk::new();
    desk.own();
    let (name, worker_key) = ("demo".try_into().unwrap(), crate::kit::worker::public_key());
    let settings = GroupSettings::default();
    desk.wish(ShardId::CATALOGUE, Command::DefineGroup { name, worker_key, settings });
    desk.read_commands();
    let is_send = |output: &&Output| {
        matches!(output, Output::Act(Effect::Send { command: Command::Deliver { .. }, .. }))
    };
    let mut append = desk.drive().into_iter().find(is_append);
    let mut sent = 0;
    for round in 0..40 {
        let Some(Output::Append(record)) = append.take() else { panic!("no append in round {round}") };
        // The next command is there before the append comes back, so the next append follows at once.
        desk.wish(ShardId::CATALOGUE, Command::RevokeKey { app: "nobody".to_owned() });
        desk.read_commands();
        desk.pass(100);
        let between = desk.drive();
        desk.land(record);
        let back = desk.read_journal();
        let after = desk.drive();
        sent += between.iter().chain(&back).chain(&after).filter(is_send).count();
        append = after.into_iter().find(is_append);
    }
    assert_eq!(sent, 2, "once, and again after three seconds of four");
}

/// Rule 9: a lease that was shortened while a worker goes by the longer one is not over early.
#[test]
fn a_shortened_lease_counts_for_workers_that_were_told_of_it() {
    let mut desk = Desk::new();
    desk.own();
    desk.furnish(brisk());
    desk.wish(GROUP, submission("a"));
    desk.settle();
    desk.say(GROUP, request_start(Token::mint(1, GROUP)));
    desk.settle();
    let (name, worker_key) = ("demo".try_into().unwrap(), crate::kit::worker::public_key());
    let settings =
        GroupSettings { lost_after_ms: 1_000, lease_ms: 2_000, lease_margin_ms: 0, ..Default::default() };
    desk.wish(ShardId::CATALOGUE, Command::DefineGroup { name, worker_key, settings });
    desk.settle();
    let mut expired_after = |ms| {
        desk.pass(ms);
        desk.settle();
        desk.settle();
        desk.kinds().contains(&"lease_expired".to_owned())
    };
    assert!(!expired_after(2_000));
    assert!(!expired_after(62_000), "65 s, its lease and margin, are not over");
    assert!(expired_after(2_000));
}
