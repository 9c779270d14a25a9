//! PUL-5: users move from group to group, with their history and their own tasks, exactly once, whatever crashes.

use std::collections::{BTreeMap, BTreeSet};

use crate::kit::{GROUP, World, group, rejection};
use expect_test::expect;
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};
use tidemill_engine::Effect;
use tidemill_model::{
    Answer, CatalogueCommand, CatalogueEvent, Command, Envelope, Event, Executor, GrantId, GroupSettings,
    Ledger, LiveAnswer, LiveQuery, MovedTask, Outcome, PulledGrant, ReplicationEvent, RequestId,
    ShardCommand, ShardId, TaskCommand, TaskEvent, TaskId, TaskLedger, TaskSpec, Timestamp, TransferEvent,
    UserHistory, UserName, UserStanding,
};

const OTHER: ShardId = ShardId(2);

fn user(name: &str) -> UserName {
    name.try_into().unwrap()
}

/// Groups g, where ann and bob are, and h.
fn world() -> World {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    let users = vec![user("ann"), user("bob")];
    let outcome = world.ask(
        ShardId::CATALOGUE,
        Command::Catalogue(CatalogueCommand::AssignUsers { group: group("g"), users }),
    );
    assert_eq!(outcome, Outcome::Answered(Answer::Done));
    world.events();
    world
}

fn spec(executor: Value, more: Value) -> TaskSpec {
    let mut value = json!({"executor": executor, "when": {"once": {"start": "2026-07-01T10:00:00.000Z"}}});
    for (key, field) in more.as_object().unwrap() {
        value[key] = field.clone();
    }
    TaskSpec::from_value(value).unwrap()
}

/// A task of ann's own.
fn own(more: Value) -> TaskSpec {
    spec(json!({"user": "ann"}), more)
}

fn create(world: &mut World, shard: ShardId, spec: TaskSpec) -> TaskId {
    match world.ask(shard, Command::Task(TaskCommand::Create { spec })) {
        Outcome::Answered(Answer::Task { task, .. }) => task,
        other => panic!("{}", rejection(&other)),
    }
}

fn pull(world: &mut World, shard: ShardId, who: &str) -> Outcome {
    world.ask(shard, Command::Task(TaskCommand::Pull { user: user(who) }))
}

fn pulled(world: &mut World, shard: ShardId, who: &str) -> PulledGrant {
    match pull(world, shard, who) {
        Outcome::Answered(Answer::Pulled(grant)) => *grant,
        other => panic!("{}", rejection(&other)),
    }
}

fn complete(world: &mut World, shard: ShardId, who: &str, grant: GrantId) -> Outcome {
    world.ask(
        shard,
        Command::Task(TaskCommand::Complete { user: user(who), grant, result: "done".to_owned() }),
    )
}

/// Pulls and completes; which task.
fn does(world: &mut World, shard: ShardId, who: &str) -> TaskId {
    let given = pulled(world, shard, who);
    let completed = complete(world, shard, who, given.grant);
    assert_eq!(completed, Outcome::Answered(Answer::Completed { grant: given.grant }));
    given.task
}

fn is_nothing(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Answered(Answer::NothingDue { .. }))
}

fn move_to(who: &str, to: &str) -> Command {
    Command::Catalogue(CatalogueCommand::MoveUser { user: user(who), to: group(to) })
}

fn moves(world: &mut World, who: &str, to: &str) -> Outcome {
    world.ask(ShardId::CATALOGUE, move_to(who, to))
}

fn standing(world: &World, shard: ShardId, who: &str) -> Option<UserStanding> {
    match world.partition.answer(shard, &LiveQuery::User { user: user(who), at: world.wall }) {
        LiveAnswer::User(standing) => Some(*standing),
        _ => None,
    }
}

fn ledger(world: &World, shard: ShardId, task: TaskId) -> Option<TaskLedger> {
    match world.partition.answer(shard, &LiveQuery::TaskLedger { task, before: None, limit: 1_000 }) {
        LiveAnswer::TaskLedger(ledger) => Some(*ledger),
        _ => None,
    }
}

