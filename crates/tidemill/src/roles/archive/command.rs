//! `tidemill archive …`: archives once, and looks at what is archived.

use crossbeam_channel::{Receiver, TryRecvError};
use serde_json::{Value, json};
use tidemill_archive::{Archive, ArchivedLog, Catalog, Error, Footer, Found, SegmentName, When};
use tidemill_cli::{Done, Exit, Failure, Global, output, render};
use tidemill_log::{Head, Readers, Topic};

use super::{archiver, failed, looked_at};
use crate::cli::ArchiveCommand;
use crate::config::{LogBackend, Settings};
use crate::roles::log;

/// Does what the command line says.
pub(crate) fn command(
    global: &Global,
    settings: &Settings,
    command: &ArchiveCommand,
    stop: &Receiver<()>,
) -> Done<Exit> {
    if settings.archive.place.is_none() {
        return Err(Failure::bad_input("archive.place: there is no archive")
            .hint("set it to the directory, or s3://bucket/prefix, where old records of journals go"));
    }
    match command {
        ArchiveCommand::Run => run(global, settings, stop),
        ArchiveCommand::Ls { partition } => ls(global, &*looked_at(settings)?, *partition),
        ArchiveCommand::Show { segment } => show(global, &*looked_at(settings)?, segment),
        ArchiveCommand::Verify => verify(global, &*looked_at(settings)?),
    }
}

fn archive_of(log: &ArchivedLog) -> Done<&Archive> {
    log.archive().map(|archive| &**archive).ok_or_else(|| Failure::bad_input("there is no archive"))
}

fn run(global: &Global, settings: &Settings, stop: &Receiver<()>) -> Done<Exit> {
    let log = match settings.log.backend {
        LogBackend::Kafka => log::shared_with_archive(settings)?,
        LogBackend::Embedded => log::embedded(settings)?,
    };
    let partitions: Vec<u32> = (0..log.partitions(Topic::Journal)).collect();
    let is_stopped = || !matches!(stop.try_recv(), Err(TryRecvError::Empty));
    let Some(mut archiver) = archiver(settings, &log) else { return Ok(Exit::Success) };
    let cycle = archiver.cycle(&partitions, When::Now, &is_stopped).map_err(|error| failed(&error))?;
    let released: Vec<Value> = cycle
        .released
        .iter()
        .map(|(partition, begins)| json!({ "partition": partition, "log_begins": begins }))
        .collect();
    let answer = json!({ "segments": cycle.segments, "bytes": cycle.bytes, "released": released });
    output::answer(global.output, &answer, |_| {
        let mut text = format!("{} segments are archived, {} bytes.", cycle.segments, cycle.bytes);
        for (partition, begins) in &cycle.released {
            text.push_str(&format!(
                "\nThe journal of partition {partition} begins with record {begins} in the log."
            ));
        }
        text
    });
    Ok(Exit::Success)
}

fn catalogs(log: &ArchivedLog) -> Done<Vec<(u32, std::sync::Arc<Catalog>)>> {
    let archive = archive_of(log)?;
    let partitions = 0..log.partitions(Topic::Journal);
    let catalogs = partitions.map(|partition| Ok((partition, archive.catalog(partition)?)));
    catalogs.collect::<Result<_, Error>>().map_err(|error| failed(&error))
}

fn ls(global: &Global, log: &ArchivedLog, wanted: Option<u32>) -> Done<Exit> {
    let rows: Vec<Value> = catalogs(log)?
        .iter()
        .filter(|(partition, _)| wanted.is_none_or(|wanted| wanted == *partition))
        .flat_map(|(_, catalog)| catalog.segments())
        .map(|found| {
            let SegmentName { partition, first, next, .. } = &found.name;
            json!({
                "segment": found.name.to_string(), "partition": partition, "first": first, "next": next,
                "bytes": found.bytes,
            })
        })
        .collect();
    let answer = json!({ "segments": rows });
    output::answer(global.output, &answer, |answer| {
        let row = |row: &Value| ["segment", "bytes"].map(|field| render::one_line(&row[field])).to_vec();
        let rows: Vec<_> = answer["segments"].as_array().into_iter().flatten().map(row).collect();
        match rows.is_empty() {
            true => "No segments.".to_owned(),
            false => render::table(&["SEGMENT", "BYTES"], rows),
        }
    });
    Ok(Exit::Success)
}

