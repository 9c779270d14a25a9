//! How deep the parameters of tasks are (PUL-1). Records and messages hold them deeper than they were asked for, and
//! a reader of JSON that stops at some depth could not read a journal any more that holds what is too deep.

use serde_json::Value;
use tidemill_model::{
    Answer, CatalogueEvent, Event, MovedTask, Outcome, Parameters, TaskEvent, TransferEvent,
};

use crate::{At, Invariant};

/// Arrays and objects in one another, the parameters themselves not counted.
const MOST_LEVELS: usize = 32;

/// `parameters_within_depth`, of what happened.
pub(crate) fn event(at: &At<'_>, event: &Event) {
    match event {
        Event::Task(TaskEvent::Created { task, spec } | TaskEvent::Changed { task, spec, .. }) => {
            within_depth(at, &format!("task {task}"), &spec.parameters);
        }
        Event::Transfer(
            TransferEvent::UserDetached { tasks, .. } | TransferEvent::UserAttached { tasks, .. },
        )
        | Event::Catalogue(CatalogueEvent::UserMoved { tasks, .. }) => {
            for MovedTask { task, spec, .. } in tasks {
                within_depth(at, &format!("task {task}, which moves"), &spec.parameters);
            }
        }
        _ => {}
    }
}

/// `parameters_within_depth`, of what somebody was answered.
pub(crate) fn outcome(at: &At<'_>, outcome: &Outcome) {
    if let Outcome::Answered(Answer::Pulled(pulled)) = outcome {
        within_depth(at, &format!("grant {}", pulled.grant), &pulled.parameters);
    }
}

fn within_depth(at: &At<'_>, whose: &str, parameters: &Parameters) {
    let levels = levels(parameters);
    if levels > MOST_LEVELS {
        let why = format!("parameters of {whose} are {levels} levels deep, and may be {MOST_LEVELS}");
        at.breaks(Invariant::ParametersWithinDepth, why);
    }
}

/// Level by level, so that no depth exhausts the stack.
fn levels(parameters: &Parameters) -> usize {
    let mut level: Vec<&Value> = parameters.0.values().collect();
    let mut levels = 0;
    loop {
        level.retain(|value| value.is_array() || value.is_object());
        if level.is_empty() {
            return levels;
        }
        levels += 1;
        level = level.into_iter().flat_map(members).collect();
    }
}

fn members(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}
