//! A client that pulls tasks for users of its own, writes tasks, and moves users: what it is told has to fit together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::caller::{Caller, Client, Common};
use crate::fixture::GROUPS;
use crate::history::{Action, History, Told};
use crate::rng::Rng;

/// Users of one client.
const USERS: u64 = 4;
/// PUL-14: so long after its acknowledgement a task is offered by every pull.
const OFFERED: Duration = Duration::from_secs(1);

/// Refusals which say that the user does not have the grant.
const OVER: [&str; 3] = ["409 grant_over:", "409 already_completed:", "409 not_returned:"];

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

impl User {
    fn new(name: String) -> Self {
        Self { name, has: None, owed: BTreeMap::new() }
    }

    /// A pull that began then was answered so; gives what must not be.
    fn pulled(&mut self, answer: &Value, begun_at: Instant) -> Option<String> {
        let name = &self.name;
        let sure = self.has.filter(|held| held.is_sure).map(|held| held.grant);
        let given = &answer["grant"];
        let (Some(grant), Some(task)) = (given["grant"].as_i64(), given["task"].as_i64()) else {
            self.has = None;
            let late = self.owed.iter().find(|(_, from)| **from <= begun_at).map(|(task, _)| *task);
            let is_wrong = late.is_some() || sure.is_some();
            return is_wrong.then(|| {
                format!(
                    "{name} was told that nothing is due; it is owed task {late:?}, and has grant {sure:?}"
                )
            });
        };
        // What was said of it, and not answered, may still arrive.
        let is_doubtful = self.has.is_some_and(|held| held.grant == grant && !held.is_sure);
        self.has = Some(Held { grant, task, is_sure: given["expires_at"].is_null() && !is_doubtful });
        self.owed.remove(&task);
        let earlier = sure.filter(|earlier| *earlier != grant)?;
        Some(format!("{name} was given grant {grant}, and still has grant {earlier}"))
    }

