//! What workloads ask for.

use std::collections::BTreeMap;

use tidemill_model::{
    BatchCommand, Command, JobName, JobSpec, JobType, ParentSpec, Priority, Program, ScheduleInput,
    Submission,
};

use crate::fixture::{Fixture, group};

/// One batch, at once.
pub(crate) fn submission(name: &str, kind: &str, program: Option<&str>, fixture: &Fixture) -> Command {
    Command::Batch(BatchCommand::SubmitJob(Box::new(once(name, kind, program, fixture))))
}

/// One batch of type noop of this user, at once; its job has the user's name.
pub(crate) fn of_user(owner: &str, priority: Priority, fixture: &Fixture) -> Command {
    let submission = once(owner, "noop", None, fixture);
    Command::Batch(BatchCommand::SubmitJob(Box::new(Submission {
        owner: owner.to_owned(),
        priority,
        ..submission
    })))
}

fn once(name: &str, kind: &str, program: Option<&str>, fixture: &Fixture) -> Submission {
    Submission {
        name: JobName::try_from(name).expect("is a name"),
        group: group(),
        group_id: fixture.group_id,
        app_name: "bench".to_owned(),
        owner: String::new(),
        job_type: JobType::try_from(kind).expect("is a name"),
        program: program.map_or(Program::None, |program| Program::Command(program.to_owned())),
        parameters: BTreeMap::new(),
        priority: Priority::DEFAULT,
        parents: Vec::new(),
        retries: 0,
        retry_interval_s: 0,
    }
}

/// A definition whose batches wait for a path.
pub(crate) fn waiting_for(path: &str, name: &str, max_concurrent: u32) -> JobSpec {
    let value = serde_json::json!({
        "name": name, "group": group(), "type": "noop", "inputs": [path], "max_concurrent": max_concurrent,
    });
    JobSpec::from_value(value).expect("is a whole job")
}

/// A definition.
pub(crate) fn job(name: &str, kind: &str, parents: &[String], cron: Option<&str>) -> JobSpec {
    let mut value = serde_json::json!({ "name": name, "group": group(), "type": kind });
    if let Some(cron) = cron {
        let schedule =
            ScheduleInput { period: None, cron: Some(cron.to_owned()), zone: Some("UTC".to_owned()) };
        value["schedule"] = serde_json::to_value(schedule).expect("is plain data");
    }
    let mut spec = JobSpec::from_value(value).expect("is a whole job");
    spec.parents = parents.iter().cloned().map(ParentSpec::Name).collect();
    spec
}
