//! How many bytes of an envelope something takes: never less than it really does, and close to it.
//!
//! What every batch goes through is estimated from the lengths of its texts; what is rare is encoded and
//! counted.

use tidemill_model::{
    Answer, AttemptEvent, BatchEvent, DataPath, Event, JobDefinition, JobEvent, JobSpec, Json as _,
    ObservationEvent, Outcome, ReplicationEvent,
};

/// Bytes that an event, with its shard, takes in an envelope: never less than it really does.
pub fn of_event(event: &Event) -> usize {
    match event {
        Event::Job(JobEvent::Defined { definition, previous_name, .. }) => {
            let previous = previous_name.as_ref().map_or(0, |name| 24 + of_text(name.as_str()));
            100 + of_definition(definition) + previous
        }
        Event::Job(JobEvent::Submitted { definition }) => 100 + of_definition(definition),
        Event::Replication(ReplicationEvent::JobReplicated { definition, .. }) => {
            220 + of_definition(definition)
        }
        Event::Batch(BatchEvent::Generated {
            dependencies,
            counted_parents,
            external_dependencies,
            parameters,
            outputs,
            ..
        }) => {
            let dependencies: usize =
                dependencies.iter().map(|on| 100 + 34 * (on.times.len() + on.met.len())).sum();
            let parameters: usize =
                parameters.iter().map(|(name, value)| of_text(name) + of_text(value)).sum();
            let mark = |output: &DataPath| output.mark.as_deref().map_or(0, of_text);
            let outputs: usize = outputs.iter().map(|output| 32 + of_text(&output.path) + mark(output)).sum();
            let counted = counted_parents.map_or(0, |_| 72);
            560 + dependencies + counted + parameters + 24 * external_dependencies.len() + 24 + outputs
        }
        Event::Batch(BatchEvent::Assigned { worker, .. }) => 300 + of_text(worker.as_str()),
        Event::Batch(BatchEvent::AssignedWithRight { worker, right, .. }) => {
            440 + of_text(worker.as_str()) + of_text(right.incarnation.as_str())
        }
        Event::Attempt(AttemptEvent::StartGranted { worker, incarnation, nonce, .. }) => {
            260 + of_text(worker.as_str()) + of_text(incarnation.as_str()) + of_text(nonce.as_str())
        }
        Event::Attempt(AttemptEvent::Finished { worker, outcome, .. }) => {
            let values = outcome.values.iter();
            let values: usize = values.map(|(name, value)| of_text(name) + of_text(value)).sum();
            520 + values + of_text(worker.as_str()) + of_text(&outcome.message)
        }
        Event::Batch(BatchEvent::Finished { by, message, final_command, .. }) => {
            let by = by.as_ref().map_or(0, |by| of_text(&by.app) + of_text(by.user.as_deref().unwrap_or("")));
            240 + by + of_text(message) + 24 * usize::from(*final_command)
        }
        Event::Attempt(AttemptEvent::Started { .. })
        | Event::Batch(
            BatchEvent::DependencySatisfied { .. }
            | BatchEvent::DependencyRevoked { .. }
            | BatchEvent::RetryScheduled { .. }
            | BatchEvent::RetryDue { .. },
        )
        | Event::Observation(ObservationEvent::ExternalDependencySatisfied { .. }) => 260,
        _ => 64 + event.to_json().len(),
    }
}

/// The same of several.
pub(crate) fn of_events(events: &[Event]) -> usize {
    events.iter().map(of_event).sum()
}

pub(crate) fn of_outcome(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Done | Outcome::Repeated | Outcome::Deferred => 0,
        Outcome::Answered(
            Answer::Done
            | Answer::Group { .. }
            | Answer::Submitted { .. }
            | Answer::Calendar { .. }
            | Answer::Pool { .. }
            | Answer::Template { .. }
            | Answer::Task { .. }
            | Answer::NothingDue { .. }
            | Answer::Completed { .. }
            | Answer::Generated { .. }
            | Answer::Bulk { .. }
            | Answer::Level { .. },
        ) => 120,
        Outcome::Answered(Answer::Rerun { disabled, .. }) => 120 + 24 * disabled.len(),
        Outcome::Answered(Answer::Applied { .. } | Answer::Pulled(_)) | Outcome::Refused(_) => {
            outcome.to_json().len()
        }
    }
}

pub(crate) fn of_definition(definition: &JobDefinition) -> usize {
    definition.to_json().len()
}

pub(crate) fn of_spec(spec: &JobSpec) -> usize {
    spec.to_json().len()
}

/// Of a text in quotes, escaped, with the sign that follows it.
pub(crate) fn of_text(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    4 + text.len() + text.bytes().map(escaped).sum::<usize>()
}
