//! Clients that pull tasks, through REST, on the real program (PUL-5 to PUL-9, PUL-13).

use std::time::{Duration, Instant};

use crate::clients::{Clients, Told};
use crate::server::Server;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A task acknowledged so long ago is offered by every poll.
const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    clients: Clients,
    server: Server,
    _dir: TempDir,
}

impl Fixture {
    /// With as little going on beside pulls as can be.
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let server = Server::start_with(dir.path(), &[("EXECUTOR__HEARTBEAT_MS", "60000")]);
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap().trim().to_owned();
        let clients = Clients::new(&format!("http://{}", read("api.address")), &read("admin.key"), "default");
        Self { clients, server, _dir: dir }
    }

    /// Every rule of the checker holds over what happened.
    fn ends_in_order(self) {
        let checked = self.server.json(&["verify", "--journal"]);
        assert_eq!(checked["finding_count"], 0, "{checked:#}");
        assert_eq!(self.server.stop(), Some(0));
    }
}

/// PUL-5, PUL-7, E7: the same grant again until it is completed; a completion again with the same result is the same
/// answer; with another one, of a foreign or an unknown grant it is refused, and nothing changes.
#[test]
fn grant_is_given_again_until_it_is_completed_once() {
    let fixture = Fixture::start();
    let clients = &fixture.clients;
    clients.assign(&["ann", "bob"]);
    let task = clients.task(&json!({"parameters": {"page": 7}, "name": "seven"}));
    let first = clients.gets("ann");
    assert_eq!((&first["task"], &first["parameters"]["page"]), (&task, &json!(7)), "{first}");
    assert!(first.get("redo").is_none(), "{first}");
    let again = clients.gets("ann");
    assert_eq!(
        (&again["grant"], &again["redo"], &again["parameters"]),
        (&first["grant"], &json!(true), &first["parameters"])
    );
    clients.gets_nothing("bob");
    let grant = first["grant"].as_i64().unwrap();
    for (user, grant, result, code) in [
        ("bob", grant, "mine", "grant_over"),
        ("ann", grant + 1_000_000, "mine", "grant_over"),
        ("ann", grant, "", "invalid"),
        ("cleo", grant, "mine", "user_unknown"),
        ("a b", grant, "mine", "invalid"),
    ] {
        let told = clients.complete(user, grant, result);
        assert!(told.status >= 400 && told.code() == Some(code), "{user} {grant}: {told:?}");
    }
    for _ in 0..3 {
        let told = clients.complete("ann", grant, "done");
        assert_eq!((told.status, told.body["grant"].as_i64()), (200, Some(grant)), "{told:?}");
    }
    let other = clients.complete("ann", grant, "otherwise");
    assert_eq!((other.status, other.code()), (409, Some("already_completed")), "{other:?}");
    let late = clients.give_back("ann", grant);
    assert!(late.status >= 400, "{late:?}");
    clients.gets_nothing("ann");
    clients.gets_nothing("bob");
    clients.comes_to(&task, &[("taken", 1), ("completed", 1), ("live", 0)]);
    fixture.ends_in_order();
}

/// PUL-6: nothing is due yet: the answer says when, and a thousand such answers do not touch the log.
#[test]
fn empty_answers_tell_when_and_do_not_touch_the_log() {
    let fixture = Fixture::start();
    let clients = &fixture.clients;
    clients.assign(&["ann"]);
    let at = jiff::Timestamp::now() + Duration::from_secs(3_600);
    clients.task(&json!({"when": {"once": {"start": at}}}));
    // What was prepared before the task counts for a second at most.
    let begun_at = Instant::now();
    let answer = loop {
        let answer = clients.gets_nothing("ann");
        if !answer["next_at"].is_null() {
            break answer;
        }
        assert!(begun_at.elapsed() < Duration::from_secs(60), "{answer}");
    };
    let next_at: jiff::Timestamp = answer["next_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(next_at.as_millisecond(), at.as_millisecond(), "{answer}");
    assert_eq!(answer["retry_after_s"], 30);
    let ends = || -> Vec<Value> {
        let status = fixture.server.json(&["status"]);
        status["partitions"].as_array().unwrap().iter().map(|it| it["journal_end"].clone()).collect()
    };
    // The first of them ask the owner, until a hint says the same.
    let begun_at = Instant::now();
    loop {
        let before = ends();
        (0..1_000).for_each(|_| drop(clients.gets_nothing("ann")));
        if ends() == before {
            break;
        }
        assert!(
            begun_at.elapsed() < Duration::from_secs(60),
            "empty answers touch the log: {before:?} {:?}",
            ends()
        );
    }
    fixture.ends_in_order();
}

/// PUL-6: who waits gets a task when it is there, not when the wait is over; who waits for nothing gets that in time.
#[test]
fn waiting_pull_gets_a_task_that_comes() {
    let fixture = Fixture::start();
    let clients = &fixture.clients;
    clients.assign(&["ann", "bob"]);
    let since = Instant::now();
    assert_eq!(clients.pull("bob", 1).body["grant"], Value::Null);
    assert!(since.elapsed() >= SECOND);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| clients.pull("ann", 30));
        clients.hinted("ann");
        let task = clients.task(&json!({}));
        let there_at = Instant::now();
        let told = waits.join().unwrap();
        assert_eq!(told.body["grant"]["task"], task, "{told:?}");
        // Long before its wait would have ended.
        assert!(there_at.elapsed() < 20 * SECOND, "{:?}", there_at.elapsed());
    });
    fixture.ends_in_order();
}

