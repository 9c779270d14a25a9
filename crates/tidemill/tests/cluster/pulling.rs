//! Clients that pull tasks, with Redis beside Kafka: what becomes of Redis, of an interface or of an owner changes no
//! outcome (PUL-4, PUL-6, PUL-8, PUL-9).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tidemill_client::Error;
use tidemill_log::{Log, Topic};

use crate::clients::{Clients, Told};
use crate::kit::{Cluster, PATIENCE, Redis, until};
use crate::server::until_within;

/// A task acknowledged so long ago is offered by every poll.
const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    cluster: Cluster,
    redis: Redis,
}

impl Fixture {
    fn start() -> Self {
        let redis = Redis::start();
        let cluster = Cluster::start_with(&[("REDIS__URL", &redis.url())]);
        Self { cluster, redis }
    }

    fn clients(&self, group: &str) -> Clients {
        let (server, key) = self.cluster.api();
        Clients::new(&server, &key, group)
    }

    /// Where commands and journals end.
    fn ends(log: &dyn Log) -> Vec<u64> {
        let topics = [Topic::Commands, Topic::Journal].into_iter();
        topics
            .flat_map(|topic| (0..log.partitions(topic)).map(move |partition| (topic, partition)))
            .map(|(topic, partition)| log.range(topic, partition).unwrap().end)
            .collect()
    }

    fn is_in_order(&self) {
        let checked = self.cluster.json(&["verify", "--journal"]);
        assert_eq!(checked["finding_count"], 0, "{checked:#}");
    }
}

/// Until empty answers do not touch the log any more: everybody has a hint.
pub(crate) fn all_hinted(clients: &Clients, users: &[String], log: &dyn Log) {
    until("everybody has a hint", || {
        users.iter().for_each(|user| drop(clients.gets_nothing(user)));
        let before = Fixture::ends(log);
        users.iter().for_each(|user| drop(clients.gets_nothing(user)));
        (Fixture::ends(log) == before).then_some(())
    });
}

/// PUL-6, PUL-8, PUL-9: hints stand for everybody; Redis is emptied, killed, set back to an older copy, or hangs, and a
/// task comes: a second after it was acknowledged it is offered to everybody. A thousand empty answers do not touch
/// the log.
#[test]
fn redis_may_be_lost_at_any_moment() {
    let mut fixture = Fixture::start();
    let clients = fixture.clients("demo");
    let users: Vec<_> = (0..20).map(|n| format!("user-{n}")).collect();
    clients.assign(&users);
    let log = fixture.cluster.log();
    for mischief in ["none", "emptied", "killed", "older copy", "hangs"] {
        all_hinted(&clients, &users, &*log);
        if mischief == "older copy" {
            fixture.redis.ask("SAVE");
        }
        let task = clients.task(&json!({"dispatch_times": users.len()}));
        let acknowledged_at = Instant::now();
        match mischief {
            "emptied" => drop(fixture.redis.ask("FLUSHALL")),
            "killed" | "older copy" => fixture.redis.kill_and_start(),
            "hangs" => fixture.redis.signal(Signal::STOP),
            _ => {}
        }
        thread::sleep(SECOND.saturating_sub(acknowledged_at.elapsed()));
        for user in &users {
            let told = clients.pull(user, 0);
            assert_eq!(told.body["grant"]["task"], task, "{mischief}: {user}: {told:?}");
            let grant = told.body["grant"]["grant"].as_i64().unwrap();
            assert_eq!(clients.complete(user, grant, "ok").status, 200);
        }
        if mischief == "hangs" {
            fixture.redis.signal(Signal::CONT);
        }
        clients.comes_to(&task, &[("completed", users.len()), ("live", 0)]);
    }
    // Owners still write down how far they have read of what was asked before, and a thousand answers take their time.
    until_within(Duration::from_secs(300), "a thousand empty answers do not touch the log", || {
        let before = Fixture::ends(&*log);
        (0..1_000).for_each(|n| drop(clients.gets_nothing(&users[n % users.len()])));
        (Fixture::ends(&*log) == before).then_some(())
    });
    fixture.is_in_order();
}

