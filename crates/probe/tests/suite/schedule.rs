//! When which path is asked again.

use std::collections::{BTreeMap, HashMap, VecDeque};

use proptest::prelude::*;
use tidemill_probe::{
    Authority, Event, Failure, FailureKind, Outcome, Path, PollTimes, Question, Schedule, Urgency,
};

fn question(path: &str) -> Question {
    Question { path: Path::parse("path", path, None).unwrap(), mark: None }
}

fn wanted(path: &str) -> Event {
    Event::Wanted(question(path), Urgency::Waiting)
}

fn answered(path: &str, outcome: Outcome) -> Event {
    Event::Answered(question(path), outcome)
}

fn schedule() -> Schedule {
    Schedule::new(PollTimes::default()).unwrap()
}

/// One step, and what it asks.
fn asks(schedule: &mut Schedule, now_ms: u64, events: impl IntoIterator<Item = Event>) -> Vec<String> {
    schedule.step(now_ms, events).ask.iter().map(ToString::to_string).collect()
}

fn failed(kind: FailureKind) -> Outcome {
    Outcome::Failed(Failure { kind, reason: "x".to_owned(), tries: 4 })
}

const NONE: [&str; 0] = [];

#[test]
fn new_path_is_asked_at_once_and_again_when_it_is_due() {
    let mut schedule = schedule();
    let step = schedule.step(1_000, [wanted("/a")]);
    assert_eq!(step.ask, [question("/a")]);
    assert_eq!(step.wake_at_ms, None, "it has to come back first");
    let step = schedule.step(1_500, [answered("/a", Outcome::Absent)]);
    assert_eq!((step.ask.len(), step.wake_at_ms), (0, Some(26_000)), "counted from the asking");
    assert_eq!(asks(&mut schedule, 25_999, []), NONE);
    assert_eq!(asks(&mut schedule, 26_000, []), ["/a"]);
}

#[test]
fn path_about_to_matter_is_asked_sooner() {
    let mut schedule = schedule();
    asks(&mut schedule, 0, [wanted("/a/1"), wanted("/b/1")]);
    asks(&mut schedule, 10, ["/a/1", "/b/1"].map(|path| answered(path, Outcome::Absent)));
    let soon = Event::Wanted(question("/a/1"), Urgency::Soon);
    assert_eq!(asks(&mut schedule, 1_000, [soon]), NONE);
    assert_eq!(asks(&mut schedule, 3_000, []), ["/a/1"]);
    assert_eq!(schedule.step(3_010, [answered("/a/1", Outcome::Absent)]).wake_at_ms, Some(6_000));
}

/// When a path is due again, by what it came to: asked at 0, answered at 10,000.
#[test]
fn next_probe_depends_on_the_outcome() {
    let table = [
        (Outcome::Present, 25_000),
        (Outcome::Absent, 25_000),
        (failed(FailureKind::Refused), 25_000),
        (failed(FailureKind::Unavailable), 13_000),
        (failed(FailureKind::Paused { for_ms: 700 }), 10_700),
        (Outcome::Hung { tries: 4 }, 13_000),
    ];
    for (outcome, due) in table {
        let mut schedule = schedule();
        asks(&mut schedule, 0, [wanted("/a")]);
        let step = schedule.step(10_000, [answered("/a", outcome.clone())]);
        assert_eq!(step.wake_at_ms, Some(due), "{outcome:?}");
    }
}

/// DEP-1: one listing answers many, so paths of one directory are asked together.
#[test]
fn neighbours_come_along() {
    let mut schedule = schedule();
    let others: Vec<String> = (0..50).map(|n| format!("/b/{n}")).collect();
    let mut at = 0;
    for path in others.iter().map(String::as_str).chain(["/a/1", "/a/2", "/a/3"]) {
        at += 100;
        assert_eq!(asks(&mut schedule, at, [wanted(path)]), [path]);
        asks(&mut schedule, at, [answered(path, Outcome::Absent)]);
    }
    let first = asks(&mut schedule, 25_100, []);
    assert_eq!(first.len(), 50, "all of /b, none of /a: {first:?}");
    assert!(first.iter().all(|path| path.starts_with("/b/")));
}

