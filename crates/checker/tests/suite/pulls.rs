//! Tasks that clients pull. Shard 1 and the catalogue are in one partition; group g keeps its usual settings, whose
//! window is six hours.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::{Answer, Event, GrantId, Outcome, ShardId, TaskId};

use crate::kit::{Case, History, T0, case, event, group};

/// When the usual task starts, half a minute before all begins.
const START: &str = "2026-03-02T10:00:00.000Z";

pub(crate) fn cases() -> Vec<Case> {
    [granting(), order(), ending(), answers(), tasks(), depth(), moves()].into_iter().flatten().collect()
}

/// One case for each way in which a grant may not be.
fn granting() -> Vec<Case> {
    let due = Invariant::TasksGrantedOnlyWhenDue;
    let good = || with(1, json!({})).command([grant(1, 1, "ann", json!({}))]);
    let bad = |task: Value, more: Value| with(1, task).command([grant(1, 1, "ann", more)]);
    let once = |start: &str| json!({"when": {"once": {"start": start}}});
    let minutes = json!({"when": {"every_minutes": {"n": 7, "start": START}}});
    let days = json!({"when": {"every_days": {
        "n": 2, "at": "11:00", "zone": "Europe/Berlin", "start": "2026-02-26T00:00:00.000Z",
    }}});
    let next = |next: &str| json!({"next": next});
    vec![
        case(due, "PUL-5: a start that has not come", good(), {
            let start = "2026-03-02T10:01:00.000Z";
            bad(once(start), json!({"start": start}))
        }),
        case(due, "PUL-5: a start before the window", good(), {
            let late = with(1, once("2026-03-02T04:00:30.000Z"));
            late.pass(1).command([grant(1, 1, "ann", json!({"start": "2026-03-02T04:00:30.000Z"}))])
        }),
        case(
            due,
            "PUL-3: off the grid of minutes",
            bad(minutes.clone(), next("2026-03-02T10:07:00.000Z")),
            bad(
                minutes.clone(),
                json!({"start": "2026-03-02T10:00:01.000Z", "next": "2026-03-02T10:07:00.000Z"}),
            ),
        ),
        case(
            due,
            "PUL-3: off the grid of days",
            bad(days.clone(), next("2026-03-04T10:00:00.000Z")),
            bad(days, json!({"start": "2026-03-02T09:00:00.000Z", "next": "2026-03-04T10:00:00.000Z"})),
        ),
        case(
            due,
            "PUL-3: another next start",
            bad(minutes.clone(), next("2026-03-02T10:07:00.000Z")),
            bad(minutes, next("2026-03-02T10:14:00.000Z")),
        ),
        case(due, "no member", good(), with(1, json!({})).command([grant(1, 1, "eve", json!({}))])),
        case(due, "PUL-2: a task for somebody else", good(), {
            bad(json!({"executor": {"user": "bob"}}), json!({}))
        }),
        case(due, "PUL-11: a task that is deleted", good(), {
            with(1, json!({})).command([deleted(1)]).command([grant(1, 1, "ann", json!({}))])
        }),
        case(due, "PUL-11: a version that is no more", good(), bad(json!({}), json!({"version": 2}))),
        case(
            Invariant::OneLiveGrantPerUser,
            "PUL-5: a second grant instead of the first again",
            with(1, json!({})).then(task_two).command([grant(1, 1, "ann", json!({}))]).command([grant(
                2,
                2,
                "bob",
                json!({}),
            )]),
            with(1, json!({})).then(task_two).command([grant(1, 1, "ann", json!({}))]).command([grant(
                2,
                2,
                "ann",
                json!({}),
            )]),
        ),
        case(
            Invariant::StockNeverBelowZero,
            "PUL-4: one more than dispatch times",
            with(1, json!({"dispatch_times": 2})).then(both),
            with(1, json!({"dispatch_times": 1})).then(both),
        ),
        case(
            Invariant::StockNeverBelowZero,
            "PUL-4: what is completed is used",
            with(1, json!({"dispatch_times": 2})).then(done).command([grant(2, 1, "bob", json!({}))]),
            with(1, json!({})).then(done).command([grant(2, 1, "bob", json!({}))]),
        ),
        case(
            Invariant::PlainTasksOncePerUser,
            "PUL-4: a plain task twice for one user",
            with(1, json!({"dispatch_times": 2, "repeat": true})).then(done).then(again),
            with(1, json!({"dispatch_times": 2})).then(done).then(again),
        ),
        case(
            Invariant::PlainTasksOncePerUser,
            "whoever has a name anew has done nothing yet",
            with(1, json!({"dispatch_times": 2})).then(done).then(named_anew).then(again),
            with(1, json!({"dispatch_times": 2})).then(named_anew_at_once).then(done).then(again),
        ),
        case(
            Invariant::MintedIdsGrow,
            "a grant's number twice",
            with(1, json!({"dispatch_times": 2})).then(done).command([grant(2, 1, "bob", json!({}))]),
            with(1, json!({"dispatch_times": 2})).then(done).command([grant(1, 1, "bob", json!({}))]),
        ),
    ]
}

