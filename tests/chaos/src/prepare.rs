//! Everything that has to be there before the first fault: groups, executors, jobs.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::caller::Common;
use crate::fixture::{Fixture, GROUPS};
use crate::intruder::{SECRET, WATCHER};
use crate::recovery::items;
use crate::report::Report;
use crate::rest::{Answer, Rest};
use crate::role::{Part, Role};
use crate::run::PULLERS;
use crate::{adder, jobs, puller};

/// Until everything works the first time.
const START: Duration = Duration::from_secs(60);

/// Groups with short bounds, executors, and jobs.
pub(crate) fn prepare(fixture: &Fixture, workers: u64, report: &mut Report) -> Result<Common> {
    let key = std::fs::read_to_string(fixture.dir.join("keys/admin.key"))?;
    let interfaces: Vec<_> =
        fixture.of_part(Part::Api).map(|role| Rest::new(&role.address, key.trim())).collect();
    jobs::write_program(&fixture.dir)?;
    let interface = interfaces.first().ok_or_else(|| anyhow!("there is no interface"))?;
    granted("the interface answers", || interface.get("/api/groups"))?;
    for group in [GROUPS[1], adder::GROUP] {
        fixture.admin(&["--server", &server(fixture)?, "group", "apply", group])?;
    }
    let groups = until("all groups are there", || {
        ok(interface.get("/api/groups")).filter(|groups| items(groups).len() == GROUPS.len() + 1)
    })?;
    for (number, group) in items(&groups).iter().enumerate() {
        let settings = json!({
            "start_timeout_ms": 10_000, "lost_after_ms": 3_000, "lease_ms": 6_000, "lease_margin_ms": 500,
            "kill_grace_ms": 1_000,
        });
        let body = json!({"name": group["name"], "worker_key": group["worker_key"], "settings": settings});
        granted("the bounds of a group are set", || {
            interface.post("/api/groups", &format!("group-{number}"), &body)
        })?;
    }
    granted("somebody may look", || {
        let body = json!({"app": WATCHER, "secret": SECRET, "role": "viewer", "groups": []});
        interface.post("/api/keys", WATCHER, &body)
    })?;
    fixture.of_part(Part::Executor).try_for_each(Role::start)?;
    granted("the pool is there", || {
        interface.post("/api/pools", "pool", &json!({"name": jobs::POOL, "slots": 3}))
    })?;
    assign_users(interface, workers)?;
    let body = json!({"jobs": jobs::specs(&fixture.dir)});
    let applied = granted("the jobs are defined", || interface.post("/api/jobs/apply", "jobs", &body))?;
    let across = json!({"jobs": [jobs::across(&fixture.dir)]});
    if let Answer::Refused(why) = interface.post("/api/jobs/apply", "across", &across) {
        report.not_possible_here.insert("parent-in-another-group", why);
    }
    let changes = applied["changes"].as_array().into_iter().flatten();
    let ids = changes.filter_map(|it| Some((it["name"].as_str()?.to_owned(), it["job"].as_i64()?)));
    let jobs: BTreeMap<_, _> = ids.collect();
    until("the jobs are in the tables", || {
        let list = ok(interface.get("/api/jobs?limit=100"))?;
        (items(&list).len() >= jobs.len()).then_some(())
    })?;
    let alpha = items(&groups).iter().find(|group| group["name"] == GROUPS[0]);
    let group =
        alpha.and_then(|group| group["id"].as_i64()).ok_or_else(|| anyhow!("a group has no number"))?;
    Ok(Common { interfaces, jobs, group, dir: fixture.dir.clone() })
}

/// Whoever pulls gets a home.
fn assign_users(interface: &Rest, workers: u64) -> Result<()> {
    let of = |group: &&str| -> Vec<String> {
        let all = PULLERS.flat_map(puller::users).filter(|(_, of)| of == group);
        all.map(|(name, _)| name).collect()
    };
    let mut homes: Vec<_> = GROUPS.iter().map(|group| (*group, of(group))).collect();
    homes.push((adder::GROUP, adder::users(workers).collect()));
    for (number, (group, users)) in homes.iter().enumerate() {
        granted("users have a group", || {
            let body = json!({"group": group, "users": users});
            interface.post("/api/pull/users", &format!("users-{number}"), &body)
        })?;
    }
    Ok(())
}

fn server(fixture: &Fixture) -> Result<String> {
    let role = fixture.of_part(Part::Api).next().ok_or_else(|| anyhow!("there is no interface"))?;
    Ok(format!("http://{}", role.address))
}

/// Asks until the answer is good.
pub(crate) fn granted(what: &str, ask: impl Fn() -> Answer) -> Result<Value> {
    let mut last = None;
    let granted = until(what, || match ask() {
        Answer::Ok(value) => Some(value),
        Answer::Refused(why) | Answer::Unknown(why) => {
            last = Some(why);
            None
        }
    });
    granted.with_context(|| last.unwrap_or_default())
}

fn ok(answer: Answer) -> Option<Value> {
    match answer {
        Answer::Ok(value) => Some(value),
        Answer::Refused(_) | Answer::Unknown(_) => None,
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let begun_at = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if begun_at.elapsed() > START {
            bail!("not within {START:?}: {what}");
        }
        thread::sleep(Duration::from_millis(100));
    }
}