/// What the shards' events say, with the shard, in short.
fn told(world: &World, since: usize) -> Vec<String> {
    let bodies = world.journal[since..].iter();
    let recorded = bodies.flat_map(|body| serde_json::from_slice::<Envelope>(body).unwrap().events);
    let line = |recorded: tidemill_model::Recorded| {
        let line = crate::kit::brief(&recorded.event, &BTreeMap::new())?;
        Some(format!("{}: {line}", recorded.shard))
    };
    recorded.filter_map(line).collect()
}

/// Decides one command after another; messages between shards only as far as `until` says no.
fn run_until(world: &mut World, mut until: impl FnMut(&Command) -> bool) {
    world.held.get_or_insert_default();
    loop {
        while world.step(1) {}
        let held = world.held.take().unwrap();
        let mut rest = held.into_iter();
        let mut kept = Vec::new();
        let mut moved = false;
        for effect in rest.by_ref() {
            let Effect::Send { shard, command } = effect else { panic!("{effect:?}") };
            if until(&command) {
                kept.push(Effect::Send { shard, command });
            } else {
                world.send(shard, command);
                moved = true;
            }
        }
        world.held = Some(kept);
        if !moved {
            return;
        }
    }
}

fn is_message(command: &Command, kind: &str) -> bool {
    let Command::Shard(ShardCommand::Deliver { message, .. }) = command else { return false };
    let value = serde_json::to_value(message).unwrap();
    value.to_string().contains(&format!("\"{kind}\""))
}

/// PUL-5: what the user has done stays done in the new group, its own tasks come along with their ledgers, and the
/// old group knows neither any more.
#[test]
fn a_move_takes_history_and_own_tasks_along() {
    let mut world = world();
    let twice = create(&mut world, GROUP, own(json!({"dispatch_times": 2, "repeat": true})));
    let every = json!({"every_minutes": {"n": 5, "start": "2026-07-01T10:00:00.000Z"}});
    let often = create(&mut world, GROUP, own(json!({"when": every})));
    let gone = create(&mut world, GROUP, own(json!({})));
    world.ask(GROUP, Command::Task(TaskCommand::Delete { task: gone }));
    assert_eq!([does(&mut world, GROUP, "ann"), does(&mut world, GROUP, "ann")], [twice, twice]);
    assert_eq!(does(&mut world, GROUP, "ann"), often);
    let since = world.journal.len();
    assert_eq!(moves(&mut world, "ann", "h"), Outcome::Answered(Answer::Done));
    expect![[r#"
        [
            "0: shard 1 asked to release user ann",
            "1: user ann released, 2 tasks",
            "0: user ann moved to h",
            "2: user ann received, 2 tasks",
        ]
    "#]]
    .assert_debug_eq(&told(&world, since));
    assert_eq!(standing(&world, GROUP, "ann"), None);
    assert_eq!((ledger(&world, GROUP, twice), ledger(&world, GROUP, often)), (None, None));
    assert!(ledger(&world, GROUP, gone).is_some(), "a deleted one stays until it is old");
    let totals = Ledger { taken: 2, completed: 2, ..Ledger::default() };
    let here = ledger(&world, OTHER, twice).unwrap();
    assert_eq!((here.totals, here.occurrences[0].stock), (totals, 0), "used up is used up");
    let last = standing(&world, OTHER, "ann").unwrap().last.unwrap();
    assert_eq!((last.task, last.start.to_string().as_str()), (often, "2026-07-01T10:00:00.000Z"));
    let again = complete(&mut world, OTHER, "ann", last.grant);
    assert_eq!(again, Outcome::Answered(Answer::Completed { grant: last.grant }), "idempotent here too");
    let next = pulled(&mut world, OTHER, "ann");
    assert_eq!((next.task, next.start.to_string().as_str()), (often, "2026-07-01T10:05:00.000Z"));
    assert_eq!(pull(&mut world, GROUP, "bob"), Outcome::Answered(Answer::NothingDue { next_at: None }));
    assert_eq!(world.partition, world.folded());
}

/// PUL-4, PUL-5: back and forth, nothing that is done is given again, of the group's tasks neither.
#[test]
fn what_is_done_stays_done_after_a_round_trip() {
    let mut world = world();
    let of_g = create(&mut world, GROUP, spec(json!({"group": "g"}), json!({"dispatch_times": 9})));
    let of_h = create(&mut world, OTHER, spec(json!({"group": "h"}), json!({"dispatch_times": 9})));
    assert_eq!(does(&mut world, GROUP, "ann"), of_g);
    moves(&mut world, "ann", "h");
    assert_eq!(does(&mut world, OTHER, "ann"), of_h);
    assert!(is_nothing(&pull(&mut world, OTHER, "ann")));
    moves(&mut world, "ann", "g");
    assert!(is_nothing(&pull(&mut world, GROUP, "ann")), "done before");
    assert_eq!(does(&mut world, GROUP, "bob"), of_g, "another user gets it");
    moves(&mut world, "ann", "h");
    assert!(is_nothing(&pull(&mut world, OTHER, "ann")));
    assert_eq!(world.partition, world.folded());
}

/// PUL-5: neither moved nor removed while a grant is live; the refusal names it, and the user is served as before.
#[test]
fn a_live_grant_keeps_its_user() {
    let mut world = world();
    create(&mut world, GROUP, own(json!({})));
    let given = pulled(&mut world, GROUP, "ann");
    let since = world.journal.len();
    for request in
        [move_to("ann", "h"), Command::Catalogue(CatalogueCommand::DeleteUser { user: user("ann") })]
    {
        let refused = world.ask(ShardId::CATALOGUE, request);
        let rule = format!("grant_live: user ann has grant {}, which is live; it must be", given.grant);
        assert!(rejection(&refused).starts_with(&rule), "{}", rejection(&refused));
    }
    assert_eq!(
        told(&world, since)[..2],
        ["0: shard 1 asked to release user ann".to_owned(), told(&world, since)[1].clone()]
    );
    assert!(pulled(&mut world, GROUP, "ann").redo);
    complete(&mut world, GROUP, "ann", given.grant);
    assert_eq!(moves(&mut world, "ann", "h"), Outcome::Answered(Answer::Done));
    assert_eq!(moves(&mut world, "ann", "h"), Outcome::Answered(Answer::Done), "it is there already");
    let removed =
        world.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::DeleteUser { user: user("ann") }));
    assert_eq!(removed, Outcome::Answered(Answer::Done));
    assert_eq!(rejection(&moves(&mut world, "ann", "g")), "unknown: there is no user ann");
    assert_eq!(rejection(&pull(&mut world, OTHER, "ann")).split(':').next(), Some("user_unknown"));
    assert_eq!(world.partition, world.folded());
}