fn order() -> Vec<Case> {
    let rule = Invariant::EarliestTaskFirst;
    let earlier = json!({"when": {"once": {"start": "2026-03-02T09:00:00.000Z"}}});
    let two = || with(1, json!({"dispatch_times": 3, "repeat": true})).command([task(2, earlier.clone())]);
    let first = json!({"start": "2026-03-02T09:00:00.000Z"});
    // Since the window begins at what was completed last, a task with the same start comes next, or the same again.
    let repeated = || with(1, json!({"dispatch_times": 3, "repeat": true})).then(done).then(task_two);
    let same = json!({});
    vec![
        case(
            rule,
            "PUL-5: the later of two",
            two().command([grant(1, 2, "ann", first)]),
            two().command([grant(1, 1, "ann", same.clone())]),
        ),
        case(
            rule,
            "PUL-4: a repeat task goes on",
            repeated().command([grant(2, 1, "ann", same.clone())]),
            repeated().command([grant(2, 2, "ann", same)]),
        ),
    ]
}

fn ending() -> Vec<Case> {
    let (late, accounted) = (Invariant::LateCompletionsChangeNothing, Invariant::GrantsAccountedFor);
    let leases = Invariant::GrantLeasesKept;
    let given = || with(1, json!({})).command([grant(1, 1, "ann", json!({}))]);
    let completed = || given().command([complete(1, 1, "ann")]);
    let leased = |expires: &str| {
        with(1, json!({"lease_s": 60})).command([grant(1, 1, "ann", json!({"expires_at": expires}))])
    };
    let over = "2026-03-02T10:01:30.000Z";
    let back = || given().command([returned(1, 1, "ann")]);
    vec![
        case(late, "PUL-7: completed twice", completed(), completed().command([complete(1, 1, "ann")])),
        case(late, "PUL-7: completed by another user", completed(), given().command([complete(1, 1, "bob")])),
        case(late, "PUL-7: completed as another task", completed(), {
            given().then(task_two).command([complete(1, 2, "ann")])
        }),
        case(late, "PUL-13: completed after its lease", completed(), {
            leased(over).pass(60).timer([expired(1, 1, "ann")]).command([complete(1, 1, "ann")])
        }),
        case(
            accounted,
            "BYD-10: given back twice",
            back().command([grant(2, 1, "ann", json!({}))]),
            back().command([returned(1, 1, "ann")]),
        ),
        case(accounted, "BYD-10: given back though completed", completed(), {
            completed().command([returned(1, 1, "ann")])
        }),
        case(leases, "PUL-13: expired too early", leased(over).pass(60).timer([expired(1, 1, "ann")]), {
            leased(over).pass(59).timer([expired(1, 1, "ann")])
        }),
        case(leases, "PUL-13: a lease that the task does not have", leased(over), {
            leased("2026-03-02T10:02:30.000Z")
        }),
        case(
            leases,
            "PUL-13: expired, and it has no lease",
            back(),
            given().pass(60).timer([expired(1, 1, "ann")]),
        ),
        case(
            leases,
            "PUL-13: overdue at rest",
            leased(over).pass(60).timer([expired(1, 1, "ann")]).at_rest(),
            leased(over).pass(61).timer([]).at_rest(),
        ),
    ]
}

