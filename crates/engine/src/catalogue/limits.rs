//! EXE-2: what jobs and groups say that attempts may use.
//!
//! *Invariant:* no definition names a limit above the maximum of its group: neither is accepted while the other stands, and a job
//! that is on its way to a group, by a move or by an apply that is being carried out, counts as one of it.

use tidemill_model::{
    FieldError, GroupLimits, GroupName, GroupSettings, JobSpec, Level, LimitKind, Limits, Rejection,
};

use super::Catalogue;

const TOO_EARLY: &str = "cannot be set before level 3 of the log stands, which is raised once every process of the site reads it \
                         (`tidemill level show`); leave it out until then";

impl Catalogue {
    /// Whether limits can be on record.
    fn knows_limits(&self) -> bool {
        self.levels.standing().allows(Level::LIMITS)
    }

    /// Whether jobs that are only staged can be on record with the limits that they name.
    pub(super) fn check_limits_known(&self, jobs: &[JobSpec]) -> Result<(), FieldError> {
        let at = jobs.iter().position(|spec| !spec.limits.is_empty() && !self.knows_limits());
        match at {
            None => Ok(()),
            Some(at) => Err(FieldError::new(format!("jobs[{at}].limits"), text(&jobs[at].limits), TOO_EARLY)),
        }
    }

    /// Whether a job may be of its group with the limits that it names.
    pub(super) fn check_limits(&self, spec: &JobSpec) -> Result<(), FieldError> {
        if !spec.limits.is_empty() && !self.knows_limits() {
            return Err(FieldError::new("limits", text(&spec.limits), TOO_EARLY));
        }
        let settings = self.groups.get(&spec.group).map(|group| &group.settings);
        let Some(limits) = settings.and_then(|settings| settings.limits.as_deref()) else { return Ok(()) };
        match spec.all_limits().above(&limits.max) {
            None => Ok(()),
            Some((kind, value, most)) => {
                let rule = format!(
                    "is above the maximum of group {}, {most}; name less, or have an administrator raise limits.max of the group",
                    spec.group
                );
                Err(FieldError::new(field_of_job(kind), value, rule))
            }
        }
    }

    /// Whether a job may come to a group with the limits that it names.
    pub(super) fn check_limits_move(&self, spec: &JobSpec, to: &GroupName) -> Result<(), Rejection> {
        let settings = self.groups.get(to).map(|group| &group.settings);
        let Some(limits) = settings.and_then(|settings| settings.limits.as_deref()) else { return Ok(()) };
        match spec.all_limits().above(&limits.max) {
            None => Ok(()),
            Some((kind, value, most)) => {
                let field = field_of_job(kind);
                let rule = format!(
                    "the job has {field} {value}, above the maximum of group {to}, {most}; lower it first, or have an \
                     administrator raise limits.max of the group"
                );
                Err(Rejection::field("group", to, rule))
            }
        }
    }

    /// Whether a group may have these limits, with the jobs that it has.
    pub(super) fn check_group_limits(
        &self,
        name: &GroupName,
        settings: &GroupSettings,
    ) -> Result<(), Rejection> {
        let Some(limits) = settings.limits.as_deref() else { return Ok(()) };
        if !self.knows_limits() {
            return Err(Rejection::field("settings.limits", text(limits), TOO_EARLY));
        }
        check_each("settings.limits.default", &limits.default)?;
        check_each("settings.limits.max", &limits.max)?;
        if let Some((kind, value, most)) = limits.default.above(&limits.max) {
            let field = format!("settings.limits.default.{}", kind.field());
            let rule = format!("is above settings.limits.max, {most}; lower it, or raise the maximum");
            return Err(Rejection::field(field, value, rule));
        }
        self.check_jobs_within(name, limits)
    }

    /// The first job of the group that is above its maximum is named.
    fn check_jobs_within(&self, name: &GroupName, limits: &GroupLimits) -> Result<(), Rejection> {
        let here = self.jobs.iter().filter(|(id, job)| {
            job.definition.spec.group == *name || self.moves.get(id).is_some_and(|to| to.goes_to(name))
        });
        let coming = self.committed.iter().flat_map(|plan| plan.specs());
        let coming = coming.filter(|spec| spec.group == *name);
        let mut all = here.map(|(_, job)| &job.definition.spec).chain(coming);
        let above = all.find_map(|spec| Some((spec, spec.all_limits().above(&limits.max)?)));
        match above {
            None => Ok(()),
            Some((spec, (kind, value, most))) => {
                let rule = format!(
                    "is below {} {value} of job {}/{}; lower that first, or name at least {value}",
                    field_of_job(kind),
                    spec.group,
                    spec.name
                );
                Err(Rejection::field(format!("settings.limits.max.{}", kind.field()), most, rule))
            }
        }
    }
}

/// The field of a job that names a limit.
fn field_of_job(kind: LimitKind) -> String {
    match kind {
        LimitKind::RunTime => "execution_timeout_s".to_owned(),
        kind => format!("limits.{}", kind.field()),
    }
}

/// Every one within its bounds, and the alarm below the limit.
pub(in crate::catalogue) fn check_each(field: &str, limits: &Limits) -> Result<(), FieldError> {
    for (kind, value) in limits.set() {
        let (least, most) = kind.range();
        if !(least..=most).contains(&value) {
            let rule = format!("must be {least} to {most}; leave it out for none");
            return Err(FieldError::new(format!("{field}.{}", kind.field()), value, rule));
        }
    }
    match (limits.memory_alarm_mb, limits.memory_mb) {
        (Some(alarm), Some(limit)) if alarm >= limit => {
            let rule = format!("must be below {field}.memory_mb, {limit}, beyond which processes are ended");
            Err(FieldError::new(format!("{field}.memory_alarm_mb"), alarm, rule))
        }
        _ => Ok(()),
    }
}

fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