/// PUL-9, E5: a task acknowledged at t is offered by every poll after t + 1 s, whatever hints say otherwise.
#[test]
fn task_is_offered_to_everybody_a_second_after_it_was_acknowledged() {
    const USERS: usize = 200;
    let fixture = Fixture::start();
    let clients = &fixture.clients;
    let users: Vec<_> = (0..USERS).map(|n| format!("user-{n}")).collect();
    clients.assign(&users);
    for _ in 0..2 {
        users.iter().for_each(|user| drop(clients.gets_nothing(user)));
    }
    for round in 0..3 {
        let task = clients.task(&json!({"dispatch_times": USERS}));
        std::thread::sleep(SECOND);
        for user in &users {
            let told = clients.pull(user, 0);
            assert_eq!(told.body["grant"]["task"], task, "round {round}: {user}: {told:?}");
            let grant = &told.body["grant"];
            let told = clients.complete(user, grant["grant"].as_i64().unwrap(), "ok");
            assert_eq!(told.status, 200, "{told:?}");
            clients.gets_nothing(user);
        }
        clients.comes_to(&task, &[("taken", USERS), ("completed", USERS)]);
    }
    fixture.ends_in_order();
}

/// PUL-9, E4, E5: 2,000 users of a group wake at once. `make bench` does it with 100,000.
#[test]
fn large_group_is_served_a_second_after_a_task_was_acknowledged() {
    let fixture = Fixture::start();
    fixture.clients.group_wakes(2_000);
    fixture.ends_in_order();
}

/// PUL-13, E7: a grant whose lease runs out goes back to stock, to whoever waits; its late completion is refused, and
/// changes nothing. One that is given back goes back at once, to the same user too.
#[test]
fn grant_that_expires_or_is_returned_is_given_again() {
    let fixture = Fixture::start();
    let clients = &fixture.clients;
    clients.assign(&["ann", "bob"]);
    let task = clients.task(&json!({"lease_s": 5}));
    let first = clients.gets("ann");
    assert!(first["expires_at"].is_string(), "{first}");
    // Whoever gets it next has all the time in the world.
    let mut longer = fixture.server.json(&["pull", "task", "show", &task.to_string()])["task"].clone();
    longer["lease_s"] = json!(600);
    let (status, changed) = fixture.server.put(&format!("/api/pull/tasks/{task}"), &longer);
    assert_eq!(status, 200, "{changed}");
    let second = clients.pull("bob", 30);
    assert_eq!(second.body["grant"]["task"], task, "{second:?}");
    let late = clients.complete("ann", first["grant"].as_i64().unwrap(), "late");
    assert_eq!((late.status, late.code()), (409, Some("grant_over")), "{late:?}");
    let grant = second.body["grant"]["grant"].as_i64().unwrap();
    assert_eq!(clients.give_back("bob", grant).status, 200);
    let again = clients.offered("bob");
    assert_eq!(again["task"], task);
    assert_eq!(clients.complete("bob", again["grant"].as_i64().unwrap(), "done").status, 200);
    let totals = [("taken", 3), ("live", 0), ("completed", 1), ("returned", 1), ("expired", 1)];
    clients.comes_to(&task, &totals);
    fixture.ends_in_order();
}

/// E7: what is wrong with a pull is told by field.
#[test]
fn wrong_pulls_are_refused_by_field() {
    let fixture = Fixture::start();
    let clients = &fixture.clients;
    let told = clients.pull("nobody", 0);
    assert_eq!((told.status, told.code()), (404, Some("user_unknown")), "{told:?}");
    assert!(told.body["errors"][0]["rule"].as_str().unwrap().contains("assign"), "{told:?}");
    for (body, field) in [
        (json!({"user": "ann", "wait_s": 31}), "wait_s"),
        (json!({"user": "ann", "wait_s": -1}), "wait_s"),
        (json!({"user": "a b"}), "user"),
        (json!({"wait_s": 3}), "user"),
        (json!({"user": "ann", "haste": true}), "haste"),
    ] {
        let told: Told = clients.post("/api/pull", &body);
        assert_eq!(told.status, 422, "{body}: {told:?}");
        assert_eq!(told.body["errors"][0]["field"], field, "{told:?}");
    }
    fixture.ends_in_order();
}
