//! What people request of tasks that clients pull: templates, users and their moves, tasks and changes of them.

use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemill_model::{
    CatalogueCommand, Executor, GroupName, GroupSettings, ShardId, TaskCommand, TaskId, TaskSpec,
    TemplateSpec, Timestamp, UserName,
};

use crate::{Rng, World};

/// Users of each group at the beginning.
const USERS: usize = 3;
/// The first requests make tasks.
const FIRST_TASKS: usize = 6;

pub(crate) fn pull_settings(rng: &mut Rng, settings: &mut GroupSettings) {
    settings.pull_window_hours = rng.range(1, 24) as u32;
    settings.pull_rotating_limit = rng.range(2, 5) as u32;
    settings.pull_retention_days = rng.range(1, 40) as u32;
}

pub(crate) fn user(group: usize, index: usize) -> UserName {
    format!("u{}-{index}", group + 1).try_into().expect("a name")
}

fn group_name(number: usize) -> GroupName {
    format!("g{number}").try_into().expect("a name")
}

impl World {
    /// Templates, and the first users of every group.
    pub(crate) fn define_pulls(&mut self) {
        // Once their groups are there.
        let delay = 100 * self.plan.groups as u64 + 50;
        for name in ["path", "free"] {
            let command = template(name, 0);
            self.ask_later(ShardId::CATALOGUE, command, delay);
        }
        for group in 0..self.plan.groups {
            let users = (0..USERS).map(|index| user(group, index)).collect();
            let command = CatalogueCommand::AssignUsers { group: group_name(group + 1), users };
            self.ask_later(ShardId::CATALOGUE, command, delay);
        }
    }

    /// Beside a request of another kind, and in a stream of its own.
    pub(crate) fn client_request_of_pulls(&mut self, index: usize) {
        let mut rng = Rng::new(self.plan.seed, "pull", index as u64);
        let rng = &mut rng;
        match if index < FIRST_TASKS { 0 } else { rng.range(0, 100) } {
            0..24 => self.create_task(rng),
            24..32 => self.change_task(rng),
            32..37 => match self.some_task(rng) {
                Some((shard, task, _)) => drop(self.ask(shard, TaskCommand::Delete { task })),
                None => self.create_task(rng),
            },
            37..41 => self.change_template(rng),
            41..46 => self.assign_users(rng),
            46..56 => self.move_user(rng),
            56..58 => {
                let user = self.some_user(rng);
                self.ask_catalogue(CatalogueCommand::DeleteUser { user });
            }
            58..64 => self.return_for_somebody(rng),
            _ => {}
        }
    }

    /// Any user there is, now and then one that there is not.
    fn some_user(&self, rng: &mut Rng) -> UserName {
        let users: Vec<_> = self.known.pulls.user_groups.keys().collect();
        let known = rng.pick(&users).map(|user| (*user).clone());
        known.filter(|_| rng.chance(95)).unwrap_or_else(|| user(rng.below(self.plan.groups), 9))
    }

    /// Where a user's own tasks and grants are, as the tables would say.
    pub(crate) fn home_of(&self, user: &UserName, rng: &mut Rng) -> ShardId {
        let home = self.known.pulls.user_groups.get(user).copied();
        home.filter(|_| rng.chance(97)).unwrap_or(ShardId(rng.below(self.plan.groups) as u16 + 1))
    }

    fn executor(&self, rng: &mut Rng) -> (ShardId, Executor) {
        if rng.chance(25) {
            let user = self.some_user(rng);
            return (self.home_of(&user, rng), Executor::User(user));
        }
        let number = rng.below(self.plan.groups) + 1;
        (ShardId(number as u16), Executor::Group(group_name(number)))
    }

    fn create_task(&mut self, rng: &mut Rng) {
        let (shard, executor) = self.executor(rng);
        let spec = self.task_spec(rng, &executor);
        self.ask(shard, TaskCommand::Create { spec });
    }

    /// Mostly a valid one, of where it was made; it may have gone elsewhere with its user.
    fn some_task(&self, rng: &mut Rng) -> Option<(ShardId, TaskId, TaskSpec)> {
        let tasks: Vec<_> = self.known.pulls.tasks.iter().filter(|(_, task)| !task.deleted).collect();
        let all: Vec<_> = self.known.pulls.tasks.iter().collect();
        let (id, task) = if rng.chance(85) { rng.pick(&tasks) } else { rng.pick(&all) }?;
        let shard = match &task.spec.executor {
            Executor::User(user) => self.home_of(user, rng),
            Executor::Group(_) => id.shard(),
        };
        Some((shard, **id, (*task.spec).clone()))
    }

    fn change_task(&mut self, rng: &mut Rng) {
        let Some((shard, task, known)) = self.some_task(rng) else { return self.create_task(rng) };
        let mut spec = self.task_spec(rng, &known.executor);
        if rng.chance(50) {
            spec.when = known.when;
        }
        if rng.chance(5) {
            spec.executor = self.executor(rng).1;
        }
        self.ask(shard, TaskCommand::Change { task, spec });
    }

    fn change_template(&mut self, rng: &mut Rng) {
        let name = ["path", "free", "spare"][rng.below(3)];
        let is_spare = name == "spare" && rng.chance(50);
        let command = if is_spare || rng.chance(10) {
            CatalogueCommand::DeleteTemplate { name: name.try_into().expect("a name") }
        } else {
            template(name, rng.range(0, 3))
        };
        self.ask_catalogue(command);
    }

