//! What clients were told, against what the journal says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidemill_model::{
    AttemptEvent, BatchEvent, CatalogueEvent, Event, JobEvent, ObservationEvent, Outcome, RequestId,
    RerunEvent, Source, TaskEvent,
};

use crate::history::{Action, Told, Written};
use crate::journal::{Entry, What};
use crate::puller;
use crate::recovery::events;

/// A decision about a request.
struct Decided<'a> {
    place: String,
    outcome: &'a Outcome,
    events: Vec<&'a Event>,
}

impl Decided<'_> {
    fn is_granted(&self) -> bool {
        matches!(self.outcome, Outcome::Done | Outcome::Answered(_))
    }
}

/// Compares; gives what is wrong. A request's request id on record is `APP:KEY`, and `APP:KEY~N` where the
/// interface asked again by itself.
#[must_use]
pub(crate) fn compare(app: &str, writes: &[Written], entries: &[Entry]) -> Vec<String> {
    let decided = decisions(app, entries);
    let facts = Facts::of(entries);
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for written in writes {
        let found = decided.get(written.key.as_str()).map(Vec::as_slice).unwrap_or_default();
        let mut granted: Vec<_> = found.iter().filter(|decided| decided.is_granted()).collect();
        if matches!(written.action, Action::Complete(_)) {
            // Said again it is granted again, without an event: its answer is not kept, for the state gives it.
            granted.sort_by_key(|decided| decided.events.is_empty());
            let with_event = granted.iter().filter(|decided| !decided.events.is_empty()).count();
            granted.truncate(with_event.max(1));
        }
        let places: Vec<_> = granted.iter().map(|decided| decided.place.as_str()).collect();
        let mut say = |what: String| wrong.push(format!("{what}: {written:?}"));
        known.insert(written.key.as_str());
        match &written.told {
            // A pull has no name, and a move is decided later, by another record.
            told if matches!(written.action, Action::Pull(_) | Action::Move(..)) => {
                // Who is there already is told so at once.
                let is_there = matches!(written.action, Action::Move(..)) && !granted.is_empty();
                let request = format!("{app}:{}", written.key);
                if let Told::Ok(answer) = told
                    && !is_there
                    && !facts.have(&written.action, &request, answer)
                {
                    say("acknowledged, and not on record".to_owned());
                }
            }
            Told::Ok(answer) => match granted.as_slice() {
                [one] if has_its_event(written, answer, &one.events, &facts) => {}
                [one] => say(format!("acknowledged, and its event is not at {}", one.place)),
                _ => say(format!("acknowledged, and granted on record at {places:?}")),
            },
            Told::Refused(_) if granted.is_empty() => {}
            Told::Refused(_) => say(format!("refused, and granted on record at {places:?}")),
            Told::Unknown(_) if granted.len() <= 1 => {}
            Told::Unknown(_) => say(format!("unknown, and granted more than once, at {places:?}")),
        }
    }
    for (key, found) in decided.iter().filter(|(key, _)| key.starts_with("chaos-") && !known.contains(**key))
    {
        let places: Vec<_> = found.iter().map(|decided| decided.place.as_str()).collect();
        wrong.push(format!("nobody asked for {key}, decided at {places:?}"));
    }
    wrong
}

/// All decisions that are no repeats, by the key of the request.
fn decisions<'a>(app: &str, entries: &'a [Entry]) -> BTreeMap<&'a str, Vec<Decided<'a>>> {
    let mut decided: BTreeMap<&str, Vec<Decided<'_>>> = BTreeMap::new();
    for entry in entries {
        let What::Envelope(envelope) = &entry.what else { continue };
        let mut first = 0;
        for cause in &envelope.causes {
            let events = first..first + cause.events as usize;
            first = events.end;
            let Source::Command { request: Some(request), .. } = &cause.source else { continue };
            let key = named(request).strip_prefix(app).and_then(|rest| rest.strip_prefix(':'));
            let Some(key) = key.and_then(|key| key.split('~').next()) else { continue };
            if matches!(cause.outcome, Outcome::Repeated) {
                continue;
            }
            let events = envelope.events.get(events).unwrap_or_default();
            let events = events.iter().map(|recorded| &recorded.event).collect();
            let place = format!("{}:{}", entry.partition, entry.offset);
            decided.entry(key).or_default().push(Decided { place, outcome: &cause.outcome, events });
        }
    }
    decided
}

/// A request by what its client chose, whatever it asks for.
fn named(request: &RequestId) -> &str {
    request.key().unwrap_or(request.as_str())
}

/// What stands anywhere in the journal.
#[derive(Default)]
struct Facts {
    killed: BTreeSet<i64>,
    completed: BTreeMap<i64, String>,
    /// Grants, and whose they are.
    granted: BTreeMap<i64, String>,
    /// Moves, by the request's request id: who came where.
    moved: BTreeMap<String, (String, String)>,
}

