//! What batches wait for outside: external dependencies, overrides, the quality gate.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::{Event, ExternalDependencyId, ShardId};

use crate::kit::{
    Case, History, assigned, batch_id, case, event, generated, granted, harmless, job, job_id, killed_by,
    returned, world,
};

fn external_dependency(n: u64) -> i64 {
    ExternalDependencyId::mint(n, ShardId(1)).0
}

fn waited(n: u64, path: &str) -> Event {
    event(
        json!({"observation": {"external_dependency_registered": {"external_dependency": external_dependency(n), "what": {"path": {"path": path}}}}}),
    )
}

fn satisfied(n: u64, generation: u64) -> Event {
    event(
        json!({"observation": {"external_dependency_satisfied": {"external_dependency": external_dependency(n), "generation": generation}}}),
    )
}

fn withdrawn(n: u64, generation: u64) -> Event {
    event(
        json!({"observation": {"external_dependency_revoked": {"external_dependency": external_dependency(n), "generation": generation, "worker": "w"}}}),
    )
}

fn forgotten(n: u64) -> Event {
    event(
        json!({"observation": {"external_dependencies_evicted": {"external_dependencies": [external_dependency(n)]}}}),
    )
}

fn gone() -> Value {
    json!({"rejected": "not there"})
}

/// Batch 1 waits for /a.
fn waiting() -> History {
    world().command([
        waited(1, "/a"),
        generated(1, 1, json!({"external_dependencies": [external_dependency(1)]})),
    ])
}

/// ... which is there.
fn there() -> History {
    waiting().command([satisfied(1, 1)])
}

/// ... and batch 1 is given to w.
fn given() -> History {
    there().timer([assigned(1, 1, "w", 1)])
}

/// Batch 1 waits for the quality service only.
fn gated() -> History {
    world().command([generated(1, 1, json!({"quality_gate": true}))])
}

fn requested(number: u32, again_at: &str) -> Event {
    event(
        json!({"batch": {"quality_requested": {"batch": batch_id(1), "number": number, "again_at": again_at}}}),
    )
}

fn taken(number: u32) -> Event {
    event(json!({"batch": {"quality_sent": {"batch": batch_id(1), "number": number, "by": "p"}}}))
}

fn word(allowed: bool) -> Event {
    event(
        json!({"batch": {"quality_answered": {"batch": batch_id(1), "allowed": allowed, "by": {"app": "dq"}}}}),
    )
}

const LATER: &str = "2026-03-02T10:01:30.000Z";

fn asked() -> History {
    gated().timer([requested(1, LATER)])
}

fn overridden(more: Value) -> Event {
    let mut value = json!({"batch": batch_id(1), "by": {"app": "me"}, "reason": "late"});
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event(json!({ "batch": {"dependency_overridden": value }}))
}

/// Batch 1 waits for job 2, of which nothing is known.
fn orphan() -> History {
    let waits = json!({"parent": job_id(2), "mapping": "same", "times": ["2026-03-02T09:00:00.000Z"]});
    world().command([generated(1, 1, json!({"dependencies": [waits]}))])
}

fn without_parent(unmet: u32) -> Event {
    let parent = json!({"job": job_id(2), "logical_time": "2026-03-02T09:00:00.000Z"});
    overridden(json!({"parents": [parent], "unmet": unmet}))
}

pub(crate) fn cases() -> Vec<Case> {
    [come_and_go(), conditions(), dependency_overrides(), quality(), outputs()]
        .into_iter()
        .flatten()
        .collect()
}

fn come_and_go() -> Vec<Case> {
    let rule = Invariant::ExternalDependenciesComeAndGoInTurn;
    let ended = || there().command([killed_by(1)]);
    vec![
        case(rule, "DEP-1: a batch waits for what nobody told of", waiting(), {
            world().command([generated(1, 1, json!({"external_dependencies": [external_dependency(1)]}))])
        }),
        case(
            rule,
            "DEP-1: one path is two external dependencies",
            world().command([waited(1, "/a"), waited(2, "/b")]),
            world().command([waited(1, "/a"), waited(2, "/a")]),
        ),
        case(rule, "DEP-1: it comes twice", there(), there().command([satisfied(1, 1)])),
        case(rule, "DEP-1: an answer of another generation counts", there(), {
            waiting().command([satisfied(1, 2)])
        }),
        case(
            rule,
            "DEP-6: it goes without a new generation",
            given().command([withdrawn(1, 2), returned(1, 1, "w", gone())]),
            given().command([withdrawn(1, 1), returned(1, 1, "w", gone())]),
        ),
        case(rule, "DEP-6: it goes, and was not there", waiting(), waiting().command([withdrawn(1, 2)])),
        case(
            rule,
            "forgotten though a batch waits for it",
            ended().timer([forgotten(1)]),
            there().timer([forgotten(1)]),
        ),
        case(
            rule,
            "kept at rest though nobody waits for it",
            ended().timer([forgotten(1)]).at_rest(),
            ended().at_rest(),
        ),
    ]
}

