//! GEN-1: the paths that a new batch makes are those of its definition, resolved a second time as far as their templates
//! are understood here: parameters, and the fields of the logical time, moved or not.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, civil};
use tidemill_model::{BatchId, DataPath, JobDefinition, MAX_PATH_BYTES, Timestamp};

use super::Shard;
use super::job::Version;
use crate::Invariant;
use crate::at::At;

type Parameters = BTreeMap<String, String>;

/// What the batches of a version make.
#[derive(Debug)]
pub(super) struct Outputs {
    paths: Vec<DataPath>,
    parameters: Parameters,
    /// Absent: it follows the schedule of its parents.
    zone: Option<TimeZone>,
}

/// Why a text has no value.
enum Cannot {
    /// It never has one: the path stays as it is written.
    Resolve,
    /// It may have one, which is not understood here.
    Tell,
}

impl Outputs {
    pub(super) fn of(definition: &JobDefinition) -> Option<Self> {
        let paths: Vec<DataPath> = definition.spec.outputs.iter().map(DataPath::from).collect();
        let zone = match definition.spec.schedule_spec() {
            Some(schedule) => TimeZone::get(&schedule.zone).ok(),
            None => definition.parents.is_empty().then_some(TimeZone::UTC),
        };
        let parameters = definition.spec.parameters.clone();
        (!paths.is_empty()).then_some(Self { paths, parameters, zone })
    }

    /// Each of its paths, in their order; nothing for one that is not understood.
    fn resolved(&self, time: Timestamp, own: &Parameters) -> Vec<Option<DataPath>> {
        let mut parameters = self.parameters.clone();
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
        let of_path = |written: &DataPath| {
            let path = match written.path.contains("${").then(|| resolve(&written.path)) {
                None | Some(Err(Cannot::Resolve)) => written.path.clone(),
                Some(Err(Cannot::Tell)) => return None,
                Some(Ok(path)) if path.len() > MAX_PATH_BYTES => written.path.clone(),
                Some(Ok(path)) => path,
            };
            Some(DataPath { path, mark: written.mark.clone() })
        };
        self.paths.iter().map(of_path).collect()
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
        let expected = of.outputs.as_ref().map(|outputs| outputs.resolved(time, own)).unwrap_or_default();
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