fn show(global: &Global, log: &ArchivedLog, segment: &str) -> Done<Exit> {
    let missing = || {
        Failure::new(Exit::NotFound, format!("the archive has no segment {segment:?} of this log"))
            .hint("`tidemill archive ls` lists the segments")
    };
    let name =
        SegmentName::parse_whole(segment).filter(|name| &name.log_id == log.log_id()).ok_or_else(missing)?;
    let archive = archive_of(log)?;
    let catalog = archive.catalog(name.partition).map_err(|error| failed(&error))?;
    let found = catalog.segments().find(|found| found.name == name).ok_or_else(missing)?;
    let footer = archive.footer(found).map_err(|error| failed(&error))?;
    let mut answer = serde_json::to_value(&footer).unwrap_or_default();
    answer["blocks"] = json!(footer.blocks.len());
    answer["bytes"] = json!(found.bytes);
    output::answer(global.output, &answer, |answer| {
        let fields = answer.as_object().into_iter().flatten();
        let rows = fields.map(|(name, value)| vec![name.clone(), render::one_line(value)]);
        render::table(&["FIELD", "VALUE"], rows)
    });
    Ok(Exit::Success)
}

/// What was read, and what is wrong.
#[derive(Default)]
struct Verified {
    segments: u64,
    records: u64,
    findings: Vec<String>,
}

fn verify(global: &Global, log: &ArchivedLog) -> Done<Exit> {
    let mut verified = Verified::default();
    for (partition, catalog) in catalogs(log)? {
        let range = log.inner().range(Topic::Journal, partition);
        let range = range.map_err(|error| Failure::caused("the log cannot be read", &error))?;
        follow(archive_of(log)?, partition, &catalog, range.start, &mut verified);
    }
    let Verified { segments, records, findings } = &verified;
    let answer = json!({ "segments": segments, "records": records, "findings": findings });
    output::answer(global.output, &answer, |_| {
        let mut text = format!("{segments} segments with {records} records were read.\n");
        findings.iter().for_each(|finding| text.push_str(&format!("{finding}\n")));
        text.push_str(if findings.is_empty() { "No findings." } else { "Nothing was changed." });
        text
    });
    Ok(if findings.is_empty() { Exit::Success } else { Exit::RuleBroken })
}

/// Reads every segment of a journal; those that cover it have to be one chain, from the genesis to where the log begins.
fn follow(archive: &Archive, partition: u32, catalog: &Catalog, log_begins: u64, verified: &mut Verified) {
    let (mut next, mut chain): (u64, Option<Head>) = (0, None);
    let mut read = |found: &Found| -> Option<Footer> {
        match archive.verify(found) {
            Ok(footer) => {
                verified.segments += 1;
                verified.records += footer.records;
                Some(footer)
            }
            Err(error) => {
                verified.findings.push(Failure::caused(found.name.to_string(), &error).message);
                None
            }
        }
    };
    let mut broken = Vec::new();
    for found in catalog.segments() {
        let Some(footer) = read(found) else {
            // What comes after it is another finding only if something is wrong with it.
            (next, chain) = (next.max(found.name.next), None);
            continue;
        };
        if footer.first > next {
            broken.push(format!(
                "records {next} to {} of the journal of partition {partition} are in no segment",
                footer.first - 1
            ));
        } else if footer.first == next && chain.is_some() && footer.before != chain {
            broken.push(format!("{} does not go on where the segment before it ends", found.name));
        }
        if footer.next >= next {
            (next, chain) = (footer.next, footer.after);
        }
    }
    if next < log_begins {
        broken.push(format!(
            "records {next} to {} of the journal of partition {partition} are in no segment, and not in the log",
            log_begins - 1
        ));
    }
    verified.findings.extend(broken);
}