fn answers() -> Vec<Case> {
    let rule = Invariant::PullsAnsweredAsOnRecord;
    let given = || with(1, json!({})).command([grant(1, 1, "ann", json!({}))]);
    let told = |more: Value| {
        let base = json!({
            "grant": grant_id(1), "task": task_id(1), "version": 1, "start": START, "granted_at": T0, "redo": true,
        });
        Outcome::Answered(Answer::Pulled(serde_json::from_value(merged(base, more)).unwrap()))
    };
    let pull = |history: History, user: &str, outcome| history.answers("p", pull_of(user), outcome);
    let later = || with(1, json!({"when": {"once": {"start": "2026-03-02T11:00:00.000Z"}}}));
    let completed = |result: &str| {
        let done = given().command([complete(1, 1, "ann")]);
        let request = json!({"task": {"complete": {"user": "ann", "grant": grant_id(1), "result": result}}});
        done.answers(
            "p",
            request,
            Outcome::Answered(Answer::Completed { grant: GrantId::mint(1, ShardId(1)) }),
        )
    };
    vec![
        case(
            rule,
            "PUL-5: the live grant again, with other parameters",
            pull(given(), "ann", told(json!({}))),
            pull(given(), "ann", told(json!({"version": 2}))),
        ),
        case(
            rule,
            "PUL-5: somebody else's grant",
            pull(given(), "ann", told(json!({}))),
            pull(given(), "bob", told(json!({}))),
        ),
        case(
            rule,
            "PUL-5: a grant that is over",
            pull(given(), "ann", told(json!({}))),
            pull(given().command([returned(1, 1, "ann")]), "ann", told(json!({}))),
        ),
        case(
            rule,
            "PUL-6: nothing is due, and something is",
            pull(given(), "bob", nothing(None)),
            pull(with(1, json!({})), "bob", nothing(None)),
        ),
        case(
            rule,
            "PUL-6: when to ask again",
            pull(later(), "bob", nothing(Some("2026-03-02T11:00:00.000Z"))),
            pull(later(), "bob", nothing(None)),
        ),
        case(rule, "PUL-7: completed with another result", completed("done"), completed("other")),
    ]
}

fn tasks() -> Vec<Case> {
    let (limits, purged) = (Invariant::TasksWithinLimits, Invariant::TasksPurgedByAge);
    let change = |version: u32, more: Value| {
        event(json!({"task": {"changed": {"task": task_id(1), "version": version, "spec": spec(more)}}}))
    };
    let known = || with(1, json!({"dispatch_times": 2})).then(both);
    let rotating = |n: u64| task(n, json!({"when": {"every_minutes": {"n": 5, "start": START}}}));
    let limited = || {
        let settings = json!({"pull_rotating_limit": 1});
        let group = json!({"group": 1, "name": "g", "worker_key": "k", "settings": settings});
        History::new().command([event(json!({"replication": {"group_replicated": group}}))])
    };
    let purge = |before: &str| event(json!({"task": {"purged": {"before": before, "tasks": [task_id(1)]}}}));
    let later = || with(1, json!({})).at("2026-04-02T10:00:30.000Z");
    vec![
        case(
            limits,
            "PUL-11: a version is left out",
            known().command([change(2, json!({"dispatch_times": 2}))]),
            known().command([change(3, json!({"dispatch_times": 2}))]),
        ),
        case(
            limits,
            "PUL-4: dispatch times below what is given",
            known().command([change(2, json!({"dispatch_times": 2}))]),
            known().command([change(2, json!({"dispatch_times": 1}))]),
        ),
        case(
            limits,
            "another executor",
            known().command([change(2, json!({"dispatch_times": 2}))]),
            known().command([change(2, json!({"dispatch_times": 2, "executor": {"user": "ann"}}))]),
        ),
        case(
            limits,
            "PUL-2: deleted, and changed after that",
            known().command([deleted(1)]),
            known().command([deleted(1)]).command([change(2, json!({"dispatch_times": 2}))]),
        ),
        case(
            limits,
            "PUL-10: more rotating tasks than the group may have",
            limited().command([rotating(1)]).command([task(2, json!({}))]),
            limited().command([rotating(1)]).command([rotating(2)]),
        ),
        case(limits, "PUL-2: a once task that nobody may get", with(1, json!({})), {
            with(1, json!({"when": {"once": {"start": "2026-03-02T04:00:29.000Z"}}}))
        }),
        case(
            Invariant::MintedIdsGrow,
            "a task's number twice",
            with(1, json!({})).command([task(2, json!({}))]).command([task(3, json!({}))]),
            with(1, json!({})).command([task(3, json!({}))]).command([task(2, json!({}))]),
        ),
        case(
            purged,
            "PUL-14: purged before its time",
            later().timer([purge("2026-03-03T10:00:30.000Z")]),
            later().timer([purge("2026-03-03T10:00:31.000Z")]),
        ),
        case(
            purged,
            "PUL-14: the horizon goes back",
            later().timer([purge("2026-03-03T00:00:00.000Z")]),
            later().timer([purge("2026-03-03T00:00:00.000Z")]).timer([event(
                json!({"task": {"purged": {"before": "2026-03-02T23:00:00.000Z", "tasks": []}}}),
            )]),
        ),
    ]
}