/// PUL-5: what goes along is bounded by number and by bytes; the refusal says what to do, and then it works.
#[test]
fn too_much_to_carry_keeps_the_user_where_it_is() {
    let mut world = world();
    let tasks: Vec<TaskId> = (0..501).map(|_| create(&mut world, GROUP, own(json!({})))).collect();
    let answer = rejection(&moves(&mut world, "ann", "h"));
    assert!(
        answer.contains("has 501 tasks of its own, and at most 500 go along; delete some first"),
        "{answer}"
    );
    for task in &tasks[..1] {
        world.ask(GROUP, Command::Task(TaskCommand::Delete { task: *task }));
    }
    assert_eq!(moves(&mut world, "ann", "h"), Outcome::Answered(Answer::Done), "500 go");
    assert!(world.largest < 256 * 1024, "{}", world.largest);

    let large = || spec(json!({"user": "bob"}), json!({"parameters": {"text": "x".repeat(16_000)}}));
    let large: Vec<TaskId> = (0..9).map(|_| create(&mut world, GROUP, large())).collect();
    let answer = rejection(&moves(&mut world, "bob", "h"));
    assert!(answer.contains("at most 131072 go along; delete some of its tasks first"), "{answer}");
    world.ask(GROUP, Command::Task(TaskCommand::Delete { task: large[0] }));
    assert_eq!(moves(&mut world, "bob", "h"), Outcome::Answered(Answer::Done));
    assert_eq!(ledger(&world, OTHER, large[8]).map(|of| of.version), Some(1));
    assert_eq!(world.partition, world.folded());
}

