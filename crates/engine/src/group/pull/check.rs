//! Whether a task can be accepted as it is written: everything that is wrong with it, in one answer.

use tidemill_model::{Executor, FieldError, Rejection, TaskSpec, Timestamp, When, bounds};

use super::task::{PullTask, rotation_of};
use crate::group::GroupShard;
use crate::group::pull::Pull;

const MAX_PARAMETERS_BYTES: usize = 16 * 1024;
/// Records hold tasks some levels deeper than they were asked for, and readers of JSON stop at 128.
const MAX_PARAMETERS_LEVELS: usize = 32;
const LEASE_S: std::ops::RangeInclusive<u32> = bounds::LEASE_LEAST_S..=bounds::LEASE_MOST_S;
/// Of one answer.
const MAX_FAULTS: usize = 20;

impl Pull {
    /// PUL-1
    fn parameter_faults(&self, spec: &TaskSpec) -> Vec<FieldError> {
        let bytes = spec.parameters.bytes();
        if bytes > MAX_PARAMETERS_BYTES {
            let rule = format!("must be at most {MAX_PARAMETERS_BYTES} bytes as JSON");
            return vec![FieldError::new("parameters", format!("{bytes} bytes"), rule)];
        }
        let levels = spec.parameters.levels();
        if levels > MAX_PARAMETERS_LEVELS && !planted!(DepthNotChecked) {
            let rule = format!("must be at most {MAX_PARAMETERS_LEVELS} arrays and objects in one another");
            return vec![FieldError::new("parameters", format!("{levels} levels"), rule)];
        }
        let Some(name) = &spec.template else { return Vec::new() };
        match self.templates.get(name) {
            Some(template) => template.spec.faults(&spec.parameters),
            None => vec![FieldError::new("template", name, "is no template; define it first")],
        }
    }
}

impl GroupShard {
    /// `known` is the task that would be changed.
    pub(super) fn check_task(
        &self,
        spec: &TaskSpec,
        known: Option<&PullTask>,
        now: Timestamp,
    ) -> Result<(), Rejection> {
        let mut faults = Vec::new();
        faults.extend(self.executor_fault(spec, known));
        faults.extend(bounds_faults(spec));
        faults.extend(self.pull.parameter_faults(spec));
        faults.extend(self.when_fault(spec, known, now));
        let given = known.map_or(0, |task| task.given.iter().map(|of| of.ledger.used()).max().unwrap_or(0));
        if u64::from(spec.dispatch_times) < given {
            let rule = format!("must be at least {given}: so often an occurrence has been given already");
            faults.push(FieldError::new("dispatch_times", spec.dispatch_times, rule));
        }
        faults.truncate(MAX_FAULTS);
        if faults.is_empty() { Ok(()) } else { Err(Rejection::Invalid { fields: faults }) }
    }

    fn executor_fault(&self, spec: &TaskSpec, known: Option<&PullTask>) -> Option<FieldError> {
        if known.is_some_and(|task| task.spec.executor != spec.executor) {
            let rule = "cannot be changed; delete the task and create another one";
            return Some(FieldError::new("executor", &spec.executor, rule));
        }
        match &spec.executor {
            Executor::Group(name) => {
                let own = self.group.as_ref().is_some_and(|group| group.name == *name);
                let rule = || format!("is not {}, whose shard was asked", self.group_name());
                (!own).then(|| FieldError::new("executor.group", name, rule()))
            }
            Executor::User(name) => {
                let rule = || format!("is no member of {}; assign the user first", self.group_name());
                let member = self.pull.users.contains_key(name);
                (!member).then(|| FieldError::new("executor.user", name, rule()))
            }
        }
    }

    fn when_fault(&self, spec: &TaskSpec, known: Option<&PullTask>, now: Timestamp) -> Option<FieldError> {
        match &spec.when {
            When::Once { start } => {
                let earliest = self.first_window(now);
                let is_new = known.is_none_or(|task| task.spec.when != spec.when);
                let rule = || {
                    let hours = self.settings().pull_window_hours;
                    format!("must not be before {earliest}, {hours} hours ago: no first pull reaches it")
                };
                (is_new && *start < earliest).then(|| FieldError::new("when.once.start", start, rule()))
            }
            When::EveryMinutes { n, .. } => {
                let (field, rule) = rotation_of(&spec.when).err()?;
                Some(FieldError::new(field, n, rule))
            }
            When::EveryDays { n, zone, .. } => {
                let (field, rule) = rotation_of(&spec.when).err()?;
                let value = if field.ends_with("zone") { zone.clone() } else { n.to_string() };
                Some(FieldError::new(field, value, rule))
            }
        }
    }
}

fn bounds_faults(spec: &TaskSpec) -> Vec<FieldError> {
    let mut faults = Vec::new();
    if let Some(name) = &spec.name
        && !(1..=bounds::TASK_NAME_CHARS).contains(&name.chars().count())
    {
        let rule = format!("must be 1 to {} characters", bounds::TASK_NAME_CHARS);
        faults.push(FieldError::new("name", name, rule));
    }
    if !(1..=bounds::DISPATCH_TIMES).contains(&spec.dispatch_times) {
        let rule = "must be a whole number from 1 to 1,000,000";
        faults.push(FieldError::new("dispatch_times", spec.dispatch_times, rule));
    }
    if let Some(lease) = spec.lease_s.filter(|lease| !LEASE_S.contains(lease)) {
        let rule = format!("must be {} to {} seconds", LEASE_S.start(), LEASE_S.end());
        faults.push(FieldError::new("lease_s", lease, rule));
    }
    faults
}