#[test]
fn path_is_never_asked_twice_at_once_and_not_when_nobody_waits() {
    let mut schedule = schedule();
    assert_eq!(asks(&mut schedule, 0, [wanted("/a"), wanted("/a")]), ["/a"]);
    assert_eq!(asks(&mut schedule, 60_000, [wanted("/a")]), NONE);
    assert_eq!(asks(&mut schedule, 60_000, [Event::Unwanted(question("/a"))]), NONE);
    assert!(schedule.is_empty());
    let step = schedule.step(60_000, [answered("/a", Outcome::Absent)]);
    assert_eq!((step.ask.len(), step.wake_at_ms), (0, None));
    assert_eq!(asks(&mut schedule, 60_001, [wanted("/a")]), ["/a"], "a new one");
    asks(&mut schedule, 60_001, [answered("/a", Outcome::Absent)]);
    asks(&mut schedule, 60_002, [Event::Unwanted(question("/a")), Event::Unwanted(question("/a"))]);
    assert_eq!(schedule.step(999_999, []), tidemill_probe::Step::default());
}

/// DEP-6, DEP-9: what was asked before the question does not answer it.
#[test]
fn asked_again_while_under_way_is_asked_once_more() {
    let mut schedule = schedule();
    asks(&mut schedule, 0, [wanted("/a")]);
    assert_eq!(asks(&mut schedule, 1, [Event::Again(question("/a"))]), NONE);
    assert_eq!(asks(&mut schedule, 2, [answered("/a", Outcome::Present)]), ["/a"]);
    asks(&mut schedule, 3, [answered("/a", Outcome::Absent)]);
    assert_eq!(asks(&mut schedule, 4, [Event::AgainAll]), ["/a"]);
    asks(&mut schedule, 5, [Event::Unwanted(question("/a"))]);
    assert_eq!(asks(&mut schedule, 6, [wanted("/a")]), NONE);
    assert_eq!(asks(&mut schedule, 7, [answered("/a", Outcome::Present)]), ["/a"], "waited for anew");
}