/// PUL-5: what the old shard has forgotten by age is not given again where more is kept.
#[test]
fn what_is_forgotten_is_not_given_again_in_a_group_that_keeps_more() {
    let days = |pull_retention_days| GroupSettings { pull_retention_days, ..GroupSettings::default() };
    let mut world = World::with(crate::kit::START, days(1));
    world.define_group("h", days(3_650));
    let users = vec![user("ann")];
    world.ask(
        ShardId::CATALOGUE,
        Command::Catalogue(CatalogueCommand::AssignUsers { group: group("g"), users }),
    );
    let every =
        json!({"every_days": {"n": 1, "at": "10:00", "zone": "UTC", "start": "2026-07-01T00:00:00.000Z"}});
    let daily = create(&mut world, GROUP, own(json!({"when": every, "dispatch_times": 2, "repeat": true})));
    assert_eq!([does(&mut world, GROUP, "ann"), does(&mut world, GROUP, "ann")], [daily, daily]);
    for _ in 0..4 {
        world.pass(SignedDuration::from_hours(24));
    }
    moves(&mut world, "ann", "h");
    let next = pulled(&mut world, OTHER, "ann");
    assert_eq!(
        next.start.to_string(),
        "2026-07-02T10:00:00.000Z",
        "that of the first was forgotten, as used up"
    );
    assert_eq!(world.partition, world.folded());
}

/// PUL-5: what is too old for the old group, and has not been forgotten yet, is known to the new one.
#[test]
fn what_is_old_and_not_forgotten_yet_goes_along() {
    let days = |pull_retention_days| GroupSettings { pull_retention_days, ..GroupSettings::default() };
    let mut world = World::with(crate::kit::START, days(1));
    world.define_group("h", days(3_650));
    let users = vec![user("ann")];
    world.ask(
        ShardId::CATALOGUE,
        Command::Catalogue(CatalogueCommand::AssignUsers { group: group("g"), users }),
    );
    let every = json!({"every_minutes": {"n": 10, "start": "2026-07-01T10:00:00.000Z"}});
    let often = create(&mut world, GROUP, own(json!({"when": every, "dispatch_times": 2, "repeat": true})));
    for _ in 0..4 {
        assert_eq!(does(&mut world, GROUP, "ann"), often);
    }
    world.until("2026-07-02T10:05:00.000Z");
    let purged = told(&world, 0).into_iter().filter(|line| line.contains("purged")).count();
    assert_eq!(purged, 1, "of 10:00, and for an hour no more");
    world.until("2026-07-02T10:30:00.000Z");
    moves(&mut world, "ann", "h");
    let next = pulled(&mut world, OTHER, "ann");
    assert_eq!(next.start.to_string(), "2026-07-01T10:20:00.000Z", "that of 10:10 is used up");
    assert_eq!(world.partition, world.folded());
}

