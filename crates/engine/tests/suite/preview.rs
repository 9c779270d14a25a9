//! BYD-1, BYD-2: a preview is what fires: random schedules, zones, calendars and bounds, in steps of random length,
//! with outages between them.
//!
//! A failing seed is printed; put it into [`SEEDS`] and keep it there.

use std::sync::Arc;

use crate::kit::{World, at, job};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemill_calendar::{Days, Timetable};
use tidemill_model::{
    Answer, BatchEvent, Calendar, CalendarSpec, CatalogueCommand, Command, Envelope, Event, JobDefinition,
    JobEvent, Origin, Outcome, ShardId, Timestamp,
};

const SEEDS: std::ops::Range<u64> = 0..60;
const STEPS: usize = 24;
const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "Africa/Cairo",
];
/// Shortly before clocks change somewhere.
const STARTS: &[&str] = &[
    "2026-03-06T05:17:00.000Z",
    "2026-03-27T22:41:00.000Z",
    "2026-10-01T11:03:00.000Z",
    "2026-10-23T00:00:00.000Z",
];

/// A small generator of numbers (splitmix64), so that a seed means the same for ever.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }
}

fn schedule(random: &mut Random) -> Value {
    let zone = random.pick(ZONES);
    let (minute, hour) = (random.below(60), random.below(24));
    let cron = match random.below(8) {
        0 => return json!({"period": "hour", "zone": zone}),
        1 => return json!({"period": "day", "zone": zone}),
        2 => return json!({"period": "week", "zone": zone}),
        3 => format!("0 {minute} {hour} ? * {}", random.pick(&["MON-FRI", "SAT,SUN", "TUE", "6L", "MON#2"])),
        4 => format!("0 {minute} {hour} {} * ?", random.pick(&["1,15", "L", "LW", "*/3", "28-31"])),
        5 => format!("0 {minute} {}/{} * * ?", hour % 6, 1 + random.below(9)),
        6 => format!("0 {minute}/{} * * * ?", 20 + random.below(30)),
        // Where clocks are put forward and back.
        _ => format!("0 {minute} {} * * ?", random.below(4)),
    };
    json!({"cron": cron, "zone": zone})
}

fn days(random: &mut Random, from: Timestamp) -> Vec<String> {
    let count = random.below(6);
    let day = |random: &mut Random| from + SignedDuration::from_hours(24 * random.below(45) as i64);
    (0..count).map(|_| day(random).to_string()[..10].to_owned()).collect()
}

fn calendar(random: &mut Random, from: Timestamp) -> Value {
    let holidays = days(random, from);
    let mut working_days = days(random, from);
    working_days.retain(|day| !holidays.contains(day));
    let mut spec = json!({"name": "cn", "holidays": holidays, "working_days": working_days});
    if random.below(3) == 0 {
        spec["zone"] = json!(random.pick(ZONES));
    }
    if random.below(4) == 0 {
        spec["week"] = json!(["monday", "wednesday", "saturday"]);
    }
    spec
}

/// A job with a schedule, as bounded as chance will have it.
fn bounded(random: &mut Random, from: Timestamp) -> Value {
    let mut spec = json!({"type": "anchor", "schedule": schedule(random), "missed_runs": "all"});
    if random.below(4) != 0 {
        let shift = random.pick(&["none", "none", "next", "previous"]);
        spec["calendar"] = match random.below(3) {
            0 => json!({"name": "cn", "on": "holidays", "shift": "none"}),
            _ => json!({"name": "cn", "shift": shift}),
        };
    }
    if random.below(5) == 0 {
        spec["valid_from"] =
            json!((from + SignedDuration::from_hours(24 * random.below(9) as i64)).to_string());
    }
    if random.below(5) == 0 {
        let until = from + SignedDuration::from_hours(24 * (10 + random.below(9) as i64));
        spec["valid_until"] = json!(until.to_string());
    }
    spec
}

/// What the preview of a job is made of, by the events that the tables are made of.
fn timetable(definition: &JobDefinition, calendar: &Value, version: u32) -> Timetable {
    let spec = CalendarSpec::from_value(calendar.clone()).unwrap();
    let days = Days::try_from(&Calendar { version, spec }).unwrap();
    Timetable::of(definition, |_| Some(Arc::new(days))).unwrap().unwrap()
}

/// Logical times of the batches that the schedule made since so many envelopes.
fn made(world: &World, since: usize) -> Vec<Timestamp> {
    let bodies = world.journal[since..].iter();
    let events = bodies.flat_map(|body| serde_json::from_slice::<Envelope>(body).unwrap().events);
    let made = events.filter_map(|recorded| match recorded.event {
        Event::Batch(BatchEvent::Generated { logical_time, origin: Origin::Schedule, .. }) => {
            Some(logical_time)
        }
        _ => None,
    });
    made.collect()
}

/// How many batches were made; `None`: what chance wrote is refused.
fn follow(seed: u64) -> Option<usize> {
    let random = &mut Random(seed);
    let start = at(random.pick(STARTS));
    let mut world = World::at(&start.to_string());
    let calendar = calendar(random, start);
    let spec = bounded(random, start);
    let define = Command::Catalogue(CatalogueCommand::DefineCalendar {
        calendar: Box::new(CalendarSpec::from_value(calendar.clone()).unwrap()),
    });
    let defined = world.ask(ShardId::CATALOGUE, define);
    let Outcome::Answered(Answer::Calendar { version }) = defined else { return None };
    if !matches!(world.apply(vec![job("a", spec.clone())]), Outcome::Answered(_)) {
        return None;
    }
    let definition = world.events().into_iter().find_map(|event| match event {
        Event::Job(JobEvent::Defined { definition, .. }) => Some(definition),
        _ => None,
    });
    let timetable = timetable(&definition.unwrap(), &calendar, version);
    let mut all = 0;
    for _ in 0..STEPS {
        let (before, envelopes) = (world.wall, world.journal.len());
        let minutes = match random.below(6) {
            // Nobody owned the partition for days.
            0 => 60 * (24 + random.below(96)),
            _ => 1 + random.below(36 * 60),
        };
        world.pass_minutes(minutes as i64);
        // At most three an hour, and where days are moved, those of all that come together.
        let most = minutes as usize / 20 + if timetable.shifts() { 1_000 } else { 4 };
        let preview = timetable.preview(before, most);
        assert!(preview.windows(2).all(|two| two[0].logical_time < two[1].logical_time), "{timetable}");
        let due = preview.iter().take_while(|fire| fire.at <= world.wall).map(|fire| fire.logical_time);
        let (due, made) = (due.collect::<Vec<_>>(), made(&world, envelopes));
        assert_eq!(made, due, "seed {seed}: {timetable}, from {before} to {}: {spec} {calendar}", world.wall);
        all += made.len();
    }
    assert_eq!(world.folded(), world.partition, "seed {seed}");
    Some(all)
}

/// BYD-1, BYD-2: at any moment, the preview from then on names what fires until the next look at it: in every zone,
/// whatever the calendar leaves out or moves, also what is made up for after an outage.
#[test]
fn previews_of_random_schedules_are_what_fires() {
    let followed: Vec<usize> = SEEDS.filter_map(follow).collect();
    let (batches, silent) =
        (followed.iter().sum::<usize>(), followed.iter().filter(|made| **made == 0).count());
    assert!(followed.len() > 45 && silent < 12 && batches > 3_000, "{} {silent} {batches}", followed.len());
}
