//! `tidemill worker | group | key | status`.

use serde_json::{Value, json};

use super::{Session, write};
use crate::cli::{FreezeCommand, GroupCommand, KeyCommand, WorkerCommand, word};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::keys;
use crate::render::{self, Column};
use crate::secret;
use crate::server::Query;
use tidemill_client::{Method, segment};

/// Most rows of the short lists.
const LIMIT: usize = 10_000;

const WORKERS: &[Column] = &[
    Column("ID", &["/id"]),
    Column("GROUP", &["/group"]),
    Column("STATE", &["/state"]),
    Column("HOST", &["/host"]),
    Column("ADDRESS", &["/address"]),
    Column("SLOTS", &["/slots"]),
    Column("DRAINED", &["/drained"]),
    Column("REGISTERED", &["/registered_at"]),
];

pub(super) fn worker(session: &Session, command: WorkerCommand) -> Done<Exit> {
    let act = |worker: &str, verb: &str, done: &str| {
        let answer = session.server.post(&format!("/api/workers/{}/{verb}", segment(worker)), None)?;
        Ok(session.show(&answer, |_| format!("Worker {worker} {done}.")))
    };
    match command {
        WorkerCommand::Ls => {
            let answer = session.server.list("/api/workers", &Query::new(), LIMIT)?;
            let nothing = "No workers. Start one with `tidemill executor`.";
            Ok(session.show(&answer, |answer| render::list(answer, WORKERS, nothing)))
        }
        WorkerCommand::Show { worker } => {
            let answer = session.server.get(&format!("/api/workers/{}", segment(&worker)), &[])?;
            Ok(session.show(&answer, |worker| render::fields(worker, &[])))
        }
        WorkerCommand::Drain { worker } => act(&worker, "drain", "takes no new work"),
        WorkerCommand::Resume { worker } => act(&worker, "resume", "takes work again"),
    }
}

const GROUPS: &[Column] = &[
    Column("ID", &["/id"]),
    Column("NAME", &["/name"]),
    Column("SHARD", &["/shard"]),
    Column("WORKER KEY", &["/worker_key"]),
];

pub(super) fn group(session: &Session, command: GroupCommand) -> Done<Exit> {
    match command {
        GroupCommand::Ls => {
            let answer = session.server.get("/api/groups", &[])?;
            Ok(session.show(&answer, |answer| render::list(answer, GROUPS, "No groups.")))
        }
        GroupCommand::Apply { name, worker_key, settings } => {
            let worker_key = match worker_key {
                Some(key) => key,
                None => keys::public_half(&session.settings.keys()?.group_private(&name)?)?,
            };
            let settings = match settings {
                Some(text) => serde_json::from_str(&text)
                    .map_err(|error| Failure::bad_input(format!("--settings: {text:?}: {error}")))?,
                None => settings_of(session, &name)?,
            };
            let body = json!({ "name": name, "worker_key": worker_key, "settings": settings });
            let answer = session.server.post("/api/groups", Some(&body))?;
            Ok(write::show(session, &answer, |answer| {
                format!("Group {name} defined, number {}.", render::one_line(&answer["id"]))
            }))
        }
    }
}

const FREEZES: &[Column] = &[
    Column("GROUP", &["/group"]),
    Column("LATEST LOGICAL TIME", &["/latest"]),
    Column("BY", &["/frozen_by"]),
    Column("SINCE", &["/frozen_at"]),
    Column("REASON", &["/reason"]),
];

pub(super) fn freeze(session: &Session, command: FreezeCommand) -> Done<Exit> {
    let what = |group: &Option<String>| match group {
        Some(group) => format!("Group {group}"),
        None => "Everything".to_owned(),
    };
    let scope = |group: &Option<String>| match group {
        Some(group) => format!("/api/freezes/{}", segment(group)),
        None => "/api/freezes/*".to_owned(),
    };
    match command {
        FreezeCommand::Ls => {
            let answer = session.server.get("/api/freezes", &[])?;
            Ok(session.show(&answer, |answer| render::list(answer, FREEZES, "Nothing is frozen.")))
        }
        FreezeCommand::Set { group, latest, reason } => {
            let body = json!({ "latest": latest, "reason": reason });
            let answer = session.server.write(Method::Put, &scope(&group), Some(&body), None)?;
            Ok(write::show(session, &answer, |_| format!("{} is frozen.", what(&group))))
        }
        FreezeCommand::Lift { group, reason } => {
            let path = format!("{}?reason={}", scope(&group), segment(&reason));
            let answer = session.server.write(Method::Delete, &path, None, None)?;
            Ok(write::show(session, &answer, |_| format!("{} is not frozen any more.", what(&group))))
        }
    }
}

