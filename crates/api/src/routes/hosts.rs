//! EXE-9: hosts that are drained, by the id of one of their workers or by their own name, and what still runs there.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::Path;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Level, Permission, WorkerCommand, WorkerId};
use tidemill_store::rows::{DrainedHostRow, WorkerRow};
use tidemill_store::{Error, ReadTables as _, Tables};

use super::groups::{GROUP, REASON};
use super::level;
use super::requests::{Reader, Writer};
use crate::Problem;
use crate::app::shard_in;
use crate::object::Object;
use crate::params::Params;
use crate::view::{Answered, List, View, Written};

/// A drained host.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DrainedHostView {
    #[serde(flatten)]
    row: View<DrainedHostRow>,
    /// How many attempts still run there.
    running: u64,
}

/// Hosts that are drained, of what the key reaches.
pub(crate) async fn drained(by: Reader, params: Params) -> Answered<List<DrainedHostView>> {
    let group = params.get(GROUP)?;
    let hosts = by.app.read(|tables| with_running(tables)).await?;
    let reached = hosts.into_iter().filter(|(row, _)| {
        by.caller.reaches(&row.group_name) && group.as_deref().is_none_or(|group| *group == *row.group_name)
    });
    Ok(Json(List::all(reached.map(|(row, running)| DrainedHostView { row: View(row), running }))))
}

fn with_running(tables: &dyn Tables) -> Result<Vec<(DrainedHostRow, u64)>, Error> {
    let mut found = Vec::new();
    for row in tables.drained_hosts()? {
        let mut running = 0;
        for worker in tables.workers_on(&row.host)? {
            if worker.shard == row.shard && is_there(&worker) {
                running += tables.running_on(&worker.id)?.len() as u64;
            }
        }
        found.push((row, running));
    }
    Ok(found)
}

/// Of the others, nothing runs any more.
fn is_there(worker: &WorkerRow) -> bool {
    matches!(&*worker.state, "live" | "leaving" | "lost")
}

pub(crate) async fn drain(by: Writer, Path(id): Path<String>, params: Params) -> Answered<Written> {
    let reason = params.get(REASON)?.unwrap_or_default();
    let named = Named::find(&by, &id, params.get(GROUP)?).await?;
    let command = match named.worker {
        // Its owner drains the host, where that is recorded.
        Some(worker) if reason.is_empty() => WorkerCommand::Drain { worker },
        _ => {
            level::allows(&by.app, Level::new(3)).await?;
            WorkerCommand::DrainHost { host: named.host, reason }
        }
    };
    let right = by.caller.may(Permission::Operate, &named.object)?;
    by.written(right, shard_in(named.shard), command).await
}

pub(crate) async fn resume(by: Writer, Path(id): Path<String>, params: Params) -> Answered<Written> {
    let named = Named::find(&by, &id, params.get(GROUP)?).await?;
    let command = match named.worker {
        Some(worker) => WorkerCommand::Resume { worker },
        None => {
            level::allows(&by.app, Level::new(3)).await?;
            WorkerCommand::ResumeHost { host: named.host }
        }
    };
    let right = by.caller.may(Permission::Operate, &named.object)?;
    by.written(right, shard_in(named.shard), command).await
}

/// The host that a call names.
struct Named {
    host: String,
    object: Object,
    shard: i64,
    /// The worker whose id was given.
    worker: Option<WorkerId>,
}

impl Named {
    /// By a worker's id, else by the host's name; a host of several groups has to be named with one of them.
    async fn find(by: &Writer, id: &str, group: Option<String>) -> Result<Self, Problem> {
        let name = id.to_owned();
        let found = by.app.read(move |tables| {
            let worker = tables.worker(&name)?.into_iter().next();
            if worker.is_some() {
                return Ok((worker, BTreeMap::new()));
            }
            let drained = tables.drained_hosts()?.into_iter().filter(|row| *row.host == *name);
            let drained = drained.map(|row| (row.group_name.to_string(), row.shard));
            let here =
                tables.workers_on(&name)?.into_iter().map(|row| (row.group_name.to_string(), row.shard));
            Ok((None, here.chain(drained).collect::<BTreeMap<_, _>>()))
        });
        let (worker, mut groups) = found.await?;
        if let Some(row) = worker {
            let (host, object) =
                (row.host.to_string(), Object::new("worker or host", id, Arc::clone(&row.group_name)));
            return Ok(Self { host, object, shard: row.shard, worker: Some(WorkerId::new(&*row.id)) });
        }
        groups.retain(|name, _| by.caller.reaches(name) && group.as_ref().is_none_or(|group| group == name));
        let mut groups = groups.into_iter();
        match (groups.next(), groups.next()) {
            (Some((group, shard)), None) => {
                let object = Object::new("worker or host", id, group);
                Ok(Self { host: id.to_owned(), object, shard, worker: None })
            }
            (None, _) => Err(Problem::unknown("worker or host", id)),
            (Some((one, _)), Some((other, _))) => {
                let rule = format!("works for groups {one}, {other} and perhaps more: name one with `group`");
                Err(Problem::field("id", id, rule))
            }
        }
    }
}
