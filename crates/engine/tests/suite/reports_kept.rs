//! DEP-2: how long reports of third parties are kept.

use crate::kit::{GROUP, World, at, job};
use jiff::SignedDuration;
use serde_json::json;
use tidemill_model::{
    CatalogueCommand, Command, Event, ObservationEvent, ShardId, ThirdPartyReport, Timestamp,
};

const TEN: &str = "2026-07-01T10:00:00.000Z";

fn report(code: &str, logical_time: Timestamp) -> Command {
    Command::Catalogue(CatalogueCommand::ReportThirdParty(ThirdPartyReport {
        code: code.into(),
        logical_time,
        ready: true,
    }))
}

/// What the catalogue has forgotten since the last look: how many, and up to when they were reported.
fn forgotten(world: &mut World) -> Vec<(u32, Timestamp)> {
    let events = world.events().into_iter();
    let forgotten = events.filter_map(|event| match event {
        Event::Observation(ObservationEvent::ThirdPartyEvicted { upto, count }) => Some((count, upto)),
        _ => None,
    });
    forgotten.collect()
}

/// Which of these codes a group that names them for the first time finds ready for ten o'clock.
fn ready(world: &mut World, name: &str, codes: &[&str]) -> Vec<String> {
    let ids = world.define(vec![job(name, json!({"third_party": codes, "host": "nowhere"}))]);
    let batch = world.batch(ids[0], Some(TEN));
    let why = world.why_of(GROUP, batch);
    let open = |code: &&str| !why.iter().any(|condition| condition.message.contains(&format!("{code} ")));
    codes.iter().copied().filter(open).map(str::to_owned).collect()
}

/// DEP-2: a report is kept for 400 days; the next report after that forgets it, on record, and a batch made later waits
/// for a new one. What was reported again meanwhile is as old as that.
#[test]
fn reports_are_forgotten_after_400_days() {
    let mut world = World::new();
    let reported_at = world.wall;
    for code in ["old", "again"] {
        world.ask(ShardId::CATALOGUE, report(code, at(TEN)));
    }
    world.pass(SignedDuration::from_hours(24 * 200));
    // Taken back and reported again.
    let withdrawn = ThirdPartyReport { code: "again".into(), logical_time: at(TEN), ready: false };
    world.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::ReportThirdParty(withdrawn)));
    world.ask(ShardId::CATALOGUE, report("again", at(TEN)));
    world.pass(SignedDuration::from_hours(24 * 200));
    world.ask(ShardId::CATALOGUE, report("same-day", at(TEN)));
    assert_eq!(forgotten(&mut world), [], "on the last day");
    world.pass_minutes(1);
    world.ask(ShardId::CATALOGUE, report("new", at(TEN)));
    assert_eq!(forgotten(&mut world), [(1, reported_at)]);
    assert_eq!(ready(&mut world, "a", &["old", "again", "same-day", "new"]), ["again", "same-day", "new"]);
    assert_eq!(world.folded(), world.partition);
}

/// DEP-2: at most 100,000 reports are kept; one more forgets the 500 oldest, once, and those reported last stay.
#[test]
fn the_oldest_reports_are_forgotten_when_there_are_too_many() {
    let mut world = World::new();
    let ten = at(TEN);
    let mut at_500 = ten;
    for number in 0..100_000_u32 {
        if number == 0 {
            world.send(ShardId::CATALOGUE, report("first", ten));
        } else {
            world.send(ShardId::CATALOGUE, report("many", ten + SignedDuration::from_secs(number.into())));
        }
        // Each hundred of them a second later.
        if number % 100 == 99 {
            if number == 499 {
                at_500 = world.wall;
            }
            world.run();
            world.pass_ms(1_000);
        }
    }
    assert_eq!(forgotten(&mut world), []);
    world.ask(ShardId::CATALOGUE, report("last", ten));
    assert_eq!(forgotten(&mut world), [(500, at_500)]);
    world.ask(ShardId::CATALOGUE, report("very-last", ten));
    assert_eq!(forgotten(&mut world), []);
    assert_eq!(ready(&mut world, "a", &["first", "last", "very-last"]), ["last", "very-last"]);
}