/// PUL-5, PUL-7, PUL-13: pulls go on until the old shard has let the user go; then they are refused, *being moved* as far
/// as that shard can know, until the new one has it, and so are completions and returns. Two moves at once: one.
#[test]
fn pulls_and_other_requests_meanwhile() {
    let mut world = world();
    create(&mut world, GROUP, own(json!({})));
    let code = |outcome: Outcome| rejection(&outcome).split(':').next().unwrap().to_owned();
    let in_flight = |world: &mut World, command: Command, shard: ShardId| {
        let request = RequestId::new(format!("in-flight-{}", world.journal.len()));
        let record = tidemill_model::CommandRecord {
            shard,
            request: Some(request.clone()),
            reply_to: Some(tidemill_model::InstanceId::new("tester")),
            actor: Default::default(),
            command,
        };
        world.send_record(record);
        while world.step(1) {}
        world.outside.iter().find_map(|effect| match effect {
            Effect::Reply { reply, .. } if reply.request == request => Some(reply.outcome.clone()),
            _ => None,
        })
    };
    world.held = Some(Vec::new());
    assert_eq!(in_flight(&mut world, move_to("ann", "h"), ShardId::CATALOGUE), None, "not answered yet");
    for request in [
        move_to("ann", "h"),
        move_to("ann", "g"),
        Command::Catalogue(CatalogueCommand::DeleteUser { user: user("ann") }),
        Command::Catalogue(CatalogueCommand::AssignUsers { group: group("g"), users: vec![user("ann")] }),
    ] {
        let refused = in_flight(&mut world, request, ShardId::CATALOGUE).unwrap();
        expect!["already_there: a move or removal of user ann that has not ended is already there"]
            .assert_eq(&rejection(&refused));
    }
    let pull = || Command::Task(TaskCommand::Pull { user: user("ann") });
    let given = in_flight(&mut world, pull(), GROUP).unwrap();
    let Outcome::Answered(Answer::Pulled(given)) = given else { panic!("{given:?}") };
    let done = Command::Task(TaskCommand::Complete {
        user: user("ann"),
        grant: given.grant,
        result: "ok".to_owned(),
    });
    assert!(matches!(in_flight(&mut world, done, GROUP), Some(Outcome::Answered(_))));
    let over = given.grant;
    let requests = || {
        [
            pull(),
            Command::Task(TaskCommand::Complete { user: user("ann"), grant: over, result: "ok".to_owned() }),
            Command::Task(TaskCommand::ReturnGrant { user: user("ann"), grant: over, reason: String::new() }),
        ]
    };
    let refused = |world: &mut World, shard: ShardId| {
        requests().map(|request| code(in_flight(world, request, shard).unwrap())).join(" ")
    };
    run_until(&mut world, |command| is_message(command, "report_user_detached"));
    assert_eq!(refused(&mut world, GROUP), "user_moving user_moving unknown");
    assert_eq!(refused(&mut world, OTHER), "user_unknown user_unknown unknown");
    run_until(&mut world, |command| is_message(command, "attach_user"));
    assert_eq!(refused(&mut world, GROUP), "user_unknown user_unknown unknown");
    let there = refused(&mut world, OTHER);
    assert_eq!(there, "user_unknown user_unknown unknown", "the API knows better");
    run_until(&mut world, |_| false);
    assert!(is_nothing(&in_flight(&mut world, pull(), OTHER).unwrap()));
    assert_eq!(world.partition, world.folded());
}

/// PUL-5, EVT-2: whatever record the owner dies after, with or without what it was about to send, and however often
/// a message comes: the user arrives once, with all that it had, and the request has one answer.
#[test]
fn a_move_survives_a_crash_after_every_record() {
    for (lost, twice) in [(false, false), (true, false), (false, true), (true, true)] {
        for crash_after in 0..12 {
            let mut world = world();
            let task = create(&mut world, GROUP, own(json!({"dispatch_times": 3, "repeat": true})));
            does(&mut world, GROUP, "ann");
            let before = standing(&world, GROUP, "ann").unwrap();
            let (since, request) = (world.journal.len(), RequestId::new("move"));
            let record = || tidemill_model::CommandRecord {
                shard: ShardId::CATALOGUE,
                request: Some(request.clone()),
                reply_to: Some(tidemill_model::InstanceId::new("tester")),
                actor: Default::default(),
                command: move_to("ann", "h"),
            };
            world.send_record(record());
            world.crash_on_the_way(since + crash_after, lost, twice);
            let what = format!("crash after {crash_after}, lost {lost}, twice {twice}");
            let expected = [
                "0: shard 1 asked to release user ann",
                "1: user ann released, 1 tasks",
                "0: user ann moved to h",
                "2: user ann received, 1 tasks",
            ];
            assert_eq!(told(&world, since), expected, "{what}");
            let after = standing(&world, OTHER, "ann").unwrap();
            assert_eq!((after.last, after.next), (before.last, before.next), "{what}");
            assert_eq!(standing(&world, GROUP, "ann"), None, "{what}");
            let outcome = world.ask_as(ShardId::CATALOGUE, move_to("ann", "h"), request.clone());
            assert_eq!(outcome, Outcome::Answered(Answer::Done), "{what}");
            assert_eq!(
                [does(&mut world, OTHER, "ann"), does(&mut world, OTHER, "ann")],
                [task, task],
                "{what}"
            );
            assert!(is_nothing(&pull(&mut world, OTHER, "ann")), "{what}");
            assert_eq!(world.partition, world.folded(), "{what}");
        }
    }
}

