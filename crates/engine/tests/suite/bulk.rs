//! BYD-3: one action for many batches or jobs, as one operation.

use crate::kit::{World, rejection};
use expect_test::expect;
use tidemill_model::{Answer, BulkAction, BulkCommand, BulkId, BulkOutcome, Command, Outcome, ShardId};

fn request(world: &mut World, items: Vec<i64>, reason: &str) -> Outcome {
    let command =
        Command::Bulk(BulkCommand::Request { action: BulkAction::Kill, items, reason: reason.to_owned() });
    world.ask(ShardId::CATALOGUE, command)
}

fn begun(world: &mut World, items: Vec<i64>) -> BulkId {
    match request(world, items, "no data") {
        Outcome::Answered(Answer::Bulk { bulk }) => bulk,
        other => panic!("{}", rejection(&other)),
    }
}

fn report(world: &mut World, bulk: BulkId, outcomes: &[(i64, Option<&str>)]) -> Outcome {
    let outcome = |(item, refused): &(i64, Option<&str>)| BulkOutcome {
        item: *item,
        refused: refused.map(str::to_owned),
        rerun: None,
    };
    let outcomes = outcomes.iter().map(outcome).collect();
    world.ask(ShardId::CATALOGUE, Command::Bulk(BulkCommand::Report { bulk, outcomes }))
}

/// BYD-3: each item has one outcome, whoever reports it again or another one, and the last ends the operation.
#[test]
fn each_item_of_an_operation_has_one_outcome_and_the_last_ends_it() {
    let mut world = World::new();
    let bulk = begun(&mut world, vec![1, 2, 3]);
    report(&mut world, bulk, &[(2, None)]);
    report(&mut world, bulk, &[(2, Some("late")), (1, Some("gone")), (9, None)]);
    report(&mut world, bulk, &[(1, None), (2, None)]);
    report(&mut world, bulk, &[(3, None)]);
    assert_eq!(report(&mut world, bulk, &[(3, None)]), Outcome::Answered(Answer::Done));
    expect![[r#"
        bulk kill of 3
        bulk advanced by 1
        bulk advanced by 1
        bulk advanced by 1, ended
    "#]]
    .assert_eq(&world.told());
    assert!(world.folded() == world.partition);
}

/// BYD-3: an operation without a reason, without items, with one twice or with too many is refused, and so is one too
/// many at once.
#[test]
fn operations_are_bounded_and_have_a_reason() {
    let mut world = World::new();
    for (items, reason, expected) in [
        (vec![1], " ", expect![[r#"invalid: reason: "": must be 1 to 500 bytes: say why"#]]),
        (vec![], "so", expect![[r#"invalid: filter: "": fits nothing, so there is nothing to do"#]]),
        (vec![1, 2, 1], "so", expect![[r#"invalid: items: "1": stands twice among the items"#]]),
        (
            (0..5_001).collect(),
            "so",
            expect![[r#"invalid: filter: "": fits 5001, and one operation has at most 5000; narrow it"#]],
        ),
    ] {
        expected.assert_eq(&rejection(&request(&mut world, items, reason)));
    }
    let clear = |count: i64| {
        Command::Bulk(BulkCommand::Request {
            action: BulkAction::Clear,
            items: (1..=count).collect(),
            reason: "so".to_owned(),
        })
    };
    let refused = rejection(&world.ask(ShardId::CATALOGUE, clear(51)));
    assert!(refused.contains("fits 51 batches") && refused.contains("at most 50"), "{refused}");
    for _ in 0..64 {
        begun(&mut world, vec![1]);
    }
    let refused = rejection(&request(&mut world, vec![1], "so"));
    assert!(refused.contains("64"), "{refused}");
    begun_with_the_longest_ids_fits(world);
}

/// The largest operation fits into one record.
fn begun_with_the_longest_ids_fits(mut world: World) {
    let open: Vec<BulkId> = (1..=64).map(|n| BulkId::mint(n, ShardId::CATALOGUE)).collect();
    report(&mut world, open[0], &[(1, None)]);
    begun(&mut world, (0..5_000).map(|n| i64::MAX - n).collect());
    assert!(world.folded() == world.partition);
}
