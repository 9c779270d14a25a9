//! The fields of a job that a template can name, as they are named in the job itself.

use tidemill_model::{Execution, JobDefinition, ScheduleRule};

use crate::Zone;

/// A field of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobField {
    /// `${job}` and `${name}`: the job's name.
    Name,
    /// `${job_id}`: its id.
    Id,
    /// `${group}`: its group.
    Group,
    /// `${group_id}`: that group's number.
    GroupId,
    /// `${version}`: the number of the definition.
    Version,
    /// `${owner}`.
    Owner,
    /// `${app_name}`.
    AppName,
    /// `${type}`.
    Type,
    /// `${business_type}`.
    BusinessType,
    /// `${priority}`: 0 to 9.
    Priority,
    /// `${host}`.
    Host,
    /// `${worker_label}`.
    WorkerGroup,
    /// `${run_as}`.
    RunAs,
    /// `${memory_mb}`.
    MemoryMb,
    /// `${period}`: of its own schedule.
    Period,
    /// `${cron}`: of its own schedule.
    Cron,
    /// `${zone}`: in which its times are written; without a schedule of its own, that of its ancestor's.
    Zone,
}

/// Every name, in the order of the documentation.
const NAMES: [(&str, JobField); 18] = [
    ("job", JobField::Name),
    ("name", JobField::Name),
    ("job_id", JobField::Id),
    ("group", JobField::Group),
    ("group_id", JobField::GroupId),
    ("version", JobField::Version),
    ("owner", JobField::Owner),
    ("app_name", JobField::AppName),
    ("type", JobField::Type),
    ("business_type", JobField::BusinessType),
    ("priority", JobField::Priority),
    ("host", JobField::Host),
    ("worker_label", JobField::WorkerGroup),
    ("run_as", JobField::RunAs),
    ("memory_mb", JobField::MemoryMb),
    ("period", JobField::Period),
    ("cron", JobField::Cron),
    ("zone", JobField::Zone),
];

impl JobField {
    /// The field of that name.
    pub(super) fn named(name: &str) -> Option<JobField> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
    }

    /// All names, for people.
    pub(super) fn names() -> String {
        NAMES.map(|(name, _)| name).join(", ")
    }

    /// Its name as a job has it.
    pub fn name(self) -> &'static str {
        NAMES.iter().rev().find(|(_, field)| *field == self).map_or("", |(name, _)| name)
    }

    /// Its text in this definition, whose times are written in `zone`; `None`: the job does not set it.
    pub fn of(self, definition: &JobDefinition, zone: &Zone) -> Option<String> {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let execution = |of: fn(&Execution) -> Option<String>| definition.execution.as_ref().and_then(of);
        let rule = definition.schedule.as_ref().map(|schedule| &schedule.rule);
        match self {
            JobField::Name => text(definition.name.as_str()),
            JobField::Id => Some(definition.id.to_string()),
            JobField::Group => text(definition.group.as_str()),
            JobField::GroupId => Some(definition.group_id.to_string()),
            JobField::Version => Some(definition.version.to_string()),
            JobField::Owner => text(&definition.owner),
            JobField::AppName => text(&definition.app_name),
            JobField::Type => text(definition.job_type.as_str()),
            JobField::BusinessType => text(&definition.business_type),
            JobField::Priority => Some(u8::from(definition.priority).to_string()),
            JobField::Host => definition.host.clone(),
            JobField::WorkerGroup => execution(|it| it.worker_label.as_ref().map(ToString::to_string)),
            JobField::RunAs => execution(|it| it.run_as.as_ref().map(ToString::to_string)),
            JobField::MemoryMb => definition.memory_mb.map(|memory_mb| memory_mb.to_string()),
            JobField::Period => match rule {
                Some(ScheduleRule::Period(period)) => Some(period.to_string()),
                Some(ScheduleRule::Cron(_)) | None => None,
            },
            JobField::Cron => match rule {
                Some(ScheduleRule::Cron(cron)) => text(cron),
                Some(ScheduleRule::Period(_)) | None => None,
            },
            JobField::Zone => text(zone.name()),
        }
    }
}
