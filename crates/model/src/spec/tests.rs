use super::*;
use crate::Mapping;
use crate::unreadable::fault;
use serde_json::{Value, json};

fn job() -> Value {
    json!({"name": "a", "group": "g", "type": "noop"})
}

#[test]
fn defaults_are_those_of_the_requirements() {
    let spec = JobSpec::from_value(job()).unwrap();
    assert_eq!((spec.retries, spec.retry_interval_s, spec.max_concurrent), (0, 60, 1));
    assert!(spec.enabled);
    assert_eq!(spec.missed_runs, MissedRunsInput::default());
}

/// JOB-1: a field whose effect is not built yet is refused by name.
#[test]
fn not_built_and_unknown_fields_are_refused_by_name() {
    for field in NOT_BUILT.iter().copied().chain(["colour"]) {
        assert_eq!(fault(job(), &json!({field: "x"}), JobSpec::from_value).field, field);
    }
}

/// JOB-1: an error names the field by its path, with what was given there.
#[test]
fn errors_name_field_value_and_rule() {
    let table = [
        (json!({"priority": 10}), "priority", "10", "priority 10 must be 0 (highest) to 9"),
        (json!({"priority": 300}), "priority", "300", "priority 300 must be 0 (highest) to 9"),
        (json!({"retries": "three"}), "retries", "three", "must be a whole number from 0 on"),
        (json!({"group": "no/slash"}), "group", "no/slash", "name"),
        (
            json!({"schedule": {"perod": "day"}}),
            "schedule.perod",
            "day",
            "is no field of schedule; did you mean `period`? Known are period, cron",
        ),
        (json!({"schedule": {"period": "year"}}), "schedule.period", "year", "day"),
        (json!({"parents": ["a", {"job": "b", "mapping": "newest"}]}), "parents[1]", "newest", "latest"),
        (json!({"parents": "a"}), "parents", "a", "must be a list"),
        (
            json!({"comand": "x"}),
            "comand",
            "x",
            "is no field of a job; did you mean `command`? Known are name, group",
        ),
        (json!({"type": null}), "type", "null", "must be text"),
        (json!({"missed_runs": "some"}), "missed_runs", "some", "must be all, latest or none"),
        (json!({"overlap": "both"}), "overlap", "both", "cancel_old"),
        (json!({"valid_from": "tomorrow"}), "valid_from", "tomorrow", ""),
        (json!({"calendar": {"name": "cn", "shift": "up"}}), "calendar.shift", "up", "previous"),
    ];
    for (fields, field, given, rule) in table {
        let error = fault(job(), &fields, JobSpec::from_value);
        assert_eq!(error.field, field, "{error}");
        assert!(error.value.contains(given), "{error}");
        assert!(error.rule.contains(rule), "{error}");
    }
    let error = JobSpec::from_value(json!({"name": "a", "type": "noop"})).unwrap_err();
    assert_eq!((error.field.as_str(), error.rule.as_str()), ("group", "is missing, and must be there"));
}

#[test]
fn parents_are_written_short_or_with_a_mapping() {
    let spec = JobSpec::from_value(json!({
        "name": "a", "group": "g", "type": "noop",
        "parents": ["b", {"job": "h/c", "mapping": {"offset": 2}}, {"job": "d", "mapping": "all"}],
    }))
    .unwrap();
    let mappings: Vec<_> = spec.parents.iter().map(ParentSpec::mapping).collect();
    assert_eq!(mappings, [Mapping::Same, Mapping::Offset(2), Mapping::All]);
}