/// PUL-1: in each place where a record holds parameters.
fn depth() -> Vec<Case> {
    let rule = Invariant::ParametersWithinDepth;
    let deep = |levels: usize| {
        let deep = (0..levels).fold(json!(1), |value, level| match level % 2 {
            0 => json!([value, 2]),
            _ => json!({"in": value}),
        });
        json!({"deep": deep, "flat": 3})
    };
    let changed = |levels: usize| {
        let spec = spec(json!({"parameters": deep(levels)}));
        event(json!({"task": {"changed": {"task": task_id(1), "version": 2, "spec": spec}}}))
    };
    let answered = |levels: usize| {
        let pulled = json!({"pulled": {
            "grant": grant_id(1), "task": task_id(1), "version": 1, "start": START, "granted_at": T0, "redo": true,
            "parameters": deep(levels),
        }});
        let answer: Answer = serde_json::from_value(pulled).unwrap();
        let history = with(1, json!({})).command([grant(1, 1, "ann", json!({}))]);
        history.answers("p", pull_of("ann"), Outcome::Answered(answer))
    };
    let moved = |levels: usize| {
        let spec = spec(json!({"executor": {"user": "ann"}, "parameters": deep(levels)}));
        let none = json!({"taken": 0, "live": 0, "completed": 0, "returned": 0, "expired": 0});
        let own = json!({"task": task_id(7), "version": 1, "spec": spec, "totals": none});
        let ann = json!({"user": "ann", "tasks": [own]});
        let group = json!({"group": 1, "name": "g", "worker_key": "k", "settings": {}});
        let history = History::new().command([event(json!({ "replication": {"group_replicated": group }}))]);
        history.command([event(json!({ "transfer": {"user_attached": ann }}))])
    };
    vec![
        case(
            rule,
            "PUL-1: a task",
            with(1, json!({"parameters": deep(32)})),
            with(1, json!({"parameters": deep(33)})),
        ),
        case(
            rule,
            "PUL-1: a changed task",
            with(1, json!({})).command([changed(32)]),
            with(1, json!({})).command([changed(33)]),
        ),
        case(rule, "PUL-1: what a user was answered", answered(32), answered(33)),
        case(rule, "PUL-1: a task that comes with its user", moved(32), moved(33)),
    ]
}