/// DEP-5: lateness counts from the last check that the authority answered.
#[test]
fn lateness_is_told_by_authority() {
    let mut schedule = schedule();
    let paths = ["hdfs://a/1", "hdfs://a/2", "hdfs://b/1"];
    asks(&mut schedule, 0, paths.map(wanted));
    asks(&mut schedule, 1_000, paths.map(|path| answered(path, Outcome::Absent)));
    assert_eq!(asks(&mut schedule, 25_000, []).len(), 3);
    asks(&mut schedule, 26_000, [answered("hdfs://b/1", Outcome::Absent)]);
    asks(&mut schedule, 26_000, [answered("hdfs://a/1", failed(FailureKind::Unavailable))]);
    assert_eq!(schedule.late(30_000), []);
    let late = schedule.late(50_000);
    assert_eq!(late.len(), 1);
    assert_eq!(late[0].authority, Authority::Hdfs("a".into()));
    assert_eq!((late[0].late_ms, late[0].paths), (20_000, 2));
    asks(&mut schedule, 50_000, []);
    asks(&mut schedule, 50_100, ["hdfs://a/1", "hdfs://a/2"].map(|path| answered(path, Outcome::Absent)));
    assert_eq!(schedule.late(60_000).iter().map(|late| late.paths).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn reconciling_brings_the_difference_only() {
    let mut schedule = schedule();
    asks(&mut schedule, 0, ["/a", "/b", "/c"].map(wanted));
    asks(&mut schedule, 1, [answered("/a", Outcome::Absent)]);
    let now = HashMap::from([
        (question("/b"), Urgency::Waiting),
        (question("/c"), Urgency::Soon),
        (question("/d"), Urgency::Waiting),
    ]);
    let mut events = schedule.reconcile(&now);
    events.sort_by_key(|event| format!("{event:?}"));
    let mut expected =
        vec![Event::Unwanted(question("/a")), Event::Wanted(question("/c"), Urgency::Soon), wanted("/d")];
    expected.sort_by_key(|event| format!("{event:?}"));
    assert_eq!(events, expected);
    assert_eq!(asks(&mut schedule, 2, events), ["/d"]);
    assert_eq!(schedule.reconcile(&now), []);
    assert_eq!(schedule.len(), 3);
}

#[test]
fn poll_times_out_of_range_is_refused_by_field() {
    let bad = PollTimes { interval_ms: 30_001, ..PollTimes::default() };
    assert_eq!(Schedule::new(bad).unwrap_err().field, "interval_ms");
}

/// An authority that answers so many questions in a second, in the order in which they were asked.
struct Server {
    per_second: f64,
    latency_ms: u64,
    outcome: Outcome,
    queue: VecDeque<(u64, Question)>,
    free_at_ms: f64,
}

impl Server {
    fn new(per_second: f64, latency_ms: u64) -> Self {
        Self { per_second, latency_ms, outcome: Outcome::Absent, queue: VecDeque::new(), free_at_ms: 0.0 }
    }

    /// Says when it turns to the question.
    fn take(&mut self, now_ms: u64, question: Question) -> u64 {
        self.free_at_ms = self.free_at_ms.max(now_ms as f64) + 1_000.0 / self.per_second;
        self.queue.push_back((self.free_at_ms as u64 + self.latency_ms, question));
        self.free_at_ms as u64
    }

    fn done(&mut self, now_ms: u64) -> Vec<Event> {
        let mut done = Vec::new();
        while self.queue.front().is_some_and(|(at, _)| *at <= now_ms) {
            let (_, question) = self.queue.pop_front().unwrap();
            done.push(Event::Answered(question, self.outcome.clone()));
        }
        done
    }
}

/// When its authority turned to each question.
type Asked = BTreeMap<Question, Vec<u64>>;

/// Runs a schedule against servers, by authority, for so long; `events` come at their times.
fn simulate(
    servers: &mut BTreeMap<Authority, Server>,
    mut events: Vec<(u64, Event)>,
    until_ms: u64,
) -> (Schedule, Asked) {
    let mut schedule = schedule();
    let mut asked = Asked::new();
    events.sort_by_key(|(at, _)| *at);
    let mut events = events.into_iter().peekable();
    for now_ms in (0..until_ms).step_by(50) {
        let mut happened = Vec::new();
        while let Some((_, event)) = events.next_if(|(at, _)| *at <= now_ms) {
            happened.push(event);
        }
        happened.extend(servers.values_mut().flat_map(|server| server.done(now_ms)));
        for question in schedule.step(now_ms, happened).ask {
            let at = servers.get_mut(&question.authority()).unwrap().take(now_ms, question.clone());
            asked.entry(question).or_default().push(at);
        }
    }
    (schedule, asked)
}

fn longest_gap(asked: &Asked) -> u64 {
    asked.values().flat_map(|times| times.windows(2).map(|pair| pair[1] - pair[0])).max().unwrap_or(0)
}

/// DEP-1, DEP-5: where no capacity is enough, all paths come round alike, and that is said.
#[test]
fn overloaded_authority_goes_round_all_paths_alike() {
    let mut servers = BTreeMap::from([(Authority::Hdfs("a".into()), Server::new(20.0, 10))]);
    let events: Vec<_> =
        (0..2_000_u64).map(|n| (n % 7 * 900, wanted(&format!("hdfs://a/{}/{n}", n % 300)))).collect();
    let (schedule, asked) = simulate(&mut servers, events, 1_000_000);
    let counts: Vec<_> = asked.values().map(Vec::len).collect();
    assert_eq!(counts.len(), 2_000);
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(*least >= 8 && most - least <= 2, "{least} to {most} times each");
    let late = schedule.late(1_000_000);
    assert!(late[0].late_ms > 60_000, "a round takes 100 s: {late:?}");
}

/// DEP-1: paths about to matter get what is left over. 600 of them would take 200 calls a second of an authority
/// that has 120, and 2,000 others wait.
#[test]
fn paths_about_to_matter_take_nothing_from_the_bound_of_others() {
    let mut servers = BTreeMap::from([(Authority::Hdfs("a".into()), Server::new(120.0, 10))]);
    let urgency = |n: u32| if n < 600 { Urgency::Soon } else { Urgency::Waiting };
    let events = (0..2_600).map(|n| (0, Event::Wanted(question(&format!("hdfs://a/{n}/x")), urgency(n))));
    let (schedule, asked) = simulate(&mut servers, events.collect(), 300_000);
    let (soon, waiting): (Asked, Asked) = asked.into_iter().partition(|(question, _)| {
        let number: u32 = question.path.inside()[1..].strip_suffix("/x").unwrap().parse().unwrap();
        urgency(number) == Urgency::Soon
    });
    assert_eq!((soon.len(), waiting.len()), (600, 2_000));
    assert!(longest_gap(&waiting) <= 30_000, "{}", longest_gap(&waiting));
    assert!(longest_gap(&soon) <= 30_000, "{}", longest_gap(&soon));
    let often = |asked: &Asked| asked.values().map(Vec::len).sum::<usize>() / asked.len();
    assert!(often(&soon) > often(&waiting) + 2, "{} and {} times", often(&soon), often(&waiting));
    assert_eq!(schedule.late(300_000), []);
}

/// An authority that hangs does not keep another one from its bound.
#[test]
fn hanging_authority_holds_up_only_itself() {
    let hung = Server { outcome: Outcome::Hung { tries: 4 }, ..Server::new(1e6, 21_000) };
    let (a, b) = (Authority::Hdfs("a".into()), Authority::Hdfs("b".into()));
    let mut servers = BTreeMap::from([(a.clone(), hung), (b.clone(), Server::new(1_000.0, 5))]);
    let events =
        (0..10_000).map(|n| (0, wanted(&format!("hdfs://{}/{n}", if n % 2 == 0 { "a" } else { "b" }))));
    let (schedule, mut asked) = simulate(&mut servers, events.collect(), 200_000);
    let late = schedule.late(200_000);
    assert_eq!(late.iter().map(|late| &late.authority).collect::<Vec<_>>(), [&a]);
    assert_eq!((late[0].late_ms, late[0].paths), (170_000, 5_000));
    asked.retain(|question, _| question.authority() == b);
    assert_eq!(asked.len(), 5_000);
    assert!(longest_gap(&asked) <= 30_000, "{}", longest_gap(&asked));
}

/// DEP-1: 100,000 distinct paths, and an authority that answers 5,000 a second.
#[test]
fn hundred_thousand_paths_keep_the_bound() {
    let mut servers = BTreeMap::from([(Authority::Hdfs("a".into()), Server::new(5_000.0, 20))]);
    let events: Vec<_> = (0..100_000).map(|n| (0, wanted(&format!("hdfs://a/{}/{n}", n / 10)))).collect();
    let (schedule, asked) = simulate(&mut servers, events, 120_000);
    assert_eq!(asked.len(), 100_000);
    assert!(longest_gap(&asked) <= 30_000, "{}", longest_gap(&asked));
    assert_eq!(schedule.late(120_000), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// DEP-1: whoever comes and goes and whatever is urgent, with a quarter of capacity to spare and answers
    /// within 2 s no path waits longer than 30 s, and one about to matter that has room is asked sooner.
    #[test]
    fn bound_is_kept_where_capacity_allows(
        paths in prop::collection::vec((0_u32..40, 0_u64..60_000, 0_u32..10, prop::option::weighted(0.2, 0_u64..200_000)), 1..400),
        spare in 1.3_f64..4.0,
        latency_ms in 0_u64..2_000,
    ) {
        let mut events = Vec::new();
        let mut waiting = 0;
        let mut gone = HashMap::new();
        for (number, (directory, at, kind, end)) in paths.iter().enumerate() {
            let question = question(&format!("hdfs://a/{directory}/{number}"));
            let urgency = if *kind == 0 { Urgency::Soon } else { Urgency::Waiting };
            events.push((*at, Event::Wanted(question.clone(), urgency)));
            if let Some(end) = end {
                events.push((at + end, Event::Unwanted(question.clone())));
                gone.insert(question, at + end);
            }
            waiting += 1;
        }
        let per_second = (f64::from(waiting) / 25.0 * spare).max(20.0);
        let mut servers = BTreeMap::from([(Authority::Hdfs("a".into()), Server::new(per_second, latency_ms))]);
        let (_, asked) = simulate(&mut servers, events, 240_000);
        let lasting = paths.iter().filter(|(.., end)| end.is_none_or(|end| end > 30_000)).count();
        prop_assert!((lasting..=paths.len()).contains(&asked.len()), "{} of {lasting} asked", asked.len());
        prop_assert!(longest_gap(&asked) <= 30_000, "{}", longest_gap(&asked));
        for (question, times) in &asked {
            let end = gone.get(question).copied().unwrap_or(240_000);
            prop_assert!(times.iter().all(|at| *at < end + 4_000), "asked after it was given up");
            prop_assert!(times.last().unwrap() + 30_000 > end.min(240_000), "forgotten");
        }
    }
}
