//! What the facts about tasks that clients pull make of the rows.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Database, Dice, Owner, START_MS, catalogue, id, log, shard, time};
use serde_json::{Value, json};
use tidemill_journal::{Progress, Shutdown};
use tidemill_model::Timestamp;
use tidemill_projector::{Config, purge, rebuild, run, verify};
use tidemill_store::rows::{PullGrantRow, PullLedgerRow, PullTaskRow, PullTaskVersionRow};
use tidemill_store::{PageRequest, PullGrantFilter, PullTaskFilter, ReadPullTables, Row};

fn project(log: &Arc<dyn tidemill_log::Log>, database: &Database) {
    rebuild(&Config::default(), &**log, &*database.tables, &Shutdown::new(), &mut |_| {}).unwrap();
}

fn spec(executor: Value, times: u32) -> Value {
    json!({"executor": executor, "name": "count", "when": {"once": {"start": time(START_MS)}}, "dispatch_times": times})
}

fn created(task: i64, times: u32) -> Value {
    json!({"task": {"created": {"task": id(task), "spec": spec(json!({"group": "demo"}), times)}}})
}

fn granted(task: i64, grant: i64, start: i64, user: &str) -> Value {
    json!({"task": {"granted": {
        "grant": id(grant), "task": id(task), "version": 1, "start": time(start), "user": user,
    }}})
}

fn ends(kind: &str, task: i64, grant: i64, start: i64) -> Value {
    let mut end = json!({"grant": id(grant), "task": id(task), "start": time(start), "user": "ann"});
    match kind {
        "completed" => end["result"] = json!("6 words"),
        "grant_returned" => {
            end["by"] = json!({"app": "etl", "user": "ann"});
            end["reason"] = json!("away");
        }
        _ => {}
    }
    json!({"task": {kind: end}})
}

fn task_row(database: &Database, task: i64) -> PullTaskRow {
    database.tables.pull_task(id(task)).unwrap().remove(0)
}

fn counted(row: &PullTaskRow) -> [i64; 5] {
    [row.taken, row.live, row.completed, row.returned, row.expired]
}

fn ledger(database: &Database, task: i64) -> Vec<PullLedgerRow> {
    database.tables.pull_ledger(id(task), &PageRequest::first(100)).unwrap().items
}

/// BYD-10, PUL-7, PUL-13: what becomes of grants is counted in the task and in its occurrence alike, and shown.
#[test]
fn ledgers_count_what_becomes_of_grants() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    owner.decide(shard());
    let database = Database::new();
    let mut shown = |events: Vec<Value>| {
        owner.decide(events.into_iter().map(|event| (1, event)).collect());
        project(&log, &database);
        (task_row(&database, 1), owner.now_ms)
    };
    let (row, now) = shown(vec![created(1, 3)]);
    assert_eq!((counted(&row), row.received_at, &*row.state), ([0; 5], now, "valid"));
    assert_eq!((&*row.executor_kind, &*row.executor, &*row.group_name), ("group", "demo", "demo"));
    let (row, _) = shown(vec![granted(1, 2, START_MS, "ann"), granted(1, 3, START_MS, "bob")]);
    assert_eq!(counted(&row), [2, 2, 0, 0, 0]);
    let (row, now) = shown(vec![ends("completed", 1, 2, START_MS), ends("grant_returned", 1, 3, START_MS)]);
    assert_eq!(counted(&row), [2, 0, 1, 1, 0]);
    let (row, _) = shown(vec![
        granted(1, 4, START_MS, "bob"),
        ends("grant_expired", 1, 4, START_MS),
        granted(1, 5, 0, "ann"),
    ]);
    assert_eq!(counted(&row), [4, 1, 1, 1, 1]);
    let occurrences = ledger(&database, 1);
    let counts = |row: &PullLedgerRow| [row.taken, row.live, row.completed, row.returned, row.expired];
    assert_eq!(occurrences.iter().map(counts).collect::<Vec<_>>(), [[3, 0, 1, 1, 1], [1, 1, 0, 0, 0]]);

    let grants = |filter: PullGrantFilter| -> Vec<PullGrantRow> {
        database.tables.pull_grants(&filter, &PageRequest::first(9)).unwrap().items
    };
    let all = grants(PullGrantFilter::default());
    let states: Vec<_> = all.iter().map(|row| (row.id, &*row.state)).collect();
    assert_eq!(states, [(id(5), "live"), (id(4), "expired"), (id(3), "returned"), (id(2), "completed")]);
    assert_eq!((all[3].result.as_deref(), all[3].ended_at), (Some("6 words"), Some(now)));
    assert_eq!((all[2].returned_by.as_deref(), all[2].reason.as_deref()), (Some("etl/ann"), Some("away")));
    assert_eq!(all[0].task_name.as_deref(), Some("count"));
    let of_ann =
        PullGrantFilter { user: Some("ann".into()), state: Some("live".into()), ..Default::default() };
    assert_eq!(grants(of_ann).iter().map(|row| row.id).collect::<Vec<_>>(), [id(5)]);
    let changed = json!({"task": {"changed": {"task": id(1), "version": 2, "spec": spec(json!({"group": "demo"}), 9)}}});
    let (row, now) = shown(vec![changed, json!({"task": {"deleted": {"task": id(1)}}})]);
    assert_eq!((row.version, row.dispatch_times, counted(&row)), (2, 9, [4, 1, 1, 1, 1]));
    assert_eq!((&*row.state, row.changed_at, row.ended_at), ("deleted", Some(now), Some(now)));
}