/// What the journal alone says of users, apart from the engine.
#[derive(Debug, Default)]
struct Model {
    user_groups: BTreeMap<UserName, ShardId>,
    members: BTreeMap<UserName, ShardId>,
    /// Let go, and not arrived: what they carry, and whether the catalogue has recorded it.
    carried: BTreeMap<UserName, (UserHistory, Vec<MovedTask>, bool)>,
    asked: BTreeSet<UserName>,
    last: BTreeMap<UserName, (GrantId, Timestamp)>,
    done: BTreeSet<(UserName, TaskId, Timestamp)>,
    live: BTreeMap<UserName, GrantId>,
    owners: BTreeMap<TaskId, UserName>,
    totals: BTreeMap<TaskId, Ledger>,
    seen: usize,
    arrived: usize,
    arrived_with_history: usize,
}

impl Model {
    fn read(&mut self, world: &World) {
        for body in &world.journal[self.seen..] {
            for recorded in serde_json::from_slice::<Envelope>(body).unwrap().events {
                self.event(recorded.shard, &recorded.event);
            }
        }
        self.seen = world.journal.len();
    }

    fn enters(&mut self, user: &UserName, shard: ShardId) {
        let before = self.members.insert(user.clone(), shard);
        assert_eq!(before, None, "{user} is a member of two shards");
    }

    fn own_of(&self, user: &UserName) -> BTreeSet<TaskId> {
        self.owners.iter().filter(|(_, owner)| *owner == user).map(|(task, _)| *task).collect()
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "what is not of users is not read")]
    fn event(&mut self, shard: ShardId, event: &Event) {
        match event {
            Event::Catalogue(CatalogueEvent::UsersAssigned { shard: home, users, .. }) => {
                for user in users {
                    assert_eq!(self.user_groups.insert(user.clone(), *home), None);
                }
            }
            Event::Replication(ReplicationEvent::UsersReplicated { users }) => {
                users.iter().for_each(|user| self.enters(user, shard))
            }
            Event::Catalogue(CatalogueEvent::UserMoveRequested { user, .. }) => {
                assert!(self.asked.insert(user.clone()))
            }
            Event::Catalogue(CatalogueEvent::UserMoveRejected { user, .. }) => {
                assert!(self.asked.remove(user))
            }
            Event::Transfer(TransferEvent::UserDetached { user, history, tasks }) => {
                assert_eq!(self.members.remove(user), Some(shard));
                assert!(!self.live.contains_key(user), "{user} left with a live grant");
                let last = history.last.as_ref().map(|last| (last.grant, last.start));
                assert_eq!(last, self.last.get(user).copied(), "the history of {user} is lost");
                let own: BTreeSet<TaskId> = tasks.iter().map(|moved| moved.task).collect();
                assert_eq!(own, self.own_of(user), "tasks of {user} are lost");
                for moved in tasks {
                    assert_eq!(moved.totals, self.totals[&moved.task]);
                }
                self.carried.insert(user.clone(), (history.clone(), tasks.clone(), false));
            }
            Event::Catalogue(CatalogueEvent::UserMoved { user, shard: home, history, tasks, .. }) => {
                assert!(self.asked.remove(user));
                let carried = self.carried.get_mut(user).expect("it was let go");
                assert_eq!(*carried, (history.clone(), tasks.clone(), false));
                carried.2 = true;
                self.user_groups.remove(user);
                match home {
                    Some(home) => self.user_groups.extend([(user.clone(), *home)]),
                    None => self.forgets(user),
                }
            }
            Event::Transfer(TransferEvent::UserAttached { user, history, tasks }) => {
                let carried = self.carried.remove(user).expect("it is on its way");
                assert_eq!(carried, (history.clone(), tasks.clone(), true));
                self.enters(user, shard);
                self.arrived += 1;
                self.arrived_with_history += usize::from(history.last.is_some());
            }
            Event::Task(TaskEvent::Created { task, spec }) => {
                self.totals.insert(*task, Ledger::default());
                if let Executor::User(user) = &spec.executor {
                    self.owners.insert(*task, user.clone());
                }
            }
            Event::Task(TaskEvent::Granted { grant, task, start, user, .. }) => {
                assert_eq!(self.members.get(user), Some(&shard));
                assert!(!self.done.contains(&(user.clone(), *task, *start)), "{user} had it before");
                assert_eq!(self.live.insert(user.clone(), *grant), None);
                let totals = self.totals.get_mut(task).unwrap();
                (totals.taken, totals.live) = (totals.taken + 1, totals.live + 1);
            }
            Event::Task(TaskEvent::Completed { grant, task, start, user, .. }) => {
                assert_eq!(self.live.remove(user), Some(*grant));
                self.last.insert(user.clone(), (*grant, *start));
                self.done.insert((user.clone(), *task, *start));
                let totals = self.totals.get_mut(task).unwrap();
                (totals.completed, totals.live) = (totals.completed + 1, totals.live - 1);
            }
            _ => {}
        }
    }

    /// A user that is removed begins anew.
    fn forgets(&mut self, user: &UserName) {
        self.carried.remove(user);
        self.last.remove(user);
        self.done.retain(|(of, ..)| of != user);
        for task in self.own_of(user) {
            self.owners.remove(&task);
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Assign(u8, u8),
    Move(u8, u8),
    Remove(u8),
    Create(u8, bool),
    Pull(u8, u8),
    Complete(u8),
    /// Decides so many commands, and sends on so many messages, each twice.
    Go(u8, u8, bool),
    /// Another owner; what was about to be sent is lost.
    Crash(bool),
    Pass(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0..4_u8, 0..3_u8).prop_map(|(who, to)| Op::Assign(who, to)),
        4 => (0..4_u8, 0..3_u8).prop_map(|(who, to)| Op::Move(who, to)),
        1 => (0..4_u8).prop_map(Op::Remove),
        5 => (0..7_u8, any::<bool>()).prop_map(|(who, minutes)| Op::Create(who, minutes)),
        9 => (0..4_u8, 0..8_u8).prop_map(|(who, at)| Op::Pull(who, at)),
        9 => (0..4_u8).prop_map(Op::Complete),
        12 => (1..9_u8, 0..9_u8, any::<bool>()).prop_map(|(most, on, twice)| Op::Go(most, on, twice)),
        2 => any::<bool>().prop_map(Op::Crash),
        1 => (1..40_u8).prop_map(Op::Pass),
    ]
}

