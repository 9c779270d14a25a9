//! The fields of a job that a template can name, as they are named in the job itself.

use std::sync::LazyLock;

use tidemill_model::{JobDefinition, JobSpec, ScheduleRule};

use crate::Zone;

/// A field of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobField {
    /// `${job_id}`: its id.
    Id,
    /// `${group_id}`: its group's number.
    GroupId,
    /// `${version}`: the number of the definition.
    Version,
    /// `${period}`: of its own schedule.
    Period,
    /// `${cron}`: of its own schedule.
    Cron,
    /// `${zone}`: in which its times are written; without a schedule of its own, that of its ancestor's.
    Zone,
    /// A text or a whole number that the job was written with.
    Written(&'static str),
}

/// Those that a definition has beside what was written.
const COMPUTED: [(&str, JobField); 6] = [
    ("job_id", JobField::Id),
    ("group_id", JobField::GroupId),
    ("version", JobField::Version),
    ("period", JobField::Period),
    ("cron", JobField::Cron),
    ("zone", JobField::Zone),
];

/// Texts of a job that hold templates themselves, or that no definition has.
const NOT_FOR_TEMPLATES: [&str; 5] = ["command", "program", "class", "final_command", "previous_name"];

/// The texts and whole numbers that a job can be written with.
static WRITTEN: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let is_one = |field: &tidemill_model::SpecField| field.is_text() || field.is_whole_number();
    let names = JobSpec::fields().iter().filter(|field| is_one(field)).map(|field| field.name.as_str());
    names.filter(|name| !NOT_FOR_TEMPLATES.contains(name)).collect()
});

impl JobField {
    /// The field of that name; the job's own name is `job` as well.
    pub(super) fn named(name: &str) -> Option<JobField> {
        let name = if name == "job" { "name" } else { name };
        let computed = COMPUTED.iter().find(|(known, _)| *known == name).map(|(_, field)| *field);
        let written = || WRITTEN.iter().find(|known| **known == name).map(|known| JobField::Written(known));
        computed.or_else(written)
    }

    /// All names, for people.
    pub(super) fn names() -> String {
        let names = ["job"].into_iter().chain(WRITTEN.iter().copied()).chain(COMPUTED.map(|(name, _)| name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Its name as a job has it.
    pub fn name(self) -> &'static str {
        match self {
            JobField::Written(name) => name,
            field => COMPUTED.iter().find(|(_, known)| *known == field).map_or("", |(name, _)| name),
        }
    }

    /// Its text in this definition, whose times are written in `zone`; `None`: the job does not set it.
    pub fn of(self, definition: &JobDefinition, zone: &Zone) -> Option<String> {
        let rule = || definition.spec.schedule_spec().map(|schedule| schedule.rule);
        match self {
            JobField::Id => Some(definition.id.to_string()),
            JobField::GroupId => Some(definition.group_id.to_string()),
            JobField::Version => Some(definition.version.to_string()),
            JobField::Period => match rule() {
                Some(ScheduleRule::Period(period)) => Some(period.to_string()),
                Some(ScheduleRule::Cron(_)) | None => None,
            },
            JobField::Cron => match rule() {
                Some(ScheduleRule::Cron(cron)) => Some(cron),
                Some(ScheduleRule::Period(_)) | None => None,
            },
            JobField::Zone => Some(zone.name().to_owned()),
            JobField::Written(name) => definition.spec.text_of(name),
        }
        .filter(|text| !text.is_empty())
    }
}
