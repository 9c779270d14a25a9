//! Jobs as the workload writes them: what a definition may say, drawn field by field.

use serde_json::{Value, json};

use super::catalogue::uses_of_pools;
use crate::outside::CODES;
use crate::rng::Rng;

pub(super) fn spec(rng: &mut Rng, group: &str, name: &str, clusters: usize) -> Value {
    let kind = ["noop", "noop", "shell", "shell", "shell", "anchor", "python"][rng.below(7)];
    let missed = ["all", "latest", "none"][rng.below(3)];
    let mut job = json!({
        "name": name, "group": group, "type": kind,
        "max_concurrent": rng.range(1, 4), "retries": rng.range(0, 3), "retry_interval_s": rng.range(0, 5),
        "missed_runs": missed,
        "priority": rng.range(0, 10),
    });
    if !matches!(kind, "noop" | "anchor") {
        job["command"] = json!("echo ${logical_time}");
        // JOB-1, JOB-7: resolved by whichever owner grants the start.
        job["arguments"] = json!(["${job}", "${priority}", "${version}"]);
    }
    match rng.range(0, 10) {
        0..5 => {
            let every = [10, 15, 20, 30][rng.below(4)];
            job["schedule"] = json!({"cron": format!("0/{every} * * * * ?"), "zone": "UTC"});
        }
        5 => job["schedule"] = json!({"period": "hour", "zone": "Europe/Berlin"}),
        _ => {}
    }
    rng.sometimes(15, &mut job, "depends_on_past", |_| json!(true));
    rng.sometimes(10, &mut job, "host", |rng| json!(format!("host-{}", rng.below(clusters + 1))));
    rng.sometimes(10, &mut job, "enabled", |_| json!(false));
    timeouts(&mut rng.clone(), &mut job);
    after_failures(&mut rng.clone(), &mut job);
    firing(&mut rng.clone(), &mut job);
    needs(&mut rng.clone(), &mut job);
    if rng.clone().chance(10) {
        job["earliest_start_minutes"] = json!(rng.clone().range(0, 2));
    }
    resources(&mut rng.aside("needs"), &mut job);
    execution(&mut rng.clone(), &mut job);
    uses_of_pools(&mut rng.aside("pools"), &mut job);
    job
}

pub(super) fn parents(
    rng: &mut Rng,
    group: &str,
    names: &[String],
    known: &[(String, String)],
) -> Vec<Value> {
    let mut parents: Vec<Value> = Vec::new();
    let mut taken: Vec<String> = Vec::new();
    while rng.chance(45) && parents.len() < 3 {
        let own: Vec<(String, String)> = names.iter().map(|name| (group.to_owned(), name.clone())).collect();
        let from = if rng.chance(50) { &own[..] } else { known };
        let Some((of, name)) = rng.pick(from) else { break };
        // Only towards smaller names, so that most graphs have no cycle.
        let full = format!("{of}/{name}");
        if taken.contains(&full) {
            continue;
        }
        taken.push(full.clone());
        let mapping = match rng.range(0, 8) {
            0..2 => json!("same"),
            2 => json!({"offset": rng.range(1, 3)}),
            3 => json!("all"),
            4..7 => json!("latest"),
            _ => json!("any"),
        };
        parents.push(json!({"job": full, "mapping": mapping}));
    }
    parents
}

pub(super) fn when_parents_fail(rng: &mut Rng, job: &mut Value) {
    match rng.range(0, 10) {
        0..3 => {}
        3..8 => job["on_parent_failure"] = json!(["fail", "skip", "run"][rng.below(3)]),
        _ => job["run_if"] = json!("failure"),
    }
}

/// A value of its first parent in the arguments of its command, itself or by a parameter, or in a parameter of its final
/// command; that parent may or may not pass it on.
pub(super) fn named_values(rng: &mut Rng, job: &mut Value) {
    let first = &job["parents"][0];
    let parent = first.as_str().or(first["job"].as_str()).unwrap_or_default();
    let value = format!("${{values.{parent}.rows}}");
    if rng.chance(75) && job["command"].is_string() {
        (job["command"], job["arguments"]) = (json!("echo"), json!([value]));
    } else if rng.chance(10) && job["command"].is_string() {
        (job["command"], job["arguments"]) = (json!("echo"), json!(["${param.rows}"]));
        job["parameters"] = json!({"rows": value});
    } else if rng.chance(20) && job["final_command"].is_string() {
        job["parameters"] = json!({"rows": value});
    }
}

/// What its exit codes mean, and how its pauses grow.
fn after_failures(rng: &mut Rng, job: &mut Value) {
    rng.sometimes(25, job, "exit_codes", |_| json!({"no_retry": [2], "skip": [3]}));
    if rng.chance(25) {
        let factor = [1.0, 1.5, 2.0, 10.0][rng.below(4)];
        job["retry_backoff"] = json!({"factor": factor, "max_interval_s": 8, "jitter": rng.chance(50)});
    }
}

