//! GEN-10: what an owner has evicted is known all the same.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::{Outcome, Rejection};

use crate::kit::{Case, History, batch_id, case, done, event, generated, job, job_id};

const TIME: &str = "2026-03-02T09:00:00.000Z";

pub(crate) fn cases() -> Vec<Case> {
    let rule = Invariant::RerunsKeepTheirFacts;
    let skipped = |reason: &str| {
        let fields =
            json!({"rerun": 4096, "number": 1, "job": job_id(1), "logical_time": TIME, "reason": reason});
        done().command([event(json!({"rerun": {"run_skipped": fields}}))])
    };
    let account = Invariant::ParametersStayWithTheirAccount;
    let marked = Invariant::KnownBatchesCanBeMarked;
    vec![
        case(rule, "other parameters", again(json!({}), 1), again(json!({"parameters": {"x": "1"}}), 1)),
        case(rule, "left out for a definition that has to be known", skipped("not_wanted"), {
            skipped("unknown_definition")
        }),
        case(account, "parameters of another account", as_account(json!(null)), as_account(json!("etl"))),
        case(marked, "a mark of the newest run is refused", refused(1, "as seen"), refused(0, "as seen")),
        case(marked, "for whatever reason", refused(0, " "), refused(0, "as seen")),
    ]
}

/// Batch 1 of job 1 has been run, its time has been evicted, and it is run again by a plan.
fn again(more: Value, run: u32) -> History {
    let mut fields = json!({"run": run, "origin": "rerun", "rerun": {"rerun": 4096, "number": 1}});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let evicted = event(json!({"partition": {"history_evicted": {"job": job_id(1), "upto": TIME}}}));
    done().command([evicted]).command([generated(2, 1, fields)])
}

/// Batch 2 of job 3 was run with parameters when its job ran as nobody; then the job ran as this account, and a plan repeats
/// them.
fn as_account(account: Value) -> History {
    let parameters = json!({"parameters": {"x": "1"}});
    let mut rerun = json!({"run": 1, "version": 2, "origin": "rerun", "rerun": {"rerun": 4096, "number": 1}});
    rerun.as_object_mut().unwrap().extend(parameters.as_object().unwrap().clone());
    let as_account = json!({"version": 2, "run_as": account, "run_as_by": "etl-team"});
    done()
        .command([job(3, json!({}))])
        .command([generated(2, 3, parameters)])
        .command([job(3, as_account), generated(3, 3, rerun)])
}

/// A mark of what is said to be this run of batch 1 is refused.
fn refused(run: u32, reason: &str) -> History {
    let command = json!({"batch": {"override_result": {
        "batch": batch_id(1), "job": job_id(1), "logical_time": TIME, "result": "failed", "reason": reason, "run": run,
    }}});
    done().command([job(3, json!({}))]).answers(
        "m",
        command,
        Outcome::Refused(Rejection::unknown("batch", 1)),
    )
}