/// Users, as the catalogue says and shards 1 and 2 carry out.
fn moves() -> Vec<Case> {
    let rule = Invariant::UsersHaveOneHome;
    let shards = Invariant::MessagesBetweenShardsOnceInOrder;
    let done = json!({
        "last": {
            "grant": grant_id(1), "task": task_id(1), "start": START, "result_hash": hash("done"),
            "completed_at": T0,
        },
        "done": [task_id(1)],
    });
    let ask = || event(json!({"catalogue": {"user_move_requested": {"user": "ann", "from": 1, "to": "h"}}}));
    let released =
        |history: &Value| event(json!({"transfer": {"user_detached": {"user": "ann", "history": history}}}));
    let moved = |history: &Value| {
        event(
            json!({"catalogue": {"user_moved": {"user": "ann", "from": 1, "to": "h", "shard": 2, "history": history}}}),
        )
    };
    let received =
        |history: &Value| event(json!({"transfer": {"user_attached": {"user": "ann", "history": history}}}));
    let holds = || {
        let task = task(1, json!({"dispatch_times": 2}));
        two_groups().on(0, 1).command([task]).command([grant(1, 1, "ann", json!({}))])
    };
    let asked = || holds().command([complete(1, 1, "ann")]).on(0, 0).command([ask()]).on(0, 1);
    let let_go = |history: &Value| asked().command([heard(0, 3), released(history)]);
    let told = |history: &Value| let_go(&done).on(0, 0).command([heard(1, 1), moved(history)]);
    let arrived = |history: &Value| told(&done).on(0, 2).command([heard(0, 2), received(history)]);
    let twice = event(json!({"catalogue": {"users_assigned": {"group": "h", "shard": 2, "users": ["bob"]}}}));
    let new = event(json!({"catalogue": {"users_assigned": {"group": "h", "shard": 2, "users": ["cid"]}}}));
    let kept = event(
        json!({"transfer": {"user_detach_rejected": {"user": "ann", "reason": {"grant_live": {"user": "ann", "grant": 1}}}}}),
    );
    vec![
        case(
            rule,
            "PUL-5: a second home",
            two_groups().on(0, 0).command([new]),
            two_groups().on(0, 0).command([twice]),
        ),
        case(rule, "a user becomes a member twice", two_groups(), {
            two_groups()
                .on(0, 1)
                .command([event(json!({"replication": {"users_replicated": {"users": ["bob"]}}}))])
        }),
        case(
            rule,
            "a user leaves with a live grant",
            holds().on(0, 0).command([ask()]).on(0, 1).command([heard(0, 3), kept]),
            holds().on(0, 0).command([ask()]).on(0, 1).command([heard(0, 3), released(&json!({}))]),
        ),
        case(rule, "a user leaves without what it has done", let_go(&done), let_go(&json!({}))),
        case(rule, "the catalogue says otherwise than it was told", told(&done), told(&json!({}))),
        case(rule, "what the shard said is never heard", arrived(&done).at_rest(), let_go(&done).at_rest()),
        case(rule, "a user is moved, and nobody requested it", told(&done), {
            told(&done).command([event(json!({"catalogue": {"user_moved": {"user": "bob", "from": 1}}}))])
        }),
        case(shards, "a user arrives otherwise than sent", arrived(&done), arrived(&json!({}))),
        case(
            Invariant::PullsAnsweredAsOnRecord,
            "a user who left gets nothing",
            arrived(&done).on(0, 2).answers("p", pull_of("ann"), nothing(None)),
            arrived(&done).on(0, 1).answers("p", pull_of("ann"), nothing(None)),
        ),
    ]
}

/// Groups g and h, and users ann and bob of g.
fn two_groups() -> History {
    let defined = |number: u16, name: &str| {
        let group =
            json!({"group": number, "name": name, "shard": number, "worker_key": "k", "settings": {}});
        event(json!({ "catalogue": {"group_defined": group }}))
    };
    let received = |number: u16, name: &str| {
        let group = json!({"group": number, "name": name, "worker_key": "k", "settings": {}});
        event(json!({ "replication": {"group_replicated": group }}))
    };
    let assigned = json!({"group": "g", "shard": 1, "users": ["ann", "bob"]});
    let catalogue = History::new().on(0, 0).command([defined(1, "g"), defined(2, "h")]);
    let catalogue = catalogue.command([event(json!({ "catalogue": {"users_assigned": assigned }}))]);
    let first = catalogue.on(0, 1).command([heard(0, 1), received(1, "g"), heard(0, 2), users()]);
    first.on(0, 2).command([heard(0, 1), received(2, "h")])
}

