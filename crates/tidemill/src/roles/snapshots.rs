//! Snapshots of partitions: where they are, and `tidemill snapshots …`.

use serde_json::{Value, json};
use tidemill_cli::{Done, Exit, Failure, Global, output, render};
use tidemill_dispatcher::Snapshotting;
use tidemill_log::{Readers, Topic};
use tidemill_snapshots::{Config, Error, Restored, SnapshotName, Snapshots, Until, restore};

use super::archive::looked_at;
use crate::cli::SnapshotsCommand;
use crate::config::{LogBackend, Settings};

/// The directory of snapshots in a data directory with the embedded log.
const DIRECTORY: &str = "snapshots";

/// The configuration, with the place that is meant.
fn config(settings: &Settings) -> Done<Config> {
    let default = match settings.log.backend {
        LogBackend::Kafka => None,
        LogBackend::Embedded => {
            let directory = std::path::absolute(settings.data_dir.join(DIRECTORY));
            let directory =
                directory.map_err(|error| Failure::caused("the data directory has no path", &error))?;
            Some(directory.display().to_string())
        }
    };
    Ok(settings.snapshots.clone().in_place(default.as_deref()))
}

/// The snapshots of a log, if there is a place for any.
pub(crate) fn of(settings: &Settings, log: &dyn Readers) -> Done<Option<Snapshots>> {
    Snapshots::open(&config(settings)?, log.log_id().clone()).map_err(|error| failed(&error))
}

/// What a dispatcher needs to take them.
pub(crate) fn taken(settings: &Settings, snapshots: Option<&Snapshots>) -> Done<Option<Snapshotting>> {
    let config = config(settings)?;
    Ok(snapshots.map(|snapshots| Snapshotting { snapshots: snapshots.clone(), config }))
}

fn failed(error: &Error) -> Failure {
    Failure::caused("snapshots cannot be used", error)
        .hint("set snapshots.place to an absolute directory or s3://bucket/prefix, or to `none`; nothing depends on them")
}

/// Does what the command line says. Nothing has to be stopped.
pub(crate) fn command(global: &Global, settings: &Settings, command: &SnapshotsCommand) -> Done<Exit> {
    let log = looked_at(settings)?;
    let Some(snapshots) = of(settings, &*log)? else {
        return Err(Failure::bad_input("snapshots.place: there are no snapshots")
            .hint("set it to an absolute directory or s3://bucket/prefix that all dispatchers reach"));
    };
    match command {
        SnapshotsCommand::Ls { partition } => ls(global, &*log, &snapshots, *partition),
        SnapshotsCommand::Check => check(global, settings, &*log, &snapshots),
    }
}

fn ls(global: &Global, log: &dyn Readers, snapshots: &Snapshots, wanted: Option<u32>) -> Done<Exit> {
    let mut rows = Vec::new();
    for partition in 0..log.partitions(Topic::Journal) {
        if wanted.is_some_and(|wanted| wanted != partition) {
            continue;
        }
        let listed = snapshots.list(partition).map_err(|error| failed(&error))?;
        rows.extend(listed.into_iter().map(|(name, bytes)| row(&name, bytes)));
    }
    let answer = json!({ "place": snapshots.place(), "snapshots": rows });
    output::answer(global.output, &answer, |answer| {
        let fields = ["snapshot", "at", "record", "bytes", "readable"];
        let row = |row: &Value| fields.map(|field| render::one_line(&row[field])).to_vec();
        let rows: Vec<_> = answer["snapshots"].as_array().into_iter().flatten().map(row).collect();
        match rows.is_empty() {
            true => "No snapshots.".to_owned(),
            false => render::table(&["SNAPSHOT", "AT", "RECORD", "BYTES", "READABLE"], rows),
        }
    });
    Ok(Exit::Success)
}

fn row(name: &SnapshotName, bytes: u64) -> Value {
    let ms = i64::try_from(name.latest_ms).unwrap_or(i64::MAX);
    json!({
        "snapshot": name.to_string(),
        "partition": name.partition,
        "record": name.offset,
        "at": tidemill_model::Timestamp::from_millisecond(ms).ok(),
        "bytes": bytes,
        "readable": name.is_readable(),
    })
}

/// With which snapshot each partition would begin, and why others are not used.
fn check(global: &Global, settings: &Settings, log: &dyn Readers, snapshots: &Snapshots) -> Done<Exit> {
    let (mut rows, mut refusals) = (Vec::new(), Vec::new());
    for partition in 0..log.partitions(Topic::Journal) {
        let reads = settings.process.level();
        let Restored { begun, refused, .. } = restore(log, Some(snapshots), partition, reads, Until::Named);
        rows.push(json!({
            "partition": partition,
            "snapshot": begun.as_ref().map(|begun| begun.name.to_string()),
            "bytes": begun.as_ref().map(|begun| begun.bytes),
            "took_ms": begun.as_ref().map(|begun| begun.took.as_millis() as u64),
        }));
        refusals.extend(
            refused.iter().map(
                |(name, refusal)| json!({ "snapshot": name.to_string(), "reason": refusal.to_string() }),
            ),
        );
    }
    let answer = json!({ "partitions": rows, "refused": refusals });
    output::answer(global.output, &answer, |answer| {
        let fields = ["partition", "snapshot", "bytes", "took_ms"];
        let row = |row: &Value| fields.map(|field| render::one_line(&row[field])).to_vec();
        let rows: Vec<_> = answer["partitions"].as_array().into_iter().flatten().map(row).collect();
        let mut text = render::table(&["PARTITION", "BEGINS WITH", "BYTES", "TOOK MS"], rows);
        for refused in answer["refused"].as_array().into_iter().flatten() {
            let field = |field: &str| render::one_line(&refused[field]);
            text.push_str(&format!("\n{} is not used: {}", field("snapshot"), field("reason")));
        }
        text
    });
    Ok(Exit::Success)
}