/// The settings that the group has; those of a new one are the defaults.
fn settings_of(session: &Session, name: &str) -> Done<Value> {
    let groups = session.server.get("/api/groups", &[])?;
    let groups = groups.as_array().or_else(|| groups["items"].as_array()).cloned().unwrap_or_default();
    let known = groups.into_iter().find(|group| group["name"] == name);
    Ok(known.map_or_else(|| json!({}), |group| group["settings"].clone()))
}

const KEYS: &[Column] = &[
    Column("APP", &["/app"]),
    Column("ROLE", &["/role"]),
    Column("GROUPS", &["/groups"]),
    Column("RUN AS", &["/run_as"]),
    Column("DEFINED", &["/defined_at"]),
];

pub(super) fn key(session: &Session, command: KeyCommand) -> Done<Exit> {
    match command {
        KeyCommand::Ls => {
            let answer = session.server.get("/api/keys", &[])?;
            Ok(session.show(&answer, |answer| render::list(answer, KEYS, "No keys.")))
        }
        KeyCommand::Apply { app, role, groups, run_as, operator } => {
            let secret = secret::draw::<24>();
            let body = json!({ "app": app, "secret": secret, "role": word(&role), "groups": groups, "run_as": run_as });
            let mut answer = match operator {
                true => session.with_operator_key()?.post("/api/admin/keys", Some(&body))?,
                false => session.server.post("/api/keys", Some(&body))?,
            };
            if let Value::Object(fields) = &mut answer {
                fields.insert("key".to_owned(), json!(format!("{app}:{secret}")));
            }
            Ok(session.show(&answer, |_| format!("{app}:{secret}\nKeep it: only its hash is on record.")))
        }
        KeyCommand::Delete { app } => {
            let path = format!("/api/keys/{}", segment(&app));
            let answer = session.server.write(Method::Delete, &path, None, None)?;
            Ok(session.show(&answer, |_| format!("Key {app} is deleted.")))
        }
    }
}

pub(super) fn set_time(session: &Session, partition: u32, at: tidemill_model::Timestamp) -> Done<Exit> {
    let path = format!("/api/admin/partitions/{partition}/set-time");
    let answer = session.server.post(&path, Some(&json!({ "at": at })))?;
    Ok(session.show(&answer, |_| format!("Partition {partition} goes on at {at}.")))
}

const PARTITIONS: &[Column] = &[
    Column("PARTITION", &["/partition"]),
    Column("OWNER", &["/owner"]),
    Column("EPOCH", &["/epoch"]),
    Column("JOURNAL END", &["/journal_end"]),
    Column("PROJECTED", &["/projected"]),
    Column("LAG", &["/lag_records"]),
    Column("VOID", &["/void_records"]),
];

const SINKS: &[Column] = &[
    Column("SINK", &["/sink"]),
    Column("PARTITION", &["/partition"]),
    Column("STORED", &["/stored"]),
    Column("LAG", &["/lag_records"]),
    Column("CHANGES", &["/changes"]),
    Column("NOTED AT", &["/noted_at"]),
    Column("ERROR", &["/error"]),
];

/// Each partition of each sink, where there is any.
fn sinks(answer: &Value) -> String {
    let mut rows = Vec::new();
    for sink in answer["sinks"].as_array().into_iter().flatten() {
        for partition in sink["partitions"].as_array().into_iter().flatten() {
            let mut row = partition.clone();
            row["sink"] = sink["sink"].clone();
            rows.push(row);
        }
    }
    format!("\n\n{}", render::list(&json!({ "items": rows }), SINKS, "No sinks."))
}

pub(super) fn status(session: &Session) -> Done<Exit> {
    let answer = session.server.get("/api/status", &[])?;
    Ok(session.show(&answer, |answer| {
        let partitions = json!({ "items": answer["partitions"] });
        let rest = render::fields(answer, &["partitions", "sinks"]);
        let sinks = answer["sinks"].as_array().map(|_| sinks(answer)).unwrap_or_default();
        format!("{rest}\n{}{sinks}", render::list(&partitions, PARTITIONS, "No partitions."))
    }))
}