/// How its schedule is followed.
fn firing(rng: &mut Rng, job: &mut Value) {
    if job["schedule"].is_null() {
        return;
    }
    let overlap = rng.range(0, 12);
    let many = job["max_concurrent"] != 1;
    match overlap {
        0..2 => job["overlap"] = json!("skip"),
        2..4 if many => job["overlap"] = json!("allow"),
        4..6 if !many && job["depends_on_past"].is_null() => job["overlap"] = json!("cancel_old"),
        _ => {}
    }
    if rng.chance(10) && job["missed_runs"] != "none" {
        job["missed_runs"] = json!({"policy": job["missed_runs"], "max_lateness_s": rng.range(1, 20)});
    }
    if rng.chance(20) {
        let on = if rng.chance(80) { "working_days" } else { "holidays" };
        job["calendar"] = json!({"name": format!("c{}", rng.below(3)), "on": on});
    }
    if rng.chance(5) {
        job["valid_until"] = json!("2100-01-01T00:00:00+01:00");
        job["valid_from"] = json!("1990-01-01T00:00:00Z");
    }
}

/// What it waits for outside.
fn needs(rng: &mut Rng, job: &mut Value) {
    // Not the draws that say by when it should have got somewhere.
    let mut rng = Rng::new(rng.next(), "needs", 0);
    rng.sometimes(20, job, "inputs", |_| json!([{"path": "/d0/${yyyyMMddHHmm}", "mark": "_SUCCESS"}]));
    rng.sometimes(10, job, "inputs", |_| json!(["/d1", {"path": "/d0/${yyyyMMddHHmm}", "mark": "_SUCCESS"}]));
    let mut data = rng.aside("outputs");
    if data.chance(20) {
        let outputs = ["/d0/${yyyyMMddHHmm}", "/d0/${yyyyMMddHHmm-1m}", "/d1"];
        job["outputs"] = json!([outputs[data.below(outputs.len())]]);
    }
    rng.sometimes(12, job, "third_party", |rng| json!([CODES[rng.below(CODES.len())]]));
    rng.sometimes(12, job, "quality_gate", |_| json!(true));
}

fn execution(rng: &mut Rng, job: &mut Value) {
    let kind = job["type"].as_str().unwrap_or_default().to_owned();
    // Not the numbers that its timeouts are drawn from.
    rng.next();
    rng.next();
    if kind == "anchor" {
        return;
    }
    rng.sometimes(25, job, "final_command", |_| json!("echo ${batch_id} $TIDEMILL_RESULT"));
    rng.sometimes(8, job, "worker_label", |rng| json!(["even", "odd", "none"][rng.below(3)]));
    if kind == "noop" {
        return;
    }
    if rng.chance(10) {
        job["run_as"] = json!("etl");
        job["owner"] = json!(["ann", "bob"][rng.below(2)]);
    }
    rng.sometimes(30, job, "success_check", |_| json!("user_code"));
    let mut lost = rng.aside("lost output");
    if lost.chance(90) && job.get("success_check").is_none() {
        let path = ["/d2", "/d2/${yyyyMMddHHmm}"][lost.below(2)];
        job["success_check"] = json!({"output_path": path});
    }
    rng.sometimes(10, job, "expected_duration_s", |rng| json!(rng.range(1, 5)));
}

/// By when its batches should have got somewhere.
fn timeouts(rng: &mut Rng, job: &mut Value) {
    rng.sometimes(15, job, "dependency_timeout_s", |rng| json!(rng.range(1, 20)));
    rng.sometimes(15, job, "output_timeout_s", |rng| json!(rng.range(1, 20)));
    if rng.chance(10) {
        job["not_successful_by"] = json!(format!("{:02}:00:{:02}", rng.range(0, 24), rng.range(0, 60)));
        job["cancel_on_timeout"] = json!(rng.chance(50));
    }
}

/// What its batches need beside a slot.
fn resources(rng: &mut Rng, job: &mut Value) {
    if rng.chance(20) && job["type"] != "anchor" {
        job["memory_mb"] = json!(rng.range(1, 12) * 100);
    }
    let mut limits = rng.aside("limits");
    if limits.chance(15) && job["type"] != "anchor" && job["type"] != "noop" {
        job["limits"] = json!({"memory_mb": limits.range(50, 500), "processes": limits.range(1, 100)});
    }
}

/// Fixed times of day, before and after the clocks are set back.
pub(super) fn by_night(spec: &mut Value) {
    if spec.pointer("/schedule/cron").is_some() {
        spec["schedule"] = json!({"cron": "0/10 0,1,2,3,58,59 1,2,3 * * ?", "zone": "Europe/Berlin"});
    }
}