/// EVT-2, EVT-7: `verify` compares the hints in Redis, too: true ones are counted, one that was broken by hand is named, and so
/// is one that outlived its mark; `rebuild hints` mends them.
#[test]
fn verify_names_a_hint_that_was_broken_by_hand() {
    let fixture = Fixture::start();
    let clients = fixture.clients("demo");
    clients.assign(&["ann".to_owned(), "bob".to_owned()]);
    let start = jiff::Timestamp::now() + Duration::from_secs(3 * 3_600);
    clients.task(&json!({"when": {"once": {"start": start}}, "dispatch_times": 2}));
    let log = fixture.cluster.log();
    all_hinted(&clients, &["ann".to_owned(), "bob".to_owned()], &*log);
    // A life has to hold at the moment of the comparison, which it does not while a keeper lags.
    let verified = |is_so: &dyn Fn(&Value) -> bool| {
        until("the hints are compared", || {
            ["ann", "bob"].iter().for_each(|user| drop(clients.gets_nothing(user)));
            let output = fixture.cluster.run(&["verify", "-o", "json"]);
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            is_so(&report).then_some((output.status.code(), report))
        })
    };
    let (code, clean) = verified(&|report| report["hints"] == 2);
    assert_eq!((code, &clean["difference_count"]), (Some(0), &json!(0)), "{clean:#}");

    let found = fixture.redis.ask("KEYS *:h:*:ann");
    let key = found.lines().last().unwrap().to_owned();
    let hint = fixture.redis.ask(&format!("GET {key}"));
    let words: Vec<&str> = hint.lines().last().unwrap().split(' ').collect();
    let later = start.as_millisecond() + 60_000;
    let broken = format!("SET {key} \"{} {} {later} {}\" PX 3600000", words[0], words[1], words[3]);
    assert_eq!(fixture.redis.ask(&broken), "+OK");
    let (code, wrong) = verified(&|report| report["hints"] == 2);
    assert_eq!((code, &wrong["difference_count"]), (Some(1), &json!(1)), "{wrong:#}");
    let difference = &wrong["differences"][0];
    assert!(
        difference["table"] == "hints" && difference["key"].as_str().unwrap().ends_with("\"ann\""),
        "{wrong:#}"
    );
    assert!(difference["expected"].as_str().unwrap().starts_with("something from "), "{wrong:#}");

    // EVT-7: a dry run leaves it, and a rebuild of the hints makes all of them anew.
    let planned = fixture.cluster.json(&["rebuild", "hints", "--dry-run"]);
    assert_eq!((&planned["hints"]["present"], &planned["dry_run"]), (&json!(2), &json!(true)), "{planned}");
    assert!(fixture.redis.ask(&format!("GET {key}")).contains(&later.to_string()));
    let rebuilt = fixture.cluster.json(&["rebuild", "hints"]);
    assert_eq!(rebuilt["hints"]["forgotten"], 2, "{rebuilt}");
    assert!(!fixture.redis.ask(&format!("GET {key}")).contains(&later.to_string()));
    let (code, clean) = verified(&|report| report["hints"] == 2);
    assert_eq!((code, &clean["difference_count"]), (Some(0), &json!(0)), "{clean:#}");
}

/// PUL-9, E4, E5: 2,000 users of a group wake at once, on Kafka and Redis. `make bench` does it with 100,000.
#[test]
fn large_group_is_served_a_second_after_a_task_was_acknowledged() {
    let fixture = Fixture::start();
    fixture.clients("demo").group_wakes(2_000);
    fixture.is_in_order();
}

/// What clients saw of one task: which grants each user completed.
type History = BTreeMap<String, Vec<i64>>;