    /// It was said that its grant is over; gives what must not be.
    fn said_over(&mut self, held: Held, told: &Told) -> Option<String> {
        match told {
            Told::Ok(_) => self.has = None,
            Told::Unknown(_) => self.has = Some(Held { is_sure: false, ..held }),
            Told::Refused(why) if OVER.iter().any(|code| why.contains(code)) => {
                self.has = None;
                return held
                    .is_sure
                    .then(|| format!("{} has grant {}, and is told {why}", self.name, held.grant));
            }
            Told::Refused(_) => {}
        }
        None
    }
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
        let users = users(number).map(|(name, _)| User::new(name));
        Self { caller: Caller::new(common, seed, number), users: users.collect() }
    }

    fn pull(&mut self, who: usize) {
        let (user, begun_at) = (self.users[who].name.clone(), Instant::now());
        let wait_s = if self.caller.rng.chance(20) { 2 } else { 0 };
        let body = json!({"user": user, "wait_s": wait_s});
        let Told::Ok(answer) = self.caller.write(Action::Pull(user), "/api/pull", &body) else { return };
        let wrong = self.users[who].pulled(&answer, begun_at);
        self.caller.history.violations.extend(wrong);
    }

    fn complete(&mut self, who: usize) {
        let Some(held) = self.users[who].has else { return };
        let (grant, user) = (held.grant, self.users[who].name.clone());
        let body = json!({"user": user, "grant": grant, "result": result(grant)});
        let told = self.caller.write(Action::Complete(grant), "/api/pull/complete", &body);
        let wrong = self.users[who].said_over(held, &told);
        self.caller.history.violations.extend(wrong);
    }

    fn give_back(&mut self, who: usize) {
        let Some(held) = self.users[who].has else { return };
        let (grant, user) = (held.grant, self.users[who].name.clone());
        let body = json!({"user": user, "grant": grant, "reason": "chaos"});
        let told = self.caller.write(Action::Return(grant), "/api/pull/return", &body);
        let wrong = self.users[who].said_over(held, &told);
        // In stock again, for this user, too: its own tasks are nobody else's.
        if matches!(told, Told::Ok(_)) && held.is_sure {
            self.users[who].owed.insert(held.task, Instant::now() + OFFERED);
        }
        self.caller.history.violations.extend(wrong);
    }

    fn add_own(&mut self, who: usize) {
        let name = format!("own-{}-{}", self.caller.number, self.caller.sent);
        let executor = json!({"user": self.users[who].name});
        let body = json!({"executor": executor, "name": name, "when": {"once": {"start": Timestamp::now()}}});
        if let Told::Ok(answer) = self.caller.write(Action::Task, "/api/pull/tasks", &body)
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
        self.caller.write(Action::Task, "/api/pull/tasks", &body);
    }

    fn relocate(&mut self, who: usize) {
        let Some(to) = self.caller.rng.pick(&GROUPS).copied() else { return };
        let user = self.users[who].name.clone();
        let path = format!("/api/pull/users/{user}/move");
        self.caller.write(Action::Move(user, to.to_owned()), &path, &json!({"to": to}));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn given(grant: i64, task: i64) -> Value {
        json!({"grant": {"grant": grant, "task": task}})
    }

    fn nothing() -> Value {
        json!({"grant": null, "retry_after_s": 30})
    }

    fn leased(grant: i64) -> Value {
        json!({"grant": {"grant": grant, "task": 1, "expires_at": "2026-01-01T00:00:00Z"}})
    }

    fn is_wrong(answers: &[Value]) -> bool {
        let mut user = User::new("ann".to_owned());
        answers.iter().filter_map(|answer| user.pulled(answer, Instant::now())).count() > 0
    }

    #[test]
    fn a_user_has_one_grant_until_it_is_over() {
        assert!(!is_wrong(&[nothing(), given(1, 1), given(1, 1)]));
        assert!(is_wrong(&[given(1, 1), given(2, 2)]));
        assert!(is_wrong(&[given(1, 1), nothing()]));
        assert!(!is_wrong(&[leased(1), given(2, 2)]));
        assert!(!is_wrong(&[leased(1), nothing()]));
    }

    #[test]
    fn what_ended_a_grant_is_known_or_open() {
        let ended = |told: Told| {
            let mut user = User::new("ann".to_owned());
            assert_eq!(user.pulled(&given(1, 1), Instant::now()), None);
            let held = user.has.unwrap();
            (user.said_over(held, &told), user)
        };
        let refused = |why: &str| Told::Refused(why.to_owned());
        assert!(ended(refused("409 grant_over: it has expired")).0.is_some());
        let (wrong, mut user) = ended(refused("409 user_moving: being moved"));
        assert_eq!(wrong, None);
        assert!(user.pulled(&nothing(), Instant::now()).is_some(), "it still has the grant");
        let (_, mut user) = ended(Told::Ok(json!({})));
        assert_eq!(user.pulled(&given(2, 2), Instant::now()), None);
        // It may arrive at any time.
        let (_, mut user) = ended(Told::Unknown(String::new()));
        assert_eq!(user.pulled(&given(1, 1), Instant::now()), None);
        let held = user.has.unwrap();
        assert_eq!(user.said_over(held, &refused("409 grant_over: completed")), None);
    }

    #[test]
    fn a_task_is_owed_from_its_time_on_until_it_is_given() {
        let now = Instant::now();
        let mut user = User::new("ann".to_owned());
        user.owed.insert(7, now + OFFERED);
        assert_eq!(user.pulled(&nothing(), now), None);
        assert!(user.pulled(&nothing(), now + OFFERED).is_some());
        assert_eq!(user.pulled(&given(1, 7), now + OFFERED), None);
        assert_eq!(user.said_over(user.has.unwrap(), &Told::Ok(json!({}))), None);
        assert_eq!(user.pulled(&nothing(), now + OFFERED), None);
    }
}
