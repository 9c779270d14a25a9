//! PUL-1, PUL-5: templates and users of passive dispatch, and users that move from group to group.

use crate::kit::{GROUP, World, group, rejection};
use expect_test::expect;
use serde_json::{Value, json};
use tidemill_model::{
    Answer, CatalogueCommand, Command, Envelope, Event, GroupSettings, Outcome, ReplicationEvent, RequestId,
    ShardId, TemplateSpec, UserName,
};

fn user(name: &str) -> UserName {
    name.try_into().unwrap()
}

/// Groups g and h.
fn world() -> World {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    world.events();
    world
}

fn template(name: &str, fields: Value) -> TemplateSpec {
    TemplateSpec::from_value(json!({"name": name, "fields": fields})).unwrap()
}

fn define(world: &mut World, template: TemplateSpec) -> Outcome {
    world.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::DefineTemplate { template }))
}

fn assign(world: &mut World, to: &str, users: &[&str]) -> Outcome {
    let users = users.iter().map(|name| user(name)).collect();
    world.ask(
        ShardId::CATALOGUE,
        Command::Catalogue(CatalogueCommand::AssignUsers { group: group(to), users }),
    )
}

fn move_to(who: &str, to: &str) -> Command {
    Command::Catalogue(CatalogueCommand::MoveUser { user: user(who), to: group(to) })
}

/// What the shards' events say, with the shard, in short.
fn told(world: &World, since: usize) -> Vec<String> {
    let envelopes =
        world.journal[since..].iter().map(|body| serde_json::from_slice::<Envelope>(body).unwrap());
    let recorded = envelopes.flat_map(|envelope| envelope.events);
    let line = |recorded: tidemill_model::Recorded| {
        let line = crate::kit::brief(&recorded.event, &Default::default())?;
        Some(format!("{}: {line}", recorded.shard))
    };
    recorded.filter_map(line).collect()
}