/// How far a round is, as its clients see it.
#[derive(Default)]
struct Tally {
    granted: AtomicUsize,
    completed: AtomicUsize,
    under_way: AtomicUsize,
    failed: AtomicUsize,
}

impl Tally {
    fn of(count: &AtomicUsize) -> usize {
        count.load(Ordering::SeqCst)
    }

    /// Asks until there is an answer: an interface or an owner may be away for a while.
    fn insist(&self, what: &str, ask: impl Fn() -> Result<Told, Error>) -> Told {
        let begun_at = Instant::now();
        loop {
            self.under_way.fetch_add(1, Ordering::SeqCst);
            let told = ask();
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            match told {
                Ok(told) if told.status < 429 && told.code() != Some("user_moving") => return told,
                other => assert!(begun_at.elapsed() < 2 * PATIENCE, "{what}: {other:?}"),
            }
            self.failed.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Pulls and completes for these users, in turn, until none of them gets anything.
fn work(clients: &Clients, users: &[String], task: &Value, tally: &Tally) -> History {
    let mut history = History::new();
    let mut left: Vec<_> = users.iter().collect();
    while !left.is_empty() {
        left.retain(|user| {
            let told = tally.insist("pull", || clients.try_post("/api/pull", &json!({"user": user})));
            assert_eq!(told.status, 200, "{user}: {told:?}");
            let Some(grant) = told.body["grant"]["grant"].as_i64() else { return false };
            tally.granted.fetch_add(1, Ordering::SeqCst);
            assert_eq!(told.body["grant"]["task"], *task, "{user}: {told:?}");
            let body = json!({"user": user, "grant": grant, "result": "ok"});
            let told = tally.insist("complete", || clients.try_post("/api/pull/complete", &body));
            assert_eq!(told.status, 200, "{user}: {told:?}");
            tally.completed.fetch_add(1, Ordering::SeqCst);
            history.entry((*user).clone()).or_default().push(grant);
            true
        });
    }
    history
}

/// A task of so many units for some users, worked on by so many clients at once.
struct Crowd {
    clients: Clients,
    users: Vec<String>,
    at_once: usize,
    units: usize,
    repeat: bool,
}

impl Crowd {
    fn new(fixture: &Fixture, group: &str, users: usize, at_once: usize, units: usize, repeat: bool) -> Self {
        let clients = fixture.clients(group);
        let users: Vec<_> = (0..users).map(|n| format!("{group}-{n}")).collect();
        clients.assign(&users);
        Self { clients, users, at_once, units, repeat }
    }

    fn round(&self, tally: &Tally) {
        let task = self.clients.task(&json!({"dispatch_times": self.units, "repeat": self.repeat}));
        thread::sleep(SECOND);
        let each = self.users.len().div_ceil(self.at_once);
        let histories: Vec<History> = thread::scope(|scope| {
            let work = |users| {
                let task = &task;
                scope.spawn(move || work(&self.clients, users, task, tally))
            };
            let workers: Vec<_> = self.users.chunks(each).map(work).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        let history: History = histories.into_iter().flatten().collect();
        let grants: BTreeSet<_> = history.values().flatten().collect();
        let all: usize = history.values().map(Vec::len).sum();
        assert_eq!((all, grants.len()), (self.units, self.units), "as clients saw it, of {task}");
        if !self.repeat {
            assert!(history.values().all(|grants| grants.len() == 1), "{history:?}");
        }
        let totals = [("taken", self.units), ("completed", self.units), ("live", 0)];
        self.clients.comes_to(&task, &totals);
    }
}

/// What is killed in a round, or hangs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kill {
    Api,
    Dispatcher,
    Redis,
    RedisHangs,
}

impl Kill {
    /// Of five rounds all but the first have one; of many rounds, four of every thirty.
    fn of(round: usize, rounds: usize) -> Option<Self> {
        let every = if rounds <= 5 { 5 } else { 30 };
        [None, Some(Self::Api), Some(Self::Dispatcher), Some(Self::Redis), Some(Self::RedisHangs)]
            .get(round % every)
            .copied()
            .flatten()
    }

    /// `owner` has the partition of the group that executors work for.
    fn strike(self, fixture: &mut Fixture, port: &str, owner: &str) {
        match self {
            Self::Api => {
                fixture.cluster.role("api").kill();
                fixture.cluster.start_api_at("api", port);
            }
            Self::Dispatcher => {
                fixture.cluster.role(owner).kill();
                fixture.cluster.start_dispatcher(owner);
            }
            Self::Redis => fixture.redis.kill_and_start(),
            Self::RedisHangs => fixture.redis.hang(2 * SECOND),
        }
    }
}

/// Waits until so many grants of the round were answered; then there are calls under way, and work is left.
fn in_the_midst(tally: &Tally, granted: usize, units: usize, round: usize) {
    let begun_at = Instant::now();
    while Tally::of(&tally.granted) < granted || Tally::of(&tally.under_way) == 0 {
        assert!(begun_at.elapsed() < PATIENCE, "round {round}: not {granted} grants");
        thread::sleep(Duration::from_millis(1));
    }
    let completed = Tally::of(&tally.completed);
    assert!(completed < units, "round {round}: nothing is left to be done");
    let under_way = Tally::of(&tally.under_way);
    eprintln!("round {round}: {completed} of {units} completed, {under_way} calls under way");
}

/// E1, PUL-4: exactly as many as there are, whatever the concurrency and whatever is killed meanwhile: 2,000 users on
/// 1,000 plain units, 64 on 1,000 units that one may have again and again, 20 on 6. `TIDEMILL_E1_ROUNDS` says how
/// many rounds, 5 if it is not set. A kill comes after some grants of its round, while others are asked for.
#[test]
fn stock_is_given_out_exactly_whoever_is_killed() {
    let rounds: usize = std::env::var("TIDEMILL_E1_ROUNDS").map_or(5, |text| text.parse().unwrap());
    let mut fixture = Fixture::start();
    let port = fixture.cluster.listens();
    for group in ["again", "few"] {
        // Of RFC 8032, 7.1, test 1: no worker has its private half.
        let key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        let body = json!({"name": group, "worker_key": key});
        fixture.cluster.post("/api/groups", &body);
    }
    let crowds = [
        Crowd::new(&fixture, "demo", 2_000, 64, 1_000, false),
        Crowd::new(&fixture, "again", 64, 64, 1_000, true),
        Crowd::new(&fixture, "few", 20, 20, 6, false),
    ];
    let units = crowds.iter().map(|crowd| crowd.units).sum();
    let mut journal = fixture.cluster.journal();
    for round in 0..rounds {
        let tally = &Tally::default();
        let owner = fixture.cluster.both_own(&mut journal)[Cluster::DEMO as usize].clone();
        let begun_at = Instant::now();
        thread::scope(|scope| {
            let start = |crowd| scope.spawn(move || Crowd::round(crowd, tally));
            let started: Vec<_> = crowds.iter().map(start).collect();
            if let Some(kill) = Kill::of(round, rounds) {
                // Earlier and later in its round, from one round to the next.
                in_the_midst(tally, 50 + round * 211 % 1_500, units, round);
                let failed = Tally::of(&tally.failed);
                kill.strike(&mut fixture, &port, &owner);
                let is_noticed = || Tally::of(&tally.failed) > failed;
                assert!(kill != Kill::Api || is_noticed(), "round {round}: no call failed of {kill:?}");
                eprintln!("round {round}: {kill:?}, {} calls failed", Tally::of(&tally.failed) - failed);
            }
            started.into_iter().for_each(|crowd| crowd.join().unwrap());
        });
        assert_eq!(Tally::of(&tally.completed), units, "round {round}");
        eprintln!("round {round} of {rounds}: {:.1} s", begun_at.elapsed().as_secs_f64());
    }
    fixture.is_in_order();
}
