//! Task logs in Parquet files, read back with DuckDB by the Python that `TIDEMILL_TEST_PYTHON` names (PUL-12).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::kit::{Fixture, dying, parameters, until};
use serde_json::Value;
use tidemill_sinks::{Config, Error, Files, LocalFiles, Opener, ParquetConfig, ParquetSink, Sink, openers};

/// What DuckDB makes of all files, each row as an object of its columns, `dt` from the directory's name.
const READ: &str = r#"
import duckdb, json, sys
root = sys.argv[1] + "/dt=*/*.parquet"
query = f"select * from read_parquet('{root}', hive_partitioning = true, hive_types_autocast = false)"
cursor = duckdb.connect().execute(query + " order by journal_partition, journal_offset, event_index")
names = [column[0] for column in cursor.description]
for row in cursor.fetchall():
    print(json.dumps(dict(zip(names, row))))
"#;

fn read(root: &Path) -> Vec<Value> {
    let python = std::env::var("TIDEMILL_TEST_PYTHON").expect(
        "TIDEMILL_TEST_PYTHON names a Python with DuckDB: run `deploy/dev/services start`, \
         then `eval \"$(deploy/dev/services env)\"`",
    );
    let output = Command::new(python).args(["-c", READ]).arg(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn config(root: &Path) -> ParquetConfig {
    ParquetConfig {
        root: Some(root.display().to_string()),
        roll_rows: 20,
        roll_s: 1,
        ..ParquetConfig::default()
    }
}

fn sink(root: &Path) -> Opener {
    let config = Config { parquet: config(root), ..Config::default() };
    config.check().unwrap();
    openers(&config).unwrap().remove(0)
}

/// Every fact about every grant is there once, in its day, as the read tables have it.
fn agrees(root: &Path, fixture: &Fixture) {
    let (grants, rows) = (fixture.grants(), read(root));
    let mut facts = BTreeMap::<i64, Vec<&Value>>::new();
    for row in &rows {
        facts.entry(row["grant_id"].as_i64().unwrap()).or_default().push(row);
    }
    assert!(grants.len() > 100);
    assert!(grants.keys().eq(facts.keys()), "{} grants, {} in files", grants.len(), facts.len());
    for (id, grant) in &grants {
        let (first, rest) = facts[id].split_first().unwrap();
        assert_eq!(first["event"], "granted");
        let end = rest.first().map_or("live", |end| end["event"].as_str().unwrap());
        assert_eq!(
            (end, rest.len()),
            (&*grant.state, usize::from(grant.ended_at.is_some())),
            "{:?}",
            facts[id]
        );
        for (row, at) in facts[id].iter().zip([Some(grant.granted_at), grant.ended_at]) {
            let is = |column: &str, value: Value| assert_eq!(row[column], value, "{column} of {row}");
            is("at_ms", at.into());
            is("granted_at_ms", grant.granted_at.into());
            is("expires_at_ms", grant.expires_at.into());
            is("user_name", Value::from(&*grant.user_name));
            is("task_id", grant.task_id.into());
            is("task_name", Value::from(grant.task_name.as_deref()));
            is("template", "copy".into());
            let given: Value = serde_json::from_str(row["parameters"].as_str().unwrap()).unwrap();
            assert_eq!(given, parameters(grant.task_id));
            let day = tidemill_model::Timestamp::from_millisecond(at.unwrap()).unwrap().to_string();
            is("dt", day[..10].into());
        }
        let last = facts[id].last().unwrap();
        assert_eq!(last["result"], Value::from(grant.result.as_deref()));
        assert_eq!(last["returned_by"], Value::from(grant.returned_by.as_deref()));
        assert_eq!(last["reason"], Value::from(grant.reason.as_deref()));
    }
}

/// PUL-12: a sink that is killed again and again, before and after it has written a file, loses and doubles nothing.
#[test]
fn killed_sink_loses_and_doubles_nothing() {
    let (mut fixture, directory) = (Fixture::new(11), tempfile::tempdir().unwrap());
    fixture.works(40);
    let (dies, died) = dying(sink(directory.path()), 30);
    let running = fixture.start(vec![dies]);
    (0..10).for_each(|_| running.stores(&mut fixture, 4));
    fixture.sleeps();
    running.stores_until(&mut fixture, (10, 4), "sinks died often", || died.load(Ordering::SeqCst) >= 20);
    running.catch_up(&fixture);
    running.stop().unwrap();
    agrees(directory.path(), &fixture);
    // Another life goes on where the last one ended.
    let running = fixture.start(vec![sink(directory.path())]);
    fixture.works(10);
    running.catch_up(&fixture);
    let stored: u64 = running.partitions().iter().map(|it| it.changes).sum();
    assert!(stored < 200, "{stored} changes were stored for 20 decisions");
    running.stop().unwrap();
    agrees(directory.path(), &fixture);
    let left = std::fs::read_dir(directory.path().join("_tmp")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|name| name.starts_with("lock-")), "{left:?}");
}

/// Files that are written half, or wholly and not told, as by a process that dies there.
struct Torn {
    files: LocalFiles,
    root: std::path::PathBuf,
    puts: Arc<AtomicU64>,
}

impl Files for Torn {
    fn begin(&mut self, partition: u32) -> Result<(), Error> {
        self.files.begin(partition)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>, Error> {
        self.files.list(directory)
    }

    fn get(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.files.get(directory, name)
    }

    fn put(&self, directory: &str, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let killed = || Error::Outage { what: "live", place: "here".to_owned(), source: "killed".into() };
        match self.puts.fetch_add(1, Ordering::SeqCst) {
            put if put >= 40 || put % 3 == 0 => self.files.put(directory, name, bytes),
            put if put % 3 == 1 => {
                std::fs::write(self.root.join("_tmp").join(name), &bytes[..bytes.len() / 2]).unwrap();
                Err(killed())
            }
            _ => self.files.put(directory, name, bytes).and_then(|()| Err(killed())),
        }
    }

    fn place(&self, name: &str) -> String {
        self.files.place(name)
    }
}

/// PUL-12: a death in the middle of a file, or between the file and anything after it, loses and doubles nothing.
#[test]
fn death_in_the_middle_of_a_file_loses_and_doubles_nothing() {
    let (mut fixture, directory) = (Fixture::new(12), tempfile::tempdir().unwrap());
    let (root, puts) = (directory.path().to_owned(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&puts);
    let open = move |partition| {
        let files = Torn { files: LocalFiles::new(&root), root: root.clone(), puts: Arc::clone(&counted) };
        Ok(Box::new(ParquetSink::new(&config(&root), Box::new(files), partition)) as Box<dyn Sink>)
    };
    let running = fixture.start(vec![Opener { name: "parquet", open: Box::new(open) }]);
    running.stores_until(&mut fixture, (30, 5), "files were torn", || puts.load(Ordering::SeqCst) >= 40);
    running.catch_up(&fixture);
    running.stop().unwrap();
    agrees(directory.path(), &fixture);
}

/// PUL-12: two sinks on the same directory do not write the same rows: the second waits, and says why.
#[test]
fn second_sink_on_the_same_directory_waits() {
    let (mut fixture, directory) = (Fixture::new(13), tempfile::tempdir().unwrap());
    let first = fixture.start(vec![sink(directory.path())]);
    fixture.works(40);
    first.catch_up(&fixture);
    let second = fixture.start(vec![sink(directory.path())]);
    let told = |it: &tidemill_model::SinkPartitionStatus| {
        it.error.as_ref().is_some_and(|it| it.contains("another sink"))
    };
    until("the second tells why it waits", || second.partitions().iter().any(told));
    first.stop().unwrap();
    fixture.works(20);
    second.catch_up(&fixture);
    second.stop().unwrap();
    agrees(directory.path(), &fixture);
}

/// PUL-12: the same in a bucket, on the server that `TIDEMILL_TEST_S3` names.
#[cfg(feature = "s3")]
#[test]
fn killed_sink_loses_and_doubles_nothing_in_a_bucket() {
    use tidemill_sinks::S3Files;

    let server = std::env::var("TIDEMILL_TEST_S3").expect(
        "TIDEMILL_TEST_S3 names a server and a bucket: run `deploy/dev/services start s3`, \
         then `eval \"$(deploy/dev/services env)\"`",
    );
    let (endpoint, bucket) = server.rsplit_once('/').unwrap();
    let root = format!("s3://{bucket}/task-logs/{}", tidemill_log::LogId::random());
    let mut config = Config { parquet: config(Path::new("/")), ..Config::default() };
    config.parquet.root = Some(root.clone());
    config.parquet.s3.endpoint = Some(endpoint.to_owned());
    let key = Some("S3RVER".to_owned());
    (config.parquet.s3.access_key_id, config.parquet.s3.secret_access_key) = (key.clone(), key);
    config.check().unwrap();
    let sink = || openers(&config).unwrap().remove(0);
    let mut fixture = Fixture::new(14);
    let (dies, died) = dying(sink(), 12);
    let running = fixture.start(vec![dies]);
    (0..20).for_each(|_| running.stores(&mut fixture, 3));
    fixture.sleeps();
    running.stores_until(&mut fixture, (1, 10), "sinks died often", || died.load(Ordering::SeqCst) >= 8);
    running.catch_up(&fixture);
    running.stop().unwrap();
    let running = fixture.start(vec![sink()]);
    running.stores(&mut fixture, 5);
    running.catch_up(&fixture);
    running.stop().unwrap();
    // DuckDB reads a copy: its way to S3 is not part of it.
    let (files, copy) = (S3Files::new(&root, &config.parquet.s3).unwrap(), tempfile::tempdir().unwrap());
    for day in files.list("").unwrap().iter().filter(|name| name.starts_with("dt=")) {
        std::fs::create_dir(copy.path().join(day)).unwrap();
        for name in files.list(day).unwrap() {
            let bytes = files.get(day, &name).unwrap().unwrap();
            std::fs::write(copy.path().join(day).join(name), bytes).unwrap();
        }
    }
    agrees(copy.path(), &fixture);
}
