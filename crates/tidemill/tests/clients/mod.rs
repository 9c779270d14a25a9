//! Clients that pull, and somebody who gives them tasks, over HTTP.

#![allow(dead_code, reason = "each test uses some of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidemill_client::{Answer, Client, Error};

/// Nothing here takes longer unless it is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// A status and a body.
pub(crate) type Told = Answer;

/// With one key, for users of one group.
#[derive(Clone)]
pub(crate) struct Clients {
    client: Client,
    group: String,
}

impl Clients {
    pub(crate) fn new(base: &str, key: &str, group: &str) -> Self {
        let client = Client::builder(base).key(key).timeout(PATIENCE).build().unwrap();
        Self { client, group: group.to_owned() }
    }

    pub(crate) fn try_post(&self, path: &str, body: &Value) -> Result<Told, Error> {
        self.client.post(path).body(body).answer()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Told {
        self.try_post(path, body).unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    /// Asks again where nobody answers, as the server may be killed meanwhile, and where the tables are behind, as it says.
    pub(crate) fn get(&self, path: &str) -> Value {
        let begun_at = Instant::now();
        loop {
            match self.client.get(path).answer() {
                Ok(told) if told.status == 504 && begun_at.elapsed() < PATIENCE => {}
                Ok(told) => {
                    assert_eq!(told.status, 200, "GET {path}: {}", told.body);
                    return told.body;
                }
                Err(error) => assert!(begun_at.elapsed() < PATIENCE, "GET {path}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Makes these users members of the group, and waits until their shard knows them.
    pub(crate) fn assign(&self, users: &[impl AsRef<str>]) {
        for part in users.chunks(500) {
            let names: Vec<_> = part.iter().map(AsRef::as_ref).collect();
            let told = self.post("/api/pull/users", &json!({"group": self.group, "users": names}));
            assert_eq!(told.status, 200, "{told:?}");
            let position = told.body["position"].as_str().unwrap().to_owned();
            self.get(&format!("/api/pull/users?limit=1&at_least={position}"));
        }
        for user in users {
            let begun_at = Instant::now();
            while self.pull(user.as_ref(), 0).status != 200 {
                assert!(begun_at.elapsed() < PATIENCE, "{:?}", self.pull(user.as_ref(), 0));
            }
        }
    }

    /// As often as it is answered with something else than an answer: owners take a group of new users one by one.
    fn insist(&self, user: &str) -> Value {
        let begun_at = Instant::now();
        loop {
            let told = self.pull(user, 0);
            if told.status == 200 {
                return told.body["grant"].clone();
            }
            assert!(begun_at.elapsed() < PATIENCE, "{user}: {told:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// E4, E5: a group of so many users, each of whom was told that nothing is due, wakes for one task: a second after
    /// that was acknowledged everybody is offered it, whatever 16 clients ask at the same time, and nobody gets two.
    pub(crate) fn group_wakes(&self, users: usize) {
        const CLIENTS: usize = 16;
        let names: Vec<_> = (0..users).map(|n| format!("{}-{n}", self.group)).collect();
        for part in names.chunks(500) {
            let told = self.post("/api/pull/users", &json!({"group": self.group, "users": part}));
            assert_eq!(told.status, 200, "{told:?}");
        }
        let all_at_once = |act: &(dyn Fn(&str) + Sync)| {
            std::thread::scope(|scope| {
                for part in names.chunks(users.div_ceil(CLIENTS)) {
                    scope.spawn(move || part.iter().for_each(|user| act(user)));
                }
            });
        };
        all_at_once(&|user| assert_eq!(self.insist(user), Value::Null, "{user}"));
        let task = self.task(&json!({"dispatch_times": users}));
        std::thread::sleep(Duration::from_secs(1));
        all_at_once(&|user| assert_eq!(self.insist(user)["task"], task, "{user}"));
        self.comes_to(&task, &[("taken", users), ("live", users)]);
    }

    /// A new task for the group, due since a minute where `more` does not say otherwise; gives its id.
    pub(crate) fn task(&self, more: &Value) -> Value {
        let start = jiff::Timestamp::now() - Duration::from_secs(60);
        let mut spec = json!({"executor": {"group": self.group}, "when": {"once": {"start": start}}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let told = self.post("/api/pull/tasks", &spec);
        assert_eq!(told.status, 200, "{told:?}");
        told.body["task"].clone()
    }

    pub(crate) fn pull(&self, user: &str, wait_s: u32) -> Told {
        self.post("/api/pull", &json!({"user": user, "wait_s": wait_s}))
    }

    /// A pull now; it has to give something. After a task was acknowledged a hint may stand for a second.
    pub(crate) fn gets(&self, user: &str) -> Value {
        let told = self.pull(user, 0);
        if told.status == 200 && told.body["grant"].is_null() {
            return self.offered(user);
        }
        assert!(told.status == 200, "{user}: {told:?}");
        told.body["grant"].clone()
    }

    /// What is offered within a second.
    pub(crate) fn offered(&self, user: &str) -> Value {
        let begun_at = Instant::now();
        loop {
            let late = begun_at.elapsed() > Duration::from_secs(1);
            let told = self.pull(user, 0);
            assert_eq!(told.status, 200, "{user}: {told:?}");
            if told.body["grant"].is_object() {
                return told.body["grant"].clone();
            }
            assert!(!late, "{user} is offered nothing: {told:?}");
        }
    }

    /// A pull now; it has to be empty.
    pub(crate) fn gets_nothing(&self, user: &str) -> Value {
        let told = self.pull(user, 0);
        assert!(told.status == 200 && told.body["grant"].is_null(), "{user}: {told:?}");
        told.body
    }

    /// Until two empty answers in a row come fast, as with a hint; a pull that waits has begun by then.
    pub(crate) fn hinted(&self, user: &str) {
        (0..50).for_each(|_| drop(self.gets_nothing(user)));
    }

    pub(crate) fn complete(&self, user: &str, grant: i64, result: &str) -> Told {
        self.post("/api/pull/complete", &json!({"user": user, "grant": grant, "result": result}))
    }

    pub(crate) fn give_back(&self, user: &str, grant: i64) -> Told {
        self.post("/api/pull/return", &json!({"user": user, "grant": grant, "reason": "test"}))
    }

    /// Waits until the task's ledger shows these totals.
    pub(crate) fn comes_to(&self, task: &Value, totals: &[(&str, usize)]) {
        let begun_at = Instant::now();
        loop {
            let ledger = self.get(&format!("/api/pull/tasks/{task}/ledger"))["totals"].clone();
            if totals.iter().all(|(name, count)| ledger[name] == *count) {
                return;
            }
            assert!(begun_at.elapsed() < PATIENCE, "task {task} does not come to {totals:?}: {ledger}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