struct Play {
    world: World,
    model: Model,
}

impl Play {
    fn new() -> Self {
        let mut world = world();
        world.define_group("i", GroupSettings::default());
        world.held = Some(Vec::new());
        let mut play = Self { world, model: Model::default() };
        play.model.read(&play.world);
        play
    }

    fn name(who: u8) -> UserName {
        user(["ann", "bob", "cyd", "dan"][usize::from(who)])
    }

    fn group(which: u8) -> (&'static str, ShardId) {
        [("g", GROUP), ("h", OTHER), ("i", ShardId(3))][usize::from(which)]
    }

    fn task(&self, who: u8, minutes: bool) -> (ShardId, TaskSpec) {
        let start = self.world.wall.to_string();
        let when = if minutes {
            json!({"every_minutes": {"n": 10, "start": start}})
        } else {
            json!({"once": {"start": start}})
        };
        if who < 4 {
            let name = Self::name(who);
            let home = self.model.user_groups.get(&name).copied().unwrap_or(GROUP);
            return (home, spec(json!({"user": name}), json!({"when": when})));
        }
        let (group, shard) = Self::group(who - 4);
        (shard, spec(json!({"group": group}), json!({"when": when, "dispatch_times": 3})))
    }

    fn act(&mut self, op: &Op) {
        let catalogue = ShardId::CATALOGUE;
        match op {
            Op::Assign(who, to) => {
                let users = vec![Self::name(*who)];
                let group = group(Self::group(*to).0);
                self.world
                    .send(catalogue, Command::Catalogue(CatalogueCommand::AssignUsers { group, users }));
            }
            Op::Move(who, to) => {
                let to = group(Self::group(*to).0);
                self.world.send(
                    catalogue,
                    Command::Catalogue(CatalogueCommand::MoveUser { user: Self::name(*who), to }),
                );
            }
            Op::Remove(who) => self
                .world
                .send(catalogue, Command::Catalogue(CatalogueCommand::DeleteUser { user: Self::name(*who) })),
            Op::Create(who, minutes) => {
                let (shard, spec) = self.task(*who, *minutes);
                self.world.send(shard, Command::Task(TaskCommand::Create { spec }));
            }
            Op::Pull(who, at) => {
                let user = Self::name(*who);
                // Most often where the user is.
                let home = self.model.members.get(&user).copied().unwrap_or(GROUP);
                let shard = if *at < 3 { Self::group(*at).1 } else { home };
                self.world.send(shard, Command::Task(TaskCommand::Pull { user }));
            }
            Op::Complete(who) => {
                let user = Self::name(*who);
                let live = self.model.live.get(&user).copied();
                if let (Some(grant), Some(shard)) = (live, self.model.members.get(&user).copied()) {
                    let result = "done".to_owned();
                    self.world.send(shard, Command::Task(TaskCommand::Complete { user, grant, result }));
                }
            }
            Op::Go(most, on, twice) => self.go(*most, usize::from(*on), *twice),
            Op::Crash(lost) => {
                if *lost {
                    self.world.held = Some(Vec::new());
                }
                self.world.partition = self.world.folded();
                self.world.say_again();
            }
            Op::Pass(minutes) => self.world.wall += SignedDuration::from_mins(i64::from(*minutes)),
        }
        self.model.read(&self.world);
    }

