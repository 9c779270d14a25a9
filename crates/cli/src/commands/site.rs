//! `tidemill worker …`, `group …`, `freeze …`, `key …`, `dead-letters …`, `status`, and the clocks of partitions.

use serde_json::{Value, json};
use tidemill_client::{Method, segment};
use tidemill_model::Timestamp;

use super::{Session, write};
use crate::args::{
    DeadLetterCommand, FreezeCommand, GroupCommand, KeyCommand, LevelCommand, WorkerCommand, word,
};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::render;
use crate::secret;
use crate::server::Query;

const LIMIT: usize = 10_000;

const DRAINED: &str = "host, group, running, BY: drained_by, SINCE: drained_at, EMPTY: emptied_at, reason";
const WORKERS: &str = "id, group, state, host, address, slots, drained, REGISTERED: registered_at";

pub(super) fn worker(session: &Session<'_>, command: WorkerCommand) -> Done<Exit> {
    let of = |worker: &str| format!("/api/workers/{}", segment(worker));
    let act = |worker: &str, verb: &str, query: &[(&str, Option<String>)], done: &str| {
        let part =
            |(name, value): &(&str, Option<String>)| Some(format!("{name}={}", segment(value.as_ref()?)));
        let query: Vec<String> = query.iter().filter_map(part).collect();
        let path = format!("{}/{verb}?{}", of(worker), query.join("&"));
        write::post(session, path.trim_end_matches('?'), None, format!("{worker} {done}."))
    };
    match command {
        WorkerCommand::Ls => {
            let answer = session.server.list("/api/workers", &Query::new(), LIMIT)?;
            session.show_list(&answer, WORKERS, "No workers. Start one with `tidemill executor`.")
        }
        WorkerCommand::Show { worker } => session.show_fields(&of(&worker)),
        WorkerCommand::Drain { worker, reason, group } => {
            act(&worker, "drain", &[("reason", reason), ("group", group)], "takes no new work")
        }
        WorkerCommand::Resume { worker, group } => {
            act(&worker, "resume", &[("group", group)], "takes work again")
        }
        WorkerCommand::Drained => {
            let answer = session.server.get("/api/drained-hosts", &[])?;
            session.show_list(&answer, DRAINED, "No host is drained.")
        }
        WorkerCommand::Vouch { worker, reason } => {
            let (path, body) = (format!("{}/vouch", of(&worker)), json!({ "reason": reason }));
            write::post(session, &path, Some(&body), format!("Worker {worker}: what it held ends."))
        }
        WorkerCommand::EndStray { worker, attempt, reason } => {
            let body = json!({ "attempt": attempt, "reason": reason });
            let path = format!("{}/end-stray", of(&worker));
            write::post(session, &path, Some(&body), format!("Worker {worker}: attempt {attempt} is to end."))
        }
    }
}

const GROUPS: &str = "id, name, shard, worker_key";