impl Facts {
    fn of(entries: &[Entry]) -> Self {
        let mut facts = Self::default();
        for event in events(entries) {
            match event {
                Event::Attempt(AttemptEvent::KillRequested { batch, .. }) => {
                    facts.killed.insert(batch.0);
                }
                Event::Task(TaskEvent::Granted { grant, user, .. }) => {
                    facts.granted.insert(grant.0, user.to_string());
                }
                Event::Task(TaskEvent::Completed { grant, result, .. }) => {
                    facts.completed.insert(grant.0, result.clone());
                }
                Event::Catalogue(CatalogueEvent::UserMoved {
                    user,
                    to: Some(to),
                    request: Some(request),
                    ..
                }) => {
                    facts.moved.insert(named(request).to_owned(), (user.to_string(), to.to_string()));
                }
                _ => {}
            }
        }
        facts
    }

    fn have(&self, action: &Action, request: &str, answer: &Value) -> bool {
        match action {
            Action::Pull(user) => {
                let grant = answer["grant"]["grant"].as_i64();
                grant.is_none_or(|grant| self.granted.get(&grant) == Some(user))
            }
            Action::Move(user, to) => self.moved.get(request) == Some(&(user.clone(), to.clone())),
            _ => false,
        }
    }
}

fn has_its_event(written: &Written, answer: &Value, events: &[&Event], facts: &Facts) -> bool {
    let any = |fits: &dyn Fn(&Event) -> bool| events.iter().any(|event| fits(event));
    match &written.action {
        Action::Run | Action::Rerun(_) => any(
            &|event| matches!(event, Event::Batch(BatchEvent::Generated { batch, .. }) if answer["batch"] == batch.0),
        ),
        // The end of one batch can be asked for twice: the first time is on record.
        Action::Kill(of) if events.is_empty() => facts.killed.contains(of),
        Action::Kill(of) => any(&|event| match event {
            Event::Attempt(AttemptEvent::KillRequested { batch, .. })
            | Event::Batch(BatchEvent::Finished { batch, .. }) => batch.0 == *of,
            _ => false,
        }),
        Action::Apply(comment) => any(
            &|event| matches!(event, Event::Job(JobEvent::Defined { definition, .. }) if definition.spec.comment == *comment),
        ),
        // It may have been so already.
        Action::Switch(..) if events.is_empty() => true,
        Action::Switch(of, on) => any(&|event| match event {
            Event::Job(JobEvent::Enabled { job }) => *on && job.0 == *of,
            Event::Job(JobEvent::Disabled { job }) => !*on && job.0 == *of,
            _ => false,
        }),
        Action::Submit => any(
            &|event| matches!(event, Event::Job(JobEvent::Submitted { definition }) if answer["job_id"] == definition.id.0),
        ),
        Action::Plan => any(
            &|event| matches!(event, Event::Rerun(RerunEvent::Requested { rerun, .. }) if answer["rerun"] == rerun.0),
        ),
        Action::Report(time) => any(
            &|event| matches!(event, Event::Observation(ObservationEvent::ThirdPartyReported { report, .. }) if report.logical_time.jiff() == *time),
        ),
        // Said again of a grant that it is done, with the same result.
        Action::Complete(of) if events.is_empty() => facts.completed.get(of) == Some(&puller::result(*of)),
        Action::Complete(of) => any(&|event| match event {
            Event::Task(TaskEvent::Completed { grant, result, .. }) => {
                grant.0 == *of && *result == puller::result(*of)
            }
            _ => false,
        }),
        Action::Return(of) => any(
            &|event| matches!(event, Event::Task(TaskEvent::GrantReturned { grant, .. }) if grant.0 == *of),
        ),
        Action::Task => any(
            &|event| matches!(event, Event::Task(TaskEvent::Created { task, .. }) if answer["task"] == task.0),
        ),
        Action::Pull(_) | Action::Move(..) | Action::Absurd => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidemill_model::Envelope;

    /// What was decided of a request.
    fn decided(request: &str, outcome: &Value, events: &[Value]) -> Entry {
        let source = json!({"command": {"offset": 1, "request": request, "actor": {"app": "admin"}}});
        let recorded: Vec<_> = events.iter().map(|event| json!({"shard": 1, "event": event})).collect();
        let envelope = json!({
            "now": "2026-01-01T00:00:00Z", "events": recorded,
            "causes": [{"source": source, "outcome": outcome, "events": events.len()}],
        });
        let envelope: Envelope = serde_json::from_value(envelope).unwrap();
        Entry { partition: 1, offset: 9, at_ms: 0, what: What::Envelope(Box::new(envelope)) }
    }

    /// It is granted by one batch, or refused.
    fn entry(request: &str, batch: Option<i64>) -> Entry {
        let outcome = match batch {
            Some(batch) => json!({"answered": {"generated": {"batch": batch}}}),
            None => json!({"refused": {"unknown": {"what": "job", "id": "1"}}}),
        };
        let generated = |batch| {
            json!({"batch": {"generated": {
                "batch": batch, "job": 1, "version": 1, "logical_time": "2026-01-01T00:00:00Z", "origin": "manual",
            }}})
        };
        decided(request, &outcome, &batch.into_iter().map(generated).collect::<Vec<_>>())
    }

    fn written(told: Told) -> Written {
        Written { key: "chaos-1-1".to_owned(), action: Action::Run, tries: 1, at_ms: 0, told }
    }

    fn wrong(told: Told, entries: &[Entry]) -> usize {
        compare("admin", &[written(told)], entries).len()
    }

    #[test]
    fn acknowledged_write_has_exactly_its_event() {
        let told = || Told::Ok(json!({"batch": 7}));
        assert_eq!(wrong(told(), &[entry("admin:chaos-1-1", Some(7))]), 0);
        assert_eq!(wrong(told(), &[entry("admin:chaos-1-1~2", Some(7))]), 0);
        assert_eq!(wrong(told(), &[]), 1);
        assert_eq!(wrong(told(), &[entry("admin:chaos-1-1", Some(8))]), 1);
        assert_eq!(wrong(told(), &[entry("admin:chaos-1-1", None)]), 1);
        assert_eq!(wrong(told(), &[entry("admin:chaos-1-1", Some(7)), entry("admin:chaos-1-1", Some(7))]), 1);
    }

    #[test]
    fn refused_write_has_none() {
        let told = || Told::Refused("409".to_owned());
        assert_eq!(wrong(told(), &[]), 0);
        assert_eq!(wrong(told(), &[entry("admin:chaos-1-1", None)]), 0);
        assert_eq!(wrong(told(), &[entry("admin:chaos-1-1", Some(7))]), 1);
    }

    #[test]
    fn unknown_write_has_none_or_one() {
        let told = || Told::Unknown(String::new());
        assert_eq!(wrong(told(), &[]), 0);
        assert_eq!(wrong(told(), &[entry("admin:chaos-1-1", Some(7))]), 0);
        assert_eq!(wrong(told(), &[entry("admin:chaos-1-1", Some(7)), entry("admin:chaos-1-1", Some(8))]), 1);
    }

    #[test]
    fn what_nobody_asked_for_is_found() {
        assert_eq!(compare("admin", &[], &[entry("admin:chaos-9-1", Some(7))]).len(), 1);
        assert_eq!(compare("admin", &[], &[entry("other:chaos-9-1", Some(7))]).len(), 0);
    }

    fn check(action: Action, answer: Value, entries: &[Entry]) -> usize {
        compare("admin", &[Written { action, ..written(Told::Ok(answer)) }], entries).len()
    }

    #[test]
    fn grants_and_moves_are_on_record_wherever() {
        let (grant, home) = (
            json!({"task": {"granted": {
                "grant": 1, "task": 2, "version": 1, "start": "2026-01-01T00:00:00Z", "user": "ann",
            }}}),
            json!({"catalogue": {"user_moved": {"user": "ann", "from": 1, "to": "beta", "shard": 2, "request": "admin:chaos-1-1"}}}),
        );
        let entries = [decided("admin:other", &json!("done"), &[grant, home])];
        let (pull, given) = (|user: &str| Action::Pull(user.to_owned()), || json!({"grant": {"grant": 1}}));
        assert_eq!(check(pull("ann"), given(), &entries), 0);
        assert_eq!(check(pull("bob"), given(), &entries), 1);
        assert_eq!(check(pull("ann"), given(), &[]), 1);
        assert_eq!(check(pull("ann"), json!({"grant": null}), &[]), 0);
        let moved = |to: &str| Action::Move("ann".to_owned(), to.to_owned());
        assert_eq!(check(moved("beta"), json!({}), &entries), 0);
        assert_eq!(check(moved("alpha"), json!({}), &entries), 1);
        assert_eq!(check(moved("beta"), json!({}), &[]), 1);
        let is_there = decided("admin:chaos-1-1", &json!("done"), &[]);
        assert_eq!(check(moved("beta"), json!({}), &[is_there]), 0);
    }

    #[test]
    fn a_completion_that_is_said_again_has_one_event() {
        let event = json!({"task": {"completed": {
            "grant": 1, "task": 2, "start": "2026-01-01T00:00:00Z", "user": "ann", "result": "done 1",
        }}});
        let of = |events: &[Value]| {
            decided("admin:chaos-1-1", &json!({"answered": {"completed": {"grant": 1}}}), events)
        };
        let check = |entries: &[Entry]| check(Action::Complete(1), json!({"grant": 1}), entries);
        let once = || of(std::slice::from_ref(&event));
        assert_eq!(check(&[once(), of(&[]), of(&[])]), 0);
        // Of two shards no order is known.
        assert_eq!(check(&[of(&[]), once()]), 0);
        assert_eq!(check(&[once(), once()]), 1);
        assert_eq!(check(&[of(&[])]), 1);
    }
}