    fn go(&mut self, most: u8, on: usize, twice: bool) {
        for _ in 0..most {
            self.world.step(1);
        }
        let held = self.world.held.as_mut().unwrap();
        let sent: Vec<Effect> = held.drain(..on.min(held.len())).collect();
        for effect in sent {
            let Effect::Send { shard, command } = effect else { panic!("{effect:?}") };
            self.world.send(shard, command.clone());
            if twice {
                self.world.send(shard, command);
            }
        }
    }

    /// Everything comes to rest, and everybody is where the catalogue says.
    fn end(&mut self) {
        self.world.held = None;
        self.world.say_again();
        self.world.run();
        self.model.read(&self.world);
        let model = &self.model;
        assert_eq!(model.members, model.user_groups, "everybody is at home");
        assert!(model.carried.is_empty() && model.asked.is_empty(), "{model:?}");
        for (user, shard) in &model.members {
            for other in [GROUP, OTHER, ShardId(3)] {
                let here = standing(&self.world, other, user.as_str());
                assert_eq!(here.is_some(), other == *shard, "{user} in {other}");
                let last = here.and_then(|here| here.last).map(|last| (last.grant, last.start));
                assert_eq!(last, if other == *shard { model.last.get(user).copied() } else { None });
            }
        }
        for (task, owner) in &model.owners {
            let here = model.members.get(owner).and_then(|shard| ledger(&self.world, *shard, *task));
            assert_eq!(here.map(|of| of.totals), Some(model.totals[task]), "task {task} of {owner}");
            let shards = [GROUP, OTHER, ShardId(3)];
            let known = shards.into_iter().filter(|shard| ledger(&self.world, *shard, *task).is_some());
            assert_eq!(known.count(), 1, "task {task} of {owner} is in one shard");
        }
        assert_eq!(self.world.partition, self.world.folded());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// PUL-5, EVT-2: however moves, pulls, crashes, lost and repeated messages come, a user is a member of at most one
    /// shard, what it did and its own tasks are never lost, and in the end everybody is where the catalogue says.
    #[test]
    fn a_user_is_in_one_shard_and_loses_nothing(ops in prop::collection::vec(op(), 20..120)) {
        let mut play = Play::new();
        for op in &ops {
            play.act(op);
        }
        play.end();
    }
}

/// The property is about something: in such plays users do arrive, with history and tasks.
#[test]
fn users_arrive_in_random_plays() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut arrived = 0;
    let mut with_history = 0;
    for _ in 0..40 {
        let ops = prop::collection::vec(op(), 60..120).new_tree(&mut runner).unwrap().current();
        let mut play = Play::new();
        for op in &ops {
            play.act(op);
        }
        play.end();
        arrived += play.model.arrived;
        with_history += play.model.arrived_with_history;
    }
    assert!(arrived > 40 && with_history > 20, "{arrived} arrived, {with_history} had done something");
}
