//! GEN-1: the paths that a new batch makes are those of its definition, resolved a second time as far as their templates
//! are understood here: parameters, and the fields of the logical time, moved or not. And which batches may fail at their
//! start, for their templates cannot be resolved: a value that a parent did not pass on (BYD-20), a parameter by hand that
//! names another one, a time out of range, a text that becomes too long.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, civil};
use tidemill_model::{BatchId, DataPath, JobDefinition, MAX_PATH_BYTES, Timestamp};

use super::Shard;
use super::job::Version;
use crate::{At, Invariant};

type Parameters = BTreeMap<String, String>;

/// Why a text has no value.
enum Cannot {
    /// It never has one: the path stays as it is written.
    Resolve,
    /// It may have one, which is not understood here.
    Tell,
}

impl Version {
    /// Each of its paths, in their order; nothing for one that is not understood.
    fn outputs(&self, time: Timestamp, own: &Parameters) -> Vec<Option<DataPath>> {
        let mut parameters = self.spec().parameters.clone();
        parameters.extend(own.iter().map(|(name, text)| (name.clone(), text.clone())));
        let resolve = |text: &str| {
            let is_named = |name: &&String| text.contains(&format!("${{param.{name}}}"));
            let named = parameters.iter().filter(|(name, _)| is_named(name));
            let inner = |(name, text): (&String, &String)| {
                Ok((name.clone(), self.text(text, time, &Parameters::new())?))
            };
            let parameters: Parameters = named.map(inner).collect::<Result<_, _>>()?;
            self.text(text, time, &parameters)
        };
        let of_path = |written: DataPath| {
            let path = match written.path.contains("${").then(|| resolve(&written.path)) {
                None | Some(Err(Cannot::Resolve)) => written.path.clone(),
                Some(Err(Cannot::Tell)) => return None,
                Some(Ok(path)) if path.len() > MAX_PATH_BYTES => written.path.clone(),
                Some(Ok(path)) => path,
            };
            Some(DataPath { path, ..written })
        };
        self.spec().outputs.iter().map(DataPath::from).map(of_path).collect()
    }

    fn text(&self, text: &str, time: Timestamp, parameters: &Parameters) -> Result<String, Cannot> {
        if text.contains("$${") {
            return Err(Cannot::Tell);
        }
        let (mut resolved, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            let (placeholder, after) = after.split_once('}').ok_or(Cannot::Tell)?;
            resolved.push_str(before);
            resolved.push_str(&match placeholder.strip_prefix("param.") {
                Some(name) => parameters.get(name).ok_or(Cannot::Resolve)?.clone(),
                None => self.time(placeholder, time)?,
            });
            rest = after;
        }
        resolved.push_str(rest);
        Ok(resolved)
    }

    fn time(&self, placeholder: &str, time: Timestamp) -> Result<String, Cannot> {
        let (pattern, moved) = match placeholder.rfind(['+', '-']) {
            Some(at) if placeholder[at + 1..].starts_with(|c: char| c.is_ascii_digit()) => {
                placeholder.split_at(at)
            }
            Some(_) | None => (placeholder, ""),
        };
        let zone = self.zone.as_ref().ok_or(Cannot::Tell)?;
        let local =
            if moved.is_empty() { zone.to_datetime(time.jiff()) } else { moved_by(zone, time, moved)? };
        write(pattern, local)
    }
}

/// The local time at such a distance, as `-1d`.
fn moved_by(zone: &TimeZone, time: Timestamp, moved: &str) -> Result<civil::DateTime, Cannot> {
    let unit = moved.chars().next_back().ok_or(Cannot::Tell)?;
    let number: i32 = moved[..moved.len() - unit.len_utf8()].parse().map_err(|_| Cannot::Tell)?;
    let span = match unit {
        'M' => Span::new().try_months(number),
        'w' => Span::new().try_weeks(number),
        'd' => Span::new().try_days(number),
        'h' | 'm' => {
            let minutes = i64::from(number) * if unit == 'h' { 60 } else { 1 };
            let time = time.checked_add(SignedDuration::from_mins(minutes)).map_err(|_| Cannot::Resolve)?;
            return Ok(zone.to_datetime(time.jiff()));
        }
        _ => return Err(Cannot::Tell),
    };
    let local = span.and_then(|span| zone.to_datetime(time.jiff()).checked_add(span));
    // A local time that is left out on that day is the next one that is there.
    let there = local.and_then(|local| local.to_zoned(zone.clone()));
    there.map(|time| time.datetime()).map_err(|_| Cannot::Resolve)
}