    /// New ones, and some who have a home already.
    fn assign_users(&mut self, rng: &mut Rng) {
        let group = rng.below(self.plan.groups);
        let mut users = vec![user(group, rng.below(8))];
        if rng.chance(30) {
            users.push(self.some_user(rng));
        }
        users.dedup();
        self.ask_catalogue(CatalogueCommand::AssignUsers { group: group_name(group + 1), users });
    }

    /// A user moves, and mostly asks for work while it does.
    fn move_user(&mut self, rng: &mut Rng) {
        let user = self.some_user(rng);
        let from = self.home_of(&user, rng);
        let to = group_name(rng.below(self.plan.groups) + 1);
        self.ask_catalogue(CatalogueCommand::MoveUser { user: user.clone(), to });
        for _ in 0..rng.below(4) {
            let delay = rng.range(5, 120);
            self.ask_as_client(from, TaskCommand::Pull { user: user.clone() }, delay);
        }
        if rng.chance(10) {
            let to = group_name(rng.below(self.plan.groups) + 1);
            self.ask_later(ShardId::CATALOGUE, CatalogueCommand::MoveUser { user, to }, 10);
        }
    }

    /// Somebody gives back what a user has, or had.
    fn return_for_somebody(&mut self, rng: &mut Rng) {
        let grants: Vec<_> = self.known.pulls.grants.iter().rev().take(8).collect();
        let live: Vec<_> = grants.iter().copied().filter(|(_, grant)| grant.end.is_none()).collect();
        let Some((grant, held)) = (if rng.chance(70) { rng.pick(&live) } else { rng.pick(&grants) }) else {
            return;
        };
        let (grant, user) = (**grant, held.user.clone());
        let shard = self.home_of(&user, rng);
        self.ask(shard, TaskCommand::ReturnGrant { user, grant, reason: "gone home".to_owned() });
    }

    fn task_spec(&self, rng: &mut Rng, executor: &Executor) -> TaskSpec {
        let mut task = json!({"executor": executor, "when": when(rng, self.wall())});
        rng.sometimes(60, &mut task, "dispatch_times", |rng| json!(rng.range(1, 6)));
        rng.sometimes(30, &mut task, "repeat", |_| json!(true));
        rng.sometimes(40, &mut task, "lease_s", |rng| json!(rng.range(5, 16)));
        rng.sometimes(30, &mut task, "name", |_| json!("a task"));
        match rng.range(0, 20) {
            0..6 => {
                task["template"] = json!("path");
                task["parameters"] = json!({"path": "/d", "share": 0.1});
            }
            6 => {
                task["template"] = json!("path");
                task["parameters"] = json!({"size": "large"});
            }
            7 => task["template"] = json!("spare"),
            8..12 => {
                let deep = rng.aside("deep");
                task["parameters"] = json!({"free": [1, {"two": null}], "deep": nested(deep)});
            }
            12 => task["lease_s"] = json!(1),
            _ => {}
        }
        TaskSpec::from_value(task).expect("of the right form")
    }
}

/// Mostly as deep as parameters may be, or deeper than they may.
fn nested(mut rng: Rng) -> Value {
    let levels = if rng.chance(30) { rng.range(31, 36) } else { 1 };
    (0..levels).fold(
        json!("core"),
        |value, level| if level % 2 == 0 { json!([value]) } else { json!({"in": value}) },
    )
}

fn template(name: &str, version: u64) -> CatalogueCommand {
    let fields = match name {
        "path" => json!({
            "path": {"type": "string"}, "share": {"required": false, "type": "number"},
            "size": {"required": version == 2, "type": "number"},
        }),
        _ => json!({"x": {"required": false}}),
    };
    let spec = json!({"name": name, "fields": fields, "comment": format!("version {version}")});
    CatalogueCommand::DefineTemplate { template: TemplateSpec::from_value(spec).expect("of the right form") }
}

/// Mostly what is due soon, or was a short while ago.
fn when(rng: &mut Rng, wall: Timestamp) -> Value {
    let away = |seconds: i64| wall + SignedDuration::from_secs(seconds);
    let second = |time: Timestamp| Timestamp::from_second(time.as_second()).expect("it was one");
    match rng.range(0, 20) {
        0 => json!({"once": {"start": away(-24 * 3_600)}}),
        1..9 => json!({"once": {"start": second(away(rng.range(0, 100) as i64 - 70)).to_string()}}),
        // Several with one start.
        9..12 => {
            json!({"once": {"start": Timestamp::from_second(wall.as_second() / 60 * 60).expect("it was one")}})
        }
        12..17 => {
            let start = second(away(-(rng.range(0, 1_800) as i64)));
            json!({"every_minutes": {"n": rng.range(1, 4), "start": start}})
        }
        _ => {
            let zone = ["UTC", "Europe/Berlin", "Asia/Tokyo", "America/St_Johns"][rng.below(4)];
            let local = away(rng.range(0, 240) as i64 - 180);
            let local = local.jiff().in_tz(zone).expect("a zone that there is");
            let at = format!("{:02}:{:02}", local.hour(), local.minute());
            let start = away(-(rng.range(0, 5 * 24) as i64) * 3_600);
            json!({"every_days": {"n": rng.range(1, 3), "at": at, "zone": zone, "start": start}})
        }
    }
}
