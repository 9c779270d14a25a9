//! The fields of a job as they are documented.

use serde_json::{Value, json};
use tidemill_engine::check_jobs;
use tidemill_model::JobSpec;

/// A job in which the field has a meaning, beside the fields that it goes with.
fn with(field: &str, example: &Value) -> JobSpec {
    let mut job = json!({
        "name": "daily-report", "group": "default", "type": "shell", "command": "true", "parents": ["hourly-load"],
        "schedule": {"period": "day", "zone": "UTC"},
    });
    match field {
        "class" => job["program"] = json!("/opt/report.jar"),
        "cancel_on_timeout" => job["output_timeout_s"] = json!(60),
        _ => {}
    }
    if ["program", "class"].contains(&field) {
        job.as_object_mut().unwrap().remove("command");
    }
    job[field] = example.clone();
    JobSpec::from_value(job).unwrap_or_else(|error| panic!("{field}: {example}: {error:?}"))
}

/// JOB-1: every example of the reference is accepted, stays as it was written, and differs from leaving it out.
#[test]
fn documented_examples_are_accepted() {
    let parent = json!({"name": "hourly-load", "group": "default", "type": "anchor"});
    let parent = JobSpec::from_value(parent).unwrap();
    let mut examples = 0;
    for field in JobSpec::fields() {
        for example in field.examples() {
            let job = with(&field.name, example);
            let written = serde_json::to_value(&job).unwrap();
            assert_eq!(written[&field.name], *example, "{}", field.name);
            assert_ne!(field.schema.get("default"), Some(example), "{}: shows its default", field.name);
            let now = "2026-03-02T10:00:00Z".parse().unwrap();
            check_jobs(&[parent.clone(), job], now).unwrap_or_else(|error| panic!("{}: {error}", field.name));
            examples += 1;
        }
    }
    assert_eq!(examples, JobSpec::fields().len());
}