fn users() -> Event {
    event(json!({"replication": {"users_replicated": {"users": ["ann", "bob"]}}}))
}

fn heard(from: u16, number: u64) -> Event {
    event(json!({"partition": {"message_received": {"from": from, "number": number}}}))
}

/// Group g, users ann and bob, and task `n`.
fn with(n: u64, more: Value) -> History {
    History::new().command([group(), users()]).command([task(n, more)])
}

fn task_id(n: u64) -> i64 {
    TaskId::mint(n, ShardId(1)).0
}

fn grant_id(n: u64) -> i64 {
    GrantId::mint(n, ShardId(1)).0
}

fn hash(text: &str) -> String {
    tidemill_log::Hash::of(text.as_bytes()).to_string()
}

fn merged(mut base: Value, more: Value) -> Value {
    base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    base
}

fn spec(more: Value) -> Value {
    merged(json!({"executor": {"group": "g"}, "when": {"once": {"start": START}}}), more)
}

fn task(n: u64, more: Value) -> Event {
    event(json!({"task": {"created": {"task": task_id(n), "spec": spec(more)}}}))
}

fn task_two(history: History) -> History {
    history.command([task(2, json!({}))])
}

fn deleted(n: u64) -> Event {
    event(json!({"task": {"deleted": {"task": task_id(n)}}}))
}

fn grant(n: u64, task: u64, user: &str, more: Value) -> Event {
    let base = json!({
        "grant": grant_id(n), "task": task_id(task), "version": 1, "start": START, "user": user,
    });
    event(json!({"task": {"granted": merged(base, more)}}))
}

fn ended(n: u64, task: u64, user: &str, more: Value) -> Value {
    merged(json!({"grant": grant_id(n), "task": task_id(task), "start": START, "user": user}), more)
}

fn complete(n: u64, task: u64, user: &str) -> Event {
    event(json!({"task": {"completed": ended(n, task, user, json!({"result": "done"}))}}))
}

fn returned(n: u64, task: u64, user: &str) -> Event {
    event(json!({"task": {"grant_returned": ended(n, task, user, json!({"by": {"app": "me"}}))}}))
}

fn expired(n: u64, task: u64, user: &str) -> Event {
    event(json!({"task": {"grant_expired": ended(n, task, user, json!({}))}}))
}

/// Grants 1 and 2 of task 1, to ann and bob.
fn both(history: History) -> History {
    history.command([grant(1, 1, "ann", json!({})), grant(2, 1, "bob", json!({}))])
}

/// Grant 1 of task 1, which ann completed.
fn done(history: History) -> History {
    history.command([grant(1, 1, "ann", json!({}))]).command([complete(1, 1, "ann")])
}

fn again(history: History) -> History {
    history.command([grant(2, 1, "ann", json!({}))])
}

/// Ann leaves with what she has done, and another Ann comes.
fn named_anew(history: History) -> History {
    let last = json!({
        "grant": grant_id(1), "task": task_id(1), "start": START, "result_hash": hash("done"), "completed_at": T0,
    });
    let left = json!({"user": "ann", "history": {"last": last, "done": [task_id(1)]}});
    history.command([event(json!({ "transfer": {"user_detached": left }}))]).pass(1).command([ann()])
}

fn named_anew_at_once(history: History) -> History {
    history.command([event(json!({"transfer": {"user_detached": {"user": "ann"}}}))]).command([ann()])
}

fn ann() -> Event {
    event(json!({"replication": {"users_replicated": {"users": ["ann"]}}}))
}

fn pull_of(user: &str) -> Value {
    json!({"task": {"pull": {"user": user}}})
}

fn nothing(next: Option<&str>) -> Outcome {
    Outcome::Answered(Answer::NothingDue { next_at: next.map(crate::kit::at) })
}