fn write(pattern: &str, time: civil::DateTime) -> Result<String, Cannot> {
    let (mut written, mut rest) = (String::new(), pattern);
    while let Some(letter) = rest.chars().next() {
        let run = rest.find(|c| c != letter).unwrap_or(rest.len());
        written.push_str(&match &rest[..run] {
            "yyyy" => format!("{:04}", time.year()),
            "MM" => format!("{:02}", time.month()),
            "dd" => format!("{:02}", time.day()),
            "HH" => format!("{:02}", time.hour()),
            "mm" => format!("{:02}", time.minute()),
            "ss" => format!("{:02}", time.second()),
            text if "-_/:. T".contains(letter) => text.to_owned(),
            _ => return Err(Cannot::Tell),
        });
        rest = &rest[run..];
    }
    Ok(written)
}

impl Shard {
    /// `outputs_as_declared`. A batch that has none on record is from before they were.
    pub(super) fn outputs_are_as_declared(
        at: &At<'_>,
        id: BatchId,
        of: Option<&Version>,
        (time, own, given): (Timestamp, &Parameters, &[DataPath]),
    ) {
        let Some(of) = of.filter(|_| !given.is_empty()) else { return };
        let expected = of.outputs(time, own);
        let is_known = expected.iter().all(Option::is_some);
        let mut known: Vec<&DataPath> = Vec::new();
        for path in expected.iter().flatten() {
            if !known.contains(&path) {
                known.push(path);
            }
        }
        let is_so = if is_known {
            given.iter().eq(known.iter().copied())
        } else {
            given.len() <= expected.len() && known.iter().all(|path| given.contains(path))
        };
        if !is_so {
            let paths = |paths: Vec<&DataPath>| {
                let paths: Vec<String> = paths.iter().map(|path| path.path.clone()).collect();
                paths.join(", ")
            };
            let why = format!(
                "batch {id} makes {} for {time}, and its job declares {}",
                paths(given.iter().collect()),
                paths(known)
            );
            at.breaks(Invariant::OutputsAsDeclared, why);
        }
    }
}

/// Placeholders that can always be resolved, and to a short text.
const SURE: [&str; 9] =
    ["logical_time", "epoch", "epoch_ms", "batch_id", "run", "attempt", "job", "priority", "version"];
/// So many of those, in all texts of a job together, still become nothing that is too long.
const FEW: usize = 100;

/// Whether this text of a definition, which was looked at when it was applied, may be impossible to resolve.
fn may_fail(text: &str) -> bool {
    let is_sure = |rest: &str| SURE.contains(&rest.split('}').next().unwrap_or_default());
    !text.split("${").skip(1).all(is_sure)
}

/// Where a definition has templates that may fail.
#[derive(Debug)]
pub(super) struct Templates {
    /// In what every batch runs.
    always: bool,
    /// In these parameters, unless a batch has its own in their place.
    parameters: BTreeSet<String>,
}

impl Templates {
    pub(super) fn of(definition: &JobDefinition) -> Self {
        let texts: Vec<&str> = definition.spec.templates().map(|(_, text)| text).collect();
        let parameters = definition.spec.parameters.values().map(String::as_str);
        let placeholders = texts.iter().copied().chain(parameters).map(|text| text.matches("${").count());
        let always = placeholders.sum::<usize>() > FEW || texts.into_iter().any(may_fail);
        let parameters = definition.spec.parameters.iter().filter(|(_, text)| may_fail(text));
        Self { always, parameters: parameters.map(|(name, _)| name.clone()).collect() }
    }
}

/// A batch's own parameters, and which of them are templates: nobody looked at those.
#[derive(Debug)]
pub(super) struct OwnParameters(BTreeMap<String, bool>);

impl OwnParameters {
    pub(super) fn of(parameters: &BTreeMap<String, String>) -> Self {
        Self(parameters.iter().map(|(name, text)| (name.clone(), text.contains("${"))).collect())
    }

    /// Whether a batch with these may fail at its start.
    pub(super) fn may_fail(&self, job: &Templates) -> bool {
        job.always
            || self.0.values().any(|is_template| *is_template)
            || job.parameters.iter().any(|name| !self.0.contains_key(name))
    }
}
