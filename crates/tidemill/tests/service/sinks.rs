//! Task logs of what clients pull, through REST to where they are passed on (PUL-12). `TIDEMILL_TEST_MYSQL` names a
//! server, `TIDEMILL_TEST_PYTHON` a Python with DuckDB.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::clients::Clients;
use crate::server::Server;
use crate::server::feed::Feed;
use serde_json::{Value, json};
use tidemill_store::MysqlServer;

/// A table of its own that is dropped with it.
struct Table {
    url: String,
    name: String,
}

impl Table {
    fn new() -> Self {
        let url = std::env::var("TIDEMILL_TEST_MYSQL").expect(
            "TIDEMILL_TEST_MYSQL names a server: run `deploy/dev/services start mariadb`, \
             then `eval \"$(deploy/dev/services env)\"`",
        );
        let nanos = jiff::Timestamp::now().as_nanosecond();
        Self { url, name: format!("sink_{}_{nanos}", std::process::id()) }
    }

    /// Nothing where it is not there yet.
    fn query(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        MysqlServer::new(&self.url).unwrap().connect().unwrap().ask(sql).unwrap_or_default()
    }

    /// Grant, state, user, result.
    fn rows(&self) -> Vec<(i64, String, String, Option<String>)> {
        let sql = format!("SELECT grant_id, state, user_name, result FROM {} ORDER BY grant_id", self.name);
        let row = |row: Vec<Option<String>>| {
            let [grant, state, user, result] = row.try_into().unwrap();
            (grant.unwrap().parse().unwrap(), state.unwrap(), user.unwrap(), result)
        };
        self.query(&sql).into_iter().map(row).collect()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.query(&format!("DROP TABLE IF EXISTS {0}, {0}_positions", self.name));
    }
}