fn conditions() -> Vec<Case> {
    let rule = Invariant::AssignedOnlyWhenConditionsHeld;
    let start = || given().command([granted(1, 1, "w", "i")]);
    vec![
        case(rule, "DEP-1: a path is not there", given(), waiting().timer([assigned(1, 1, "w", 1)])),
        case(rule, "DEP-6: the path went before the start", start(), {
            given().command([withdrawn(1, 2)]).command([granted(1, 1, "w", "i")])
        }),
        case(
            rule,
            "DEP-7: a path is not there, and nobody overrode it",
            waiting()
                .command([overridden(json!({"external_dependencies": [external_dependency(1)]}))])
                .timer([assigned(1, 1, "w", 1)]),
            waiting().command([harmless()]).timer([assigned(1, 1, "w", 1)]),
        ),
        case(
            rule,
            "DQ-2: the quality service has refused it",
            asked().command([word(true)]).timer([assigned(1, 1, "w", 1)]),
            asked().command([word(false)]).timer([assigned(1, 1, "w", 1)]),
        ),
        case(
            rule,
            "DEP-7: a parent is unmet",
            orphan().command([without_parent(0)]).timer([assigned(1, 1, "w", 1)]),
            orphan().timer([assigned(1, 1, "w", 1)]),
        ),
    ]
}

fn dependency_overrides() -> Vec<Case> {
    let rule = Invariant::OverridesNameWhatIsWaitedFor;
    let without = |n: u64| overridden(json!({"external_dependencies": [external_dependency(n)]}));
    vec![
        case(rule, "DEP-7: it does not wait for it", waiting().command([without(1)]), {
            world()
                .command([
                    waited(1, "/a"),
                    waited(2, "/b"),
                    generated(1, 1, json!({"external_dependencies": [external_dependency(1)]})),
                ])
                .command([without(2)])
        }),
        case(rule, "DEP-7: it has no gate", gated().command([overridden(json!({"quality": true}))]), {
            there().command([overridden(json!({"quality": true}))])
        }),
        case(rule, "DEP-7: counted wrong", orphan().command([without_parent(0)]), {
            orphan().command([without_parent(1)])
        }),
    ]
}

fn quality() -> Vec<Case> {
    let rule = Invariant::QualityAskedInTurn;
    let both = || {
        world().command([
            waited(1, "/a"),
            generated(1, 1, json!({"external_dependencies": [external_dependency(1)], "quality_gate": true})),
        ])
    };
    let again = "2026-03-02T10:02:30.000Z";
    vec![
        case(
            rule,
            "DQ-1: asked while a path is not there",
            both().command([satisfied(1, 1), requested(1, LATER)]),
            both().timer([requested(1, LATER)]),
        ),
        case(rule, "DQ-1: never asked", asked().at_rest(), gated().at_rest()),
        case(rule, "DQ-1: taken twice", asked().command([taken(1)]), asked().command([taken(1), taken(1)])),
        case(
            rule,
            "DQ-2: asked again too early",
            asked().pass(60).timer([requested(2, again)]),
            asked().pass(59).timer([requested(2, again)]),
        ),
        case(
            rule,
            "DQ-2: asked again though it has answered",
            asked().command([word(false)]),
            asked().command([word(false)]).pass(60).timer([requested(2, again)]),
        ),
        case(rule, "DQ-1: a number is left out", asked(), gated().timer([requested(2, LATER)])),
    ]
}

/// Batch 1, for 09:00 UTC, of job 3, which makes these paths: written, and on record.
fn makes(written: &[&str], made: &[&str]) -> History {
    let paths = |paths: &[&str]| paths.iter().map(|path| json!({"path": path})).collect::<Vec<_>>();
    let more = json!({
        "outputs": written, "parameters": {"lake": "/lake", "day": "${dd}"},
        "schedule": {"period": "day", "zone": "America/New_York"},
    });
    let batch = json!({"outputs": paths(made), "parameters": {"lake": "/pond"}});
    world().command([job(3, more), generated(1, 3, batch)])
}

fn outputs() -> Vec<Case> {
    let rule = Invariant::OutputsAsDeclared;
    let of = |what: &'static str, written: &[&str], good: &[&str], bad: &[&str]| {
        case(rule, what, makes(written, good), makes(written, bad))
    };
    let hours = ["/a", "${param.lake}/${yyyyMMddHH}", "/pond/${yyyy}${MMddHH}"];
    let right = ["/a", "/pond/2026030204"];
    let moved = ["/${yyyy-MM-dd-1d}/${HH+2h}", "/${MM-1M}/${param.day}"];
    // The run is not understood by the checker.
    let unknown = ["/${run}", "/${dd}"];
    vec![
        of("GEN-1: the job's parameter and not the batch's own", &hours, &right, &["/a", "/lake/2026030204"]),
        of("GEN-1: the time of another zone", &hours, &right, &["/a", "/pond/2026030209"]),
        of("GEN-1: one is missing", &hours, &right, &["/a"]),
        of("GEN-1: one comes twice", &hours, &right, &["/a", "/pond/2026030204", "/a"]),
        of(
            "GEN-1: a time is not moved",
            &moved,
            &["/2026-03-01/06", "/02/02"],
            &["/2026-03-02/06", "/02/02"],
        ),
        of("GEN-1: what cannot be resolved is changed", &["/${param.no}"], &["/${param.no}"], &["/"]),
        of("GEN-1: wrong beside one that is not understood", &unknown, &["/0", "/02"], &["/0", "/03"]),
        of("GEN-1: of a job that makes none", &[], &[], &["/a"]),
    ]
}