pub(super) fn group(session: &Session<'_>, command: GroupCommand) -> Done<Exit> {
    match command {
        GroupCommand::Ls => session.show_list(&session.server.get("/api/groups", &[])?, GROUPS, "No groups."),
        GroupCommand::Apply { name, worker_key, settings } => {
            let worker_key = match worker_key {
                Some(key) => key,
                None => session.host.worker_key(&session.settings.keys_dir, &name)?,
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

/// The settings that the group has; those of a new one are the defaults.
fn settings_of(session: &Session<'_>, name: &str) -> Done<Value> {
    let groups = session.server.get("/api/groups", &[])?;
    let groups = groups.as_array().or_else(|| groups["items"].as_array()).cloned().unwrap_or_default();
    let known = groups.into_iter().find(|group| group["name"] == name);
    Ok(known.map_or_else(|| json!({}), |group| group["settings"].clone()))
}

const FREEZES: &str = "group, LATEST LOGICAL TIME: latest, BY: frozen_by, SINCE: frozen_at, reason";

pub(super) fn freeze(session: &Session<'_>, command: FreezeCommand) -> Done<Exit> {
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
            session.show_list(&session.server.get("/api/freezes", &[])?, FREEZES, "Nothing is frozen.")
        }
        FreezeCommand::Set { group, latest, reason } => {
            let body = json!({ "latest": latest, "reason": reason });
            let answer = session.server.write(Method::Put, &scope(&group), Some(&body), None)?;
            Ok(write::show(session, &answer, |_| format!("{} is frozen.", what(&group))))
        }
        FreezeCommand::Lift { group, reason } => {
            let path = format!("{}?reason={}", scope(&group), segment(&reason));
            write::delete(session, &path, format!("{} is not frozen any more.", what(&group)))
        }
    }
}

/// The key that asks, and what it may.
pub(super) fn whoami(session: &Session<'_>) -> Done<Exit> {
    let answer = session.server.get("/api/me/rights", &[])?;
    Ok(session.show(&answer, |answer| {
        let of_key = render::fields(answer, &["calls"]);
        format!("{of_key}{}", render::section("calls", &answer["calls"], "call, allowed, reason"))
    }))
}

const KEYS: &str = "app, role, may, groups, department, run_as, DEFINED: defined_at";

pub(super) fn key(session: &Session<'_>, command: KeyCommand) -> Done<Exit> {
    match command {
        KeyCommand::Ls => session.show_list(&session.server.get("/api/keys", &[])?, KEYS, "No keys."),
        KeyCommand::Apply { app, role, groups, run_as, may, department, operator } => {
            let secret = secret::draw::<24>();
            let body = json!({
                "app": app, "secret": secret, "role": word(&role), "groups": groups, "run_as": run_as, "may": may,
                "department": department,
            });
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
            write::delete(session, &format!("/api/keys/{}", segment(&app)), format!("Key {app} is deleted."))
        }
    }
}

const PROCESSES: &str = "READS LEVEL: reads, id, host, roles, version";

pub(super) fn level(session: &Session<'_>, command: LevelCommand) -> Done<Exit> {
    match command {
        LevelCommand::Show => {
            let answer = session.server.get("/api/level", &[])?;
            Ok(session.show(&answer, |answer| {
                let rest = render::fields(answer, &["processes"]);
                let none = "No process is registered.";
                format!("{rest}\n{}", render::items(&answer["processes"], PROCESSES, none))
            }))
        }
        LevelCommand::Hold { reason } => {
            let body = json!({ "reason": reason });
            let answer = session.server.write(Method::Put, "/api/level/hold", Some(&body), None)?;
            Ok(write::show(session, &answer, |_| "The level is held.".to_owned()))
        }
        LevelCommand::Release { reason } => {
            let path = format!("/api/level/hold?reason={}", segment(&reason));
            write::delete(session, &path, "The level is not held any more.".to_owned())
        }
    }
}

const LETTERS: &str = "id, kind, subject, SINCE: recorded_at, open, reason";

pub(super) fn dead_letter(session: &Session<'_>, command: DeadLetterCommand) -> Done<Exit> {
    match command {
        DeadLetterCommand::Ls { kind, all, limit } => {
            let mut query = Query::new();
            query.extend(kind.map(|kind| ("kind", word(&kind))));
            query.extend((!all).then(|| ("open", "true".to_owned())));
            let answer = session.server.list("/api/dead-letters", &query, limit)?;
            session.show_list(&answer, LETTERS, "No dead letters.")
        }
        DeadLetterCommand::Show { id } => session.show_fields(&format!("/api/dead-letters/{}", segment(&id))),
        DeadLetterCommand::Redrive { id } => {
            let path = format!("/api/dead-letters/{}/redrive", segment(&id));
            let answer = session.server.post(&path, None)?;
            Ok(session.show(&answer, |answer| render::one_line(&answer["message"])))
        }
    }
}

const PARTITIONS: &str =
    "partition, owner, epoch, journal_end, projected, LAG: lag_records, lag_ms, VOID: void_records";

const TOPICS: &str = "topic, records, bytes, PER DAY: bytes_per_day";

const ARCHIVED: &str = "partition, LOG BEGINS: log_begins, ARCHIVED TO: archived_to, segments, bytes";

const SNAPSHOTS: &str =
    "partition, NEWEST: newest_at, RECORD: newest_offset, BYTES: newest_bytes, snapshots, ALL BYTES: bytes";

const SINKS: &str = "sink, partition, stored, LAG: lag_records, changes, noted_at, error";

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
    format!("\n\n{}", render::items(&rows.into(), SINKS, "No sinks."))
}

/// What log and archive take, as far as it is known.
fn storage(storage: &Value) -> String {
    let mut text = String::new();
    let known = |field: &str| storage[field].as_u64();
    if let Some((bytes, free)) = known("log_bytes").zip(known("free_bytes")) {
        text.push_str(&format!("\n\nThe log takes {bytes} bytes, {free} of them free for new records.\n"));
        text.push_str(&render::items(&storage["topics"], TOPICS, "No topics."));
    }
    let archive = &storage["archive"];
    if archive.is_object() {
        let place = render::one_line(&archive["place"]);
        text.push_str(&format!("\n\nThe archive is {place}.\n"));
        text.push_str(&render::items(&archive["partitions"], ARCHIVED, "No journals."));
        if let Some(error) = archive["error"].as_str() {
            text.push_str(&format!("\nIt cannot be used at the moment: {error}"));
        }
    }
    let snapshots = &storage["snapshots"];
    if snapshots.is_object() {
        let place = render::one_line(&snapshots["place"]);
        text.push_str(&format!("\n\nSnapshots are in {place}.\n"));
        text.push_str(&render::items(&snapshots["partitions"], SNAPSHOTS, "No snapshots."));
        if let Some(error) = snapshots["error"].as_str() {
            text.push_str(&format!("\nThey cannot be listed at the moment: {error}"));
        }
    }
    text
}

pub(super) fn status(session: &Session<'_>) -> Done<Exit> {
    let answer = session.server.get("/api/status", &[])?;
    Ok(session.show(&answer, |answer| {
        let rest = render::fields(answer, &["partitions", "sinks", "storage"]);
        let sinks = answer["sinks"].as_array().map(|_| sinks(answer)).unwrap_or_default();
        let storage = storage(&answer["storage"]);
        let partitions = render::items(&answer["partitions"], PARTITIONS, "No partitions.");
        format!("{rest}\n{partitions}{sinks}{storage}")
    }))
}

pub(super) fn set_time(session: &Session<'_>, partition: u32, at: Timestamp) -> Done<Exit> {
    let path = format!("/api/admin/partitions/{partition}/set-time");
    let done = format!("Partition {partition} goes on at {at}.");
    write::post(session, &path, Some(&json!({ "at": at })), done)
}