/// PUL-5: a task that goes with its user is listed once, where the user is, and its ledger with it.
#[test]
fn a_task_goes_with_its_user() {
    let (_, log) = log(2);
    let (mut first, mut second) = (Owner::claim(&*log, 0), Owner::claim(&*log, 1));
    first.decide(catalogue());
    first.decide(vec![
        (0, json!({"catalogue": {"group_defined": {"group": 2, "name": "other", "shard": 2, "worker_key": "aa", "settings": {}}}})),
        (0, json!({"catalogue": {"users_assigned": {"group": "demo", "shard": 1, "users": ["ann", "bob"]}}})),
        (2, json!({"replication": {"group_replicated": {"group": 2, "name": "other", "worker_key": "aa", "settings": {}}}})),
    ]);
    second.decide(shard());
    let own = spec(json!({"user": "ann"}), 2);
    second.decide(vec![
        (1, json!({"task": {"created": {"task": id(1), "spec": own}}})),
        (1, granted(1, 2, START_MS, "ann")),
        (1, ends("completed", 1, 2, START_MS)),
        (1, granted(1, 3, 0, "ann")),
        (1, ends("completed", 1, 3, 0)),
    ]);
    let totals = json!({"taken": 2, "live": 0, "completed": 2, "returned": 0, "expired": 0});
    let kept =
        json!({"start": time(START_MS), "taken": 1, "live": 0, "completed": 1, "returned": 0, "expired": 0});
    let tasks = json!([{"task": id(1), "version": 1, "spec": own, "totals": totals, "occurrences": [kept]}]);
    first.decide(vec![(
        0,
        json!({"catalogue": {"user_move_requested": {"user": "ann", "from": 1, "to": "other"}}}),
    )]);
    second.decide(vec![(1, json!({"transfer": {"user_detached": {"user": "ann", "tasks": tasks}}}))]);
    let database = Database::new();
    project(&log, &database);
    assert!(database.tables.pull_user("ann").unwrap().unwrap().moving);
    assert_eq!(&*task_row(&database, 1).state, "released");

    first.decide(vec![
        (0, json!({"catalogue": {"user_moved": {"user": "ann", "from": 1, "to": "other", "shard": 2, "tasks": tasks}}})),
        (2, json!({"transfer": {"user_attached": {"user": "ann", "tasks": tasks}}})),
    ]);
    project(&log, &database);
    let user = database.tables.pull_user("ann").unwrap().unwrap();
    assert_eq!((&*user.group_name, user.shard, user.moving), ("other", 2, false));
    let listed =
        |filter: PullTaskFilter| database.tables.pull_tasks(&filter, &PageRequest::first(9)).unwrap().items;
    let all = listed(PullTaskFilter::default());
    assert_eq!(all.iter().map(|row| (row.id, row.shard)).collect::<Vec<_>>(), [(id(1), 2)]);
    let row = task_row(&database, 1);
    assert_eq!((row.shard, &*row.group_name, counted(&row)), (2, "other", [2, 0, 2, 0, 0]));
    let shards: Vec<_> = ledger(&database, 1).iter().map(|row| (row.start_at, row.shard)).collect();
    assert_eq!(shards, [(START_MS, 2), (0, 1)], "what is used up stays where it was given");
    let report = verify(&*log, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert!(report.is_clean(), "{:#?}", report.differences);
}

/// Lives of grants of two tasks, in decisions of different sizes.
fn lives(count: i64, seed: u64) -> Vec<Vec<(u16, Value)>> {
    let mut dice = Dice(seed);
    let (mut live, mut decisions, mut decision) =
        (Vec::new(), Vec::new(), vec![(1, created(1, 9)), (1, created(2, 9))]);
    for grant in 10..10 + count {
        let (task, start) =
            (1 + i64::from(dice.below(2) == 0), START_MS + 60_000 * i64::from(dice.below(3) == 0));
        decision.push((1, granted(task, grant, start, "ann")));
        live.push((task, grant, start));
        while live.len() > 4 || (!live.is_empty() && dice.below(2) == 0) {
            let (task, grant, start) =
                live.remove(usize::try_from(dice.below(2)).unwrap().min(live.len() - 1));
            let kinds = ["completed", "grant_returned", "grant_expired"];
            let kind = kinds[usize::try_from(dice.below(3)).unwrap()];
            decision.push((1, ends(kind, task, grant, start)));
        }
        if dice.below(3) == 0 {
            decisions.push(std::mem::take(&mut decision));
        }
    }
    decisions.push(decision);
    decisions.retain(|decision| !decision.is_empty());
    decisions
}

/// EVT-2, BYD-10: ledgers are the same whether the journal is folded in one go or bit by bit, with a cache or without.
#[test]
fn ledgers_do_not_depend_on_how_the_journal_was_cut() {
    for seed in 1..=3 {
        let (_, log) = log(1);
        let mut owner = Owner::claim(&*log, 0);
        let database = Database::new();
        owner.decide(catalogue());
        owner.decide(shard());
        for (piece, decisions) in lives(80, seed).chunks(8).enumerate() {
            let config = Config {
                cached_rows: if piece % 2 == 0 { 0 } else { 1000 },
                min_write_interval_ms: 0,
                ..Config::default()
            };
            let (progress, shutdown) = (Progress::new(), Shutdown::new());
            std::thread::scope(|scope| {
                let running = scope.spawn(|| run(&config, &log, &database.tables, &progress, &shutdown));
                let last = decisions.iter().fold(0, |_, decision| owner.decide(decision.clone()));
                assert!(progress.wait_until(0, last, Duration::from_secs(30)));
                shutdown.request();
                running.join().unwrap().unwrap();
            });
        }
        let report = verify(&*log, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
        assert!(report.is_clean(), "seed {seed}: {:#?}", report.differences);
        let taken: i64 = [1, 2].map(|task| task_row(&database, task).taken).iter().sum();
        assert_eq!(taken, 80);
        for task in [1, 2] {
            let [taken, live, completed, returned, expired] = counted(&task_row(&database, task));
            assert_eq!(taken, live + completed + returned + expired);
            assert_eq!(taken, ledger(&database, task).iter().map(|row| row.taken).sum::<i64>());
        }
    }
}

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// PUL-14: what is old and over leaves the tables; what somebody has, what its owner has not forgotten, and totals
/// stay. Tables that are rebuilt have the same rows, and both are what the journal says.
#[test]
fn what_is_old_and_over_leaves_the_tables() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    let database = Database::new();
    owner.decide(catalogue());
    owner.decide(shard());
    let rotating = json!({
        "executor": {"group": "demo"}, "when": {"every_minutes": {"n": 5, "start": time(START_MS)}}, "dispatch_times": 9,
    });
    owner.decide(vec![
        (1, created(1, 9)),
        (1, created(2, 9)),
        (1, json!({"task": {"created": {"task": id(3), "spec": rotating}}})),
        (1, granted(1, 11, START_MS, "ann")),
        (1, granted(1, 12, START_MS, "bob")),
        (1, granted(2, 13, START_MS, "cleo")),
        (1, granted(3, 14, START_MS, "dora")),
        (1, granted(3, 15, START_MS + 300_000, "emil")),
    ]);
    owner.decide(vec![
        (1, ends("completed", 1, 11, START_MS)),
        (1, ends("grant_returned", 1, 12, START_MS)),
        (1, ends("grant_expired", 3, 14, START_MS)),
    ]);
    let first = owner.now_ms;
    owner.now_ms += 10 * DAY_MS;
    owner.decide(vec![(1, granted(2, 16, START_MS, "fee")), (1, ends("completed", 2, 16, START_MS))]);
    project(&log, &database);
    let shown = || {
        let grants =
            database.tables.pull_grants(&PullGrantFilter::default(), &PageRequest::first(99)).unwrap();
        let grants: Vec<_> = grants.items.iter().map(|row| row.id >> 12).collect();
        let ledgers: Vec<_> = (1..=3)
            .flat_map(|task| {
                ledger(&database, task).into_iter().map(move |row| (task, row.start_at - START_MS))
            })
            .collect();
        let tasks: Vec<_> =
            (1..=3).filter(|task| !database.tables.pull_task(id(*task)).unwrap().is_empty()).collect();
        (grants, ledgers, tasks)
    };
    let is_what_the_journal_says = || {
        let report = verify(&*log, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
        assert!(report.is_clean(), "{:#?}", report.differences);
    };
    let before = Timestamp::from_millisecond(first + DAY_MS).unwrap();
    let purged = || purge(&*database.tables, before, &Shutdown::new()).unwrap();
    let whole = (vec![16, 15, 14, 13, 12, 11], vec![(1, 0), (2, 0), (3, 300_000), (3, 0)], vec![1, 2, 3]);
    assert_eq!(shown(), whole);

    // Its owner may still give of these tasks: only the grants that are over go.
    assert_eq!(purged(), 3);
    let (_, ledgers, tasks) = whole;
    assert_eq!(shown(), (vec![16, 15, 13], ledgers, tasks));
    is_what_the_journal_says();

    // Forgotten by the owner: but of task 2 somebody still has a grant.
    let forgotten =
        json!({"task": {"purged": {"before": time(START_MS + DAY_MS), "tasks": [id(1), id(2), id(3)]}}});
    owner.decide(vec![(1, forgotten)]);
    project(&log, &database);
    assert_eq!(purged(), 0, "tables that are rebuilt lack the same");
    let left = (vec![16, 15, 13], vec![(2, 0), (3, 300_000)], vec![2, 3]);
    assert_eq!(shown(), left);
    assert_eq!(counted(&task_row(&database, 3)), [2, 1, 0, 0, 1]);
    is_what_the_journal_says();

    // Late, but live until then: now it is over as well.
    owner.decide(vec![
        (1, ends("completed", 2, 13, START_MS)),
        (1, ends("completed", 3, 15, START_MS + 300_000)),
    ]);
    run_for_a_moment(&log, &database, &mut owner);
    assert_eq!(shown(), left);
    // Two grants, two ledgers and the task; what is left of the grants still names its version.
    assert_eq!(purged(), 5);
    assert_eq!(shown(), (vec![16], vec![], vec![3]));
    assert_eq!(counted(&task_row(&database, 3)), [2, 0, 1, 0, 1]);
    is_what_the_journal_says();

    // A difference in what has to be there is still found.
    let generation = database.tables.active().unwrap().unwrap().number;
    database.by_hand(&format!("UPDATE g{generation}_pull_grants SET result = 'by hand'"));
    let report = verify(&*log, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert_eq!(report.difference_count, 1, "{:#?}", report.differences);
}

/// The projector goes on to where the journal ends.
fn run_for_a_moment(log: &Arc<dyn tidemill_log::Log>, database: &Database, owner: &mut Owner) {
    let (progress, shutdown) = (Progress::new(), Shutdown::new());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&Config::default(), log, &database.tables, &progress, &shutdown));
        assert!(progress.wait_until(0, owner.decide(vec![]), Duration::from_secs(30)));
        shutdown.request();
        running.join().unwrap().unwrap();
    });
}

