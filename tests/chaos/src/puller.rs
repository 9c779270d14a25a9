//! A client that pulls tasks for users of its own, writes tasks, and moves users: what it is told has to fit together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;

use crate::caller::{Caller, Client, Common};
use crate::history::{History, Told, Wish};
use crate::rng::Rng;
use crate::site::GROUPS;

/// Users of one client.
const USERS: u64 = 4;
/// PUL-14: so long after its acknowledgement a task is offered by every pull.
const OFFERED: Duration = Duration::from_secs(1);

/// The client.
pub(crate) struct Puller {
    caller: Caller,
    users: Vec<User>,
}

/// What its client knows of a user.
struct User {
    name: String,
    has: Option<Held>,
    /// Tasks of its own that were acknowledged and that it has not been given, and from when on a pull must not
    /// come back without.
    owed: BTreeMap<i64, Instant>,
}

/// A grant.
#[derive(Clone, Copy)]
struct Held {
    grant: i64,
    task: i64,
    /// It ends only by what the client says, and nothing was said of which it does not know what came of it.
    is_sure: bool,
}

/// Users of a client, with the group of each.
pub(crate) fn users(number: u64) -> impl Iterator<Item = (String, &'static str)> {
    (0..USERS).map(move |user| (format!("user-{number}-{user}"), GROUPS[usize::from(user % 2 == 1)]))
}

impl Client for Puller {
    fn one(&mut self) {
        let who = self.caller.rng.range(0, USERS) as usize;
        match self.caller.rng.range(0, 100) {
            0..40 => self.pull(who),
            40..64 => self.complete(who),
            64..69 => self.give_back(who),
            69..83 => self.add_own(who),
            83..89 => self.add_for_group(),
            89..94 => self.relocate(who),
            _ => self.read(who),
        }
    }

    fn into_history(self) -> History {
        self.caller.history
    }

    fn rng(&mut self) -> &mut Rng {
        &mut self.caller.rng
    }
}

impl Puller {
    /// The `number`-th client of a seed.
    #[must_use]
    pub(crate) fn new(common: &Arc<Common>, seed: u64, number: u64) -> Self {
        let users = users(number).map(|(name, _)| User { name, has: None, owed: BTreeMap::new() });
        Self { caller: Caller::new(common, seed, number), users: users.collect() }
    }

    fn pull(&mut self, who: usize) {
        let (user, begun_at) = (self.users[who].name.clone(), Instant::now());
        let wait_s = if self.caller.rng.chance(20) { 2 } else { 0 };
        let body = json!({"user": user, "wait_s": wait_s});
        let Told::Ok(answer) = self.caller.write(Wish::Pull(user), "/api/pull", &body) else { return };
        let user = &mut self.users[who];
        let given = &answer["grant"];
        let (Some(grant), Some(task)) = (given["grant"].as_i64(), given["task"].as_i64()) else {
            let late = user.owed.iter().find(|(_, from)| **from <= begun_at).map(|(task, _)| *task);
            let held = user.has.take().filter(|held| held.is_sure).map(|held| held.grant);
            if late.is_some() || held.is_some() {
                let name = &user.name;
                self.caller.wrong(format!(
                    "{name} was told that nothing is due; owed since a second: task {late:?}; held: grant {held:?}"
                ));
            }
            return;
        };
        let earlier = user.has.filter(|held| held.is_sure && held.grant != grant).map(|held| held.grant);
        // What was said of it, and not answered, may still arrive.
        let is_doubtful = user.has.is_some_and(|held| held.grant == grant && !held.is_sure);
        let is_sure = given["expires_at"].is_null() && !is_doubtful;
        user.has = Some(Held { grant, task, is_sure });
        user.owed.remove(&task);
        if let Some(earlier) = earlier {
            let name = &user.name;
            self.caller.wrong(format!("{name} was given grant {grant}, and still has grant {earlier}"));
        }
    }

    fn complete(&mut self, who: usize) {
        let Some(held) = self.users[who].has else { return };
        let (grant, user) = (held.grant, self.users[who].name.clone());
        let body = json!({"user": user, "grant": grant, "result": result(grant)});
        let told = self.caller.write(Wish::Complete(grant), "/api/pull/complete", &body);
        self.over(who, held, &told);
    }

    fn give_back(&mut self, who: usize) {
        let Some(held) = self.users[who].has else { return };
        let (grant, user) = (held.grant, self.users[who].name.clone());
        let body = json!({"user": user, "grant": grant, "reason": "chaos"});
        let told = self.caller.write(Wish::Return(grant), "/api/pull/return", &body);
        self.over(who, held, &told);
        // In stock again, for this user, too: its own tasks are nobody else's.
        if matches!(told, Told::Ok(_)) && held.is_sure {
            self.users[who].owed.insert(held.task, Instant::now() + OFFERED);
        }
    }

    /// The client said that a grant is over, and was told so.
    fn over(&mut self, who: usize, held: Held, told: &Told) {
        let user = &mut self.users[who];
        match told {
            Told::Ok(_) => user.has = None,
            Told::Unknown(_) => user.has = Some(Held { is_sure: false, ..held }),
            Told::Refused(why) if why.contains("grant_over") || why.contains("already_completed") => {
                user.has = None;
                if held.is_sure {
                    let told = format!("{} has grant {}, and is told {why}", user.name, held.grant);
                    self.caller.wrong(told);
                }
            }
            Told::Refused(_) => {}
        }
    }

    fn add_own(&mut self, who: usize) {
        let name = format!("own-{}-{}", self.caller.number, self.caller.sent);
        let executor = json!({"user": self.users[who].name});
        let body = json!({"executor": executor, "name": name, "when": {"once": {"start": Timestamp::now()}}});
        if let Told::Ok(answer) = self.caller.write(Wish::Task, "/api/pull/tasks", &body)
            && let Some(task) = answer["task"].as_i64()
        {
            self.users[who].owed.insert(task, Instant::now() + OFFERED);
        }
    }

    /// Several users get it, of this client and of others; whoever is late loses it.
    fn add_for_group(&mut self) {
        let group = self.caller.rng.pick(&GROUPS).copied();
        let body = json!({
            "executor": {"group": group}, "when": {"once": {"start": Timestamp::now()}},
            "dispatch_times": 3, "lease_s": 5,
        });
        self.caller.write(Wish::Task, "/api/pull/tasks", &body);
    }

    fn relocate(&mut self, who: usize) {
        let Some(to) = self.caller.rng.pick(&GROUPS).copied() else { return };
        let user = self.users[who].name.clone();
        let path = format!("/api/pull/users/{user}/move");
        self.caller.write(Wish::Move(user, to.to_owned()), &path, &json!({"to": to}));
    }

    fn read(&mut self, who: usize) {
        let path = format!("/api/pull/users/{}", self.users[who].name);
        self.caller.read(&path);
    }
}

/// What comes of a grant; the same whenever it is said.
pub(crate) fn result(grant: i64) -> String {
    format!("done {grant}")
}