/// Grant, event and path of each row, as DuckDB reads them.
fn files(root: &Path) -> Vec<(i64, String, String)> {
    const READ: &str = "import duckdb, json, sys\n\
        query = \"select grant_id, event, parameters::json->>'path' from read_parquet(?, hive_partitioning = true) \
        order by journal_offset, event_index\"\n\
        print(json.dumps(duckdb.execute(query, [sys.argv[1] + '/dt=*/*.parquet']).fetchall()))";
    let python =
        std::env::var("TIDEMILL_TEST_PYTHON").expect("TIDEMILL_TEST_PYTHON names a Python with DuckDB");
    let output = Command::new(python).args(["-c", READ]).arg(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun_at = Instant::now();
    while !holds() {
        assert!(begun_at.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// PUL-12: what clients pull, complete, give back and let run out is on the public feed, in the database and in the
/// files, each grant once, also after a kill; the status shows how far each sink is.
#[test]
fn task_logs_are_passed_on_whatever_becomes_of_the_process() {
    let (dir, table) = (tempfile::tempdir().unwrap(), Table::new());
    let root = dir.path().join("hive");
    let settings = [
        ("EXECUTOR__HEARTBEAT_MS", "60000"),
        ("SINKS__MYSQL__URL", table.url.as_str()),
        ("SINKS__MYSQL__TABLE", table.name.as_str()),
        ("SINKS__PARQUET__ROOT", root.to_str().unwrap()),
        ("SINKS__PARQUET__ROLL_S", "1"),
    ];
    let data = dir.path().join("data");
    let start = || {
        let server = Server::start_with(&data, &settings);
        let read = |name: &str| std::fs::read_to_string(data.join(name)).unwrap().trim().to_owned();
        let clients = Clients::new(&format!("http://{}", read("api.address")), &read("admin.key"), "default");
        (server, clients)
    };
    let (mut server, clients) = start();
    clients.assign(&["ann", "bob", "cleo", "dan"]);
    clients.task(&json!({"parameters": {"path": "/a"}, "dispatch_times": 3}));
    let given: Vec<i64> =
        ["ann", "bob", "cleo"].map(|user| clients.gets(user)["grant"].as_i64().unwrap()).to_vec();
    clients.task(&json!({"parameters": {"path": "/short"}, "lease_s": 5, "executor": {"user": "dan"}}));
    let short = clients.offered("dan")["grant"].as_i64().unwrap();
    assert_eq!(clients.complete("ann", given[0], "6 words").status, 200);
    until("ann's is in the database", || {
        table.rows().contains(&(given[0], "completed".into(), "ann".into(), Some("6 words".into())))
    });
    // Whatever was under way is lost with the process.
    assert_eq!(clients.give_back("bob", given[1]).status, 200);
    server.signal("-KILL");
    server.child.wait().unwrap();

    let (server, clients) = start();
    assert_eq!(clients.complete("cleo", given[2], "8 words").status, 200);
    let rows = |end: &str| {
        let row = |grant: i64, state: &str, user: &str, result: Option<&str>| {
            (grant, state.to_owned(), user.to_owned(), result.map(str::to_owned))
        };
        let mut rows = vec![
            row(given[0], "completed", "ann", Some("6 words")),
            row(given[1], "returned", "bob", None),
            row(given[2], "completed", "cleo", Some("8 words")),
            row(short, end, "dan", None),
        ];
        rows.sort();
        rows
    };
    until("dan's has run out", || table.rows() == rows("expired"));
    let facts = || {
        let mut facts = files(&root);
        facts.sort();
        facts
    };
    let mut wanted = Vec::new();
    for (grant, path, end) in [
        (given[0], "/a", "completed"),
        (given[1], "/a", "returned"),
        (given[2], "/a", "completed"),
        (short, "/short", "expired"),
    ] {
        wanted.extend(["granted", end].map(|event| (grant, event.to_owned(), path.to_owned())));
    }
    wanted.sort();
    until("all is in files", || facts() == wanted);
    on_the_feed(&data, &server);
    let sinks = server.json(&["status"])["sinks"].clone();
    for sink in sinks.as_array().unwrap() {
        for partition in sink["partitions"].as_array().unwrap() {
            assert!(partition["error"].is_null() && partition["stopped"] == false, "{sinks:#}");
            assert!(partition["lag_records"].as_u64().unwrap() < 1_000, "{sinks:#}");
        }
    }
    let names: Vec<_> = sinks.as_array().unwrap().iter().map(|sink| sink["sink"].clone()).collect();
    assert_eq!(names, ["mysql", "parquet"]);
    assert_eq!(server.stop(), Some(0));
    assert_eq!((table.rows(), facts()), (rows("expired"), wanted));
}

fn on_the_feed(data: &Path, server: &Server) {
    let told = Feed::follow(data).until_now(server);
    let count = |kind: &str| {
        let kind = format!("tidemill.{kind}.v1");
        told.iter().filter(|event: &&Value| event["type"] == kind.as_str()).count()
    };
    let kinds = ["task.granted", "task.completed", "grant.returned", "grant.expired"];
    assert_eq!(kinds.map(count), [4, 2, 1, 1]);
}

/// PUL-12: a sink that is configured wrongly, or none, is told at the start, and no password is shown.
#[test]
fn wrong_sinks_are_told_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.toml");
    let told = |text: &str, role: &str| {
        std::fs::write(&file, text).unwrap();
        let output = crate::server::tidemill(dir.path(), &["--config", file.to_str().unwrap(), role]);
        assert_eq!(crate::server::code(&output), 2, "{}", crate::server::text(&output.stderr));
        crate::server::text(&output.stderr)
    };
    let secret = told("[sinks.mysql]\nurl = \"mysql:/a:secret@b/c\"\n", "standalone");
    assert!(secret.contains("sinks.mysql.url") && !secret.contains("secret"), "{secret}");
    let both =
        "[sinks.elasticsearch]\nurl = \"http://s:1\"\nuser = \"a\"\npassword = \"secret\"\napi_key = \"k\"\n";
    let both = told(both, "standalone");
    assert!(both.contains("sinks.elasticsearch.api_key") && !both.contains("secret"), "{both}");
    let none = told("", "sink");
    assert!(none.contains("there is no sink to run") && none.contains("sinks.parquet.root"), "{none}");
}