/// PUL-12: every version of a task stays, whatever becomes of the task, so that each grant can be told with what it gave.
#[test]
fn versions_of_tasks_stay_while_they_are_young() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    owner.decide(shard());
    let changed = json!({"task": {"changed": {"task": id(1), "version": 2, "spec": spec(json!({"group": "demo"}), 9)}}});
    owner.decide(vec![(1, created(1, 3)), (1, changed), (1, json!({"task": {"deleted": {"task": id(1)}}}))]);
    let database = Database::new();
    project(&log, &database);
    let generation = database.tables.active().unwrap().unwrap().number;
    let keys = [1, 2, 3].map(|version| PullTaskVersionRow::key_values(&(id(1), version, 1)));
    let mut rows = database.tables.load(generation, PullTaskVersionRow::TABLE, &keys).unwrap();
    rows.sort();
    let rows: Vec<_> = rows.into_iter().map(|row| PullTaskVersionRow::from_values(row).unwrap()).collect();
    let times = |row: &PullTaskVersionRow| {
        let definition: Value = serde_json::from_str(&row.definition).unwrap();
        (row.version, definition["dispatch_times"].as_i64().unwrap())
    };
    assert_eq!(rows.iter().map(times).collect::<Vec<_>>(), [(1, 3), (2, 9)]);
}

/// PUL-14: see there.
#[test]
fn versions_that_nobody_names_leave() {
    crate::support::versions_that_nobody_names_leave(&Database::new().tables);
}