/// PUL-1: a template goes to all groups' shards, in order of its versions, and to those that are born later.
#[test]
fn templates_are_told_to_every_shard() {
    let mut world = world();
    let since = world.journal.len();
    let one = || template("copy", json!({"path": {"type": "string"}}));
    let two = || template("copy", json!({"path": {"type": "string"}, "way": {"required": false}}));
    assert_eq!(define(&mut world, one()), Outcome::Answered(Answer::Template { version: 1 }));
    assert_eq!(define(&mut world, one()), Outcome::Answered(Answer::Template { version: 1 }), "the same");
    assert_eq!(define(&mut world, two()), Outcome::Answered(Answer::Template { version: 2 }));
    define(&mut world, template("gone", json!({})));
    world.ask(
        ShardId::CATALOGUE,
        Command::Catalogue(CatalogueCommand::DeleteTemplate { name: "gone".try_into().unwrap() }),
    );
    world.define_group("late", GroupSettings::default());
    expect![[r#"
        [
            "0: template defined copy version 1",
            "1: template received copy version 1",
            "2: template received copy version 1",
            "0: template defined copy version 2",
            "1: template received copy version 2",
            "2: template received copy version 2",
            "0: template defined gone version 3",
            "1: template received gone version 3",
            "2: template received gone version 3",
            "0: template removed gone",
            "1: template forgotten gone",
            "2: template forgotten gone",
            "0: group defined late",
            "3: group received late",
            "3: template received copy version 2",
        ]
    "#]]
    .assert_debug_eq(&told(&world, since));
    let again = define(&mut world, template("gone", json!({})));
    assert_eq!(again, Outcome::Answered(Answer::Template { version: 4 }), "no version comes twice");
    assert_eq!(world.partition, world.folded());
}

/// PUL-1, PUL-5: what cannot be, names the field, the value and the rule, and changes nothing.
#[test]
fn refusals_of_templates_and_users_name_field_value_and_rule() {
    let mut world = world();
    assign(&mut world, "g", &["ann", "bob"]);
    let many: serde_json::Map<String, Value> = (0..65).map(|n| (format!("f{n}"), json!({}))).collect();
    let long = TemplateSpec { comment: "c".repeat(4_097), ..template("t", json!({})) };
    let crowd = |count: usize| {
        Command::Catalogue(CatalogueCommand::AssignUsers {
            group: group("g"),
            users: (0..count).map(|n| user(&format!("u{n}"))).collect(),
        })
    };
    let assign_to = |to: &str, who: &[&str]| {
        Command::Catalogue(CatalogueCommand::AssignUsers {
            group: group(to),
            users: who.iter().map(|name| user(name)).collect(),
        })
    };
    let before = world.journal.len();
    let revision = world.partition.catalogue().cloned();
    let table = [
        Command::Catalogue(CatalogueCommand::DefineTemplate { template: template("t", Value::Object(many)) }),
        Command::Catalogue(CatalogueCommand::DefineTemplate { template: template("t", json!({"": {}})) }),
        Command::Catalogue(CatalogueCommand::DefineTemplate {
            template: template("t", json!({"x".repeat(129): {}})),
        }),
        Command::Catalogue(CatalogueCommand::DefineTemplate { template: template("t", json!({"a\nb": {}})) }),
        Command::Catalogue(CatalogueCommand::DefineTemplate { template: long }),
        Command::Catalogue(CatalogueCommand::DeleteTemplate { name: "t".try_into().unwrap() }),
        crowd(0),
        crowd(501),
        assign_to("nowhere", &["eve"]),
        assign_to("h", &["eve", "ann"]),
        move_to("eve", "h"),
        move_to("ann", "nowhere"),
        Command::Catalogue(CatalogueCommand::DeleteUser { user: user("eve") }),
    ];
    let answers: Vec<String> = table
        .into_iter()
        .map(|command| rejection(&world.ask(ShardId::CATALOGUE, command)).replace(&"x".repeat(129), "x…"))
        .map(|answer| answer.replace(&"c".repeat(200), "c…"))
        .collect();
    expect![[r#"
        invalid: fields: "65": at most 64 fields
        invalid: fields: "": names of fields are 1 to 128 characters that can be seen
        invalid: fields: "x…": names of fields are 1 to 128 characters that can be seen
        invalid: fields: "a\nb": names of fields are 1 to 128 characters that can be seen
        invalid: comment: "c…": must be at most 4096 bytes
        unknown: there is no template t
        invalid: users: "0": must be 1 to 500 users
        invalid: users: "501": must be 1 to 500 users
        unknown: there is no group nowhere
        user_elsewhere: user ann is a member of group g; move the user instead
        unknown: there is no user eve
        unknown: there is no group nowhere
        unknown: there is no user eve"#]]
    .assert_eq(&answers.join("\n"));
    assert_eq!(told(&world, before), Vec::<String>::new());
    assert_eq!(world.partition.catalogue().cloned(), revision);
    let wrong = world.ask(GROUP, crowd(1));
    assert_eq!(rejection(&wrong).split(':').next(), Some("wrong_shard"));
}

/// PUL-5: who has the home already keeps it, twice in one list is once, and a list is taken as a whole or not at all.
#[test]
fn an_assignment_is_idempotent_and_whole() {
    let mut world = world();
    let since = world.journal.len();
    assert_eq!(assign(&mut world, "g", &["ann", "bob", "ann"]), Outcome::Answered(Answer::Done));
    assert_eq!(assign(&mut world, "g", &["bob", "cyd"]), Outcome::Answered(Answer::Done));
    assert_eq!(assign(&mut world, "g", &["bob", "ann"]), Outcome::Answered(Answer::Done));
    assert!(matches!(assign(&mut world, "h", &["dan", "cyd"]), Outcome::Refused(_)));
    assert_eq!(assign(&mut world, "h", &["dan"]), Outcome::Answered(Answer::Done), "dan was not assigned");
    expect![[r#"
        [
            "0: 2 users assigned to g",
            "1: 2 users received",
            "0: 1 users assigned to g",
            "1: 1 users received",
            "0: 1 users assigned to h",
            "2: 1 users received",
        ]
    "#]]
    .assert_debug_eq(&told(&world, since));
    assert_eq!(world.partition, world.folded());
}

/// PUL-5: what waits for a shard that does not answer is bounded; when it has taken it in, there is room again.
#[test]
fn assignments_to_a_silent_shard_are_bounded() {
    let mut world = world();
    world.held = Some(Vec::new());
    let refused = (0..300).find_map(|number| {
        let outcome = assign(&mut world, "h", &[&format!("u{number}")]);
        matches!(outcome, Outcome::Refused(_)).then_some((number, outcome))
    });
    let (number, outcome) = refused.expect("it is bounded");
    assert_eq!(number, 256);
    expect![[r#"limit_reached: the number of messages that group h has not taken in; later there is room is at its limit of 256"#]]
        .assert_eq(&rejection(&outcome));
    let held = world.held.take().unwrap();
    for effect in held {
        let tidemill_engine::Effect::Send { shard, command } = effect else { panic!("{effect:?}") };
        world.send(shard, command);
    }
    world.run();
    assert_eq!(assign(&mut world, "h", &["late"]), Outcome::Answered(Answer::Done));
}

/// PUL-5: a group of 10,000 users, 500 at a time; each gets there once.
#[test]
fn ten_thousand_users_are_assigned_in_bulk() {
    let mut world = world();
    for part in 0..20 {
        let names: Vec<String> = (0..500).map(|n| format!("user-{}@example.org", part * 500 + n)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(assign(&mut world, "g", &names), Outcome::Answered(Answer::Done));
    }
    let received: usize = world
        .events()
        .iter()
        .map(|event| {
            if let Event::Replication(ReplicationEvent::UsersReplicated { users }) = event {
                users.len()
            } else {
                0
            }
        })
        .sum();
    assert_eq!(received, 10_000);
    assert!(world.largest < 64 * 1024, "{}", world.largest);
    assert_eq!(world.partition, world.folded());
}

/// API-4: a move that is repeated gets the first answer, also while it waits, and is asked once.
#[test]
fn a_move_to_the_same_group_is_done_already() {
    let mut world = world();
    assign(&mut world, "g", &["ann"]);
    world.events();
    let outcome = world.ask_as(ShardId::CATALOGUE, move_to("ann", "g"), RequestId::new("r"));
    assert_eq!(outcome, Outcome::Answered(Answer::Done));
    assert_eq!(world.told(), "");
}
