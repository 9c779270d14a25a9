//! The example over a git repository's history, in a directory of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use tidemill_model::Timestamp;

use super::{Cluster, History, until};

/// Its jobs.
pub(crate) const JOBS: [&str; 7] =
    ["check-extract", "commits-per-day", "churn-per-file", "authors", "message-words", "load-1", "load-2"];

pub(crate) struct GitHistory {
    dir: PathBuf,
}

/// A line of attempts.log.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) what: String,
    pub(crate) job: String,
    pub(crate) logical_time: Timestamp,
    pub(crate) token: String,
    pub(crate) pid: i32,
    pub(crate) boot_ns: u64,
    pub(crate) exit: String,
}

impl GitHistory {
    /// Prepares the bundled extract, and gives the jobs to the cluster.
    pub(crate) fn define(cluster: &Cluster) -> Self {
        let dir = cluster.path("work");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/git-history/extract.sh");
        let output = Command::new(script).arg("--bundled").arg("--dir").arg(&dir).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        cluster.apply_file(&dir.join("jobs.yaml"));
        Self { dir }
    }

    pub(crate) fn hold(&self, job: &str) {
        fs::write(self.dir.join(format!("hold-{job}")), "").unwrap();
    }

    pub(crate) fn release(&self, job: &str) {
        fs::remove_file(self.dir.join(format!("hold-{job}"))).unwrap();
    }

    pub(crate) fn attempts(&self) -> Vec<Line> {
        let text = fs::read_to_string(self.dir.join("attempts.log")).unwrap_or_default();
        // The last line may be half written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(line).collect()
    }

    /// Waits until an attempt of the job has started that has not ended.
    pub(crate) fn started(&self, job: &str, logical_time: Timestamp) -> Line {
        until(&format!("{job} starts for {logical_time}"), || {
            let lines = self.attempts();
            let of_it = |line: &&Line| line.job == job && line.logical_time == logical_time;
            lines.iter().rfind(of_it).filter(|line| line.what == "start").cloned()
        })
    }

    /// The rows of one logical time, table by table, without what names the attempt.
    pub(crate) fn tables(&self, logical_time: Timestamp) -> BTreeMap<String, Vec<Vec<Value>>> {
        let path = self.dir.join("history.db");
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let text = text_of(&database, logical_time);
        let select = [
            ("commits_per_day", "day, commits, authors"),
            ("churn_per_file", "path, commits, added, deleted"),
            ("authors", "author, commits, added, deleted, first_day, last_day"),
            ("message_words", "word, uses"),
            ("loads", "job, run, rows"),
        ];
        select
            .into_iter()
            .map(|(table, columns)| {
                let sql = format!("SELECT {columns} FROM {table} WHERE logical_time = ?1 ORDER BY 1");
                let mut statement = database.prepare(&sql).unwrap();
                let count = statement.column_count();
                let rows = statement.query_map([&text], |row| {
                    (0..count).map(|index| row.get(index)).collect::<Result<Vec<Value>, _>>()
                });
                (table.to_owned(), rows.unwrap().map(Result::unwrap).collect())
            })
            .collect()
    }

    /// The jobs' own files agree with the journal: nothing ran beside another attempt, one attempt ended well,
    /// and it is the one that the journal calls a success.
    pub(crate) fn agrees(&self, history: &History, logical_time: Timestamp) {
        let lines = self.attempts();
        let overlaps: Vec<_> = lines.iter().filter(|line| line.what == "overlap").collect();
        assert!(overlaps.is_empty(), "two live attempts: {overlaps:?}");
        let starts: Vec<_> =
            lines.iter().filter(|line| line.what == "start").map(|line| &line.token).collect();
        assert_eq!(
            starts.iter().collect::<BTreeSet<_>>().len(),
            starts.len(),
            "a token started twice: {starts:?}"
        );
        for job in JOBS {
            let of_it = |line: &&Line| line.job == job && line.logical_time == logical_time;
            let lines: Vec<_> = lines.iter().filter(of_it).collect();
            let good: Vec<_> = lines.iter().filter(|line| line.what == "end" && line.exit == "0").collect();
            assert_eq!(good.len(), 1, "{job}: {lines:?}");
            assert!(
                lines.iter().all(|line| line.boot_ns <= good[0].boot_ns),
                "{job}: after its success: {lines:?}"
            );
            let stories = history.of_job(&format!("demo/{job}"));
            let story = stories.into_iter().find(|story| story.logical_time == logical_time);
            let success = story.and_then(|story| story.success()).map(|token| token.to_string());
            assert_eq!(success.as_deref(), Some(good[0].token.as_str()), "{job}");
        }
    }
}

/// How the jobs have written this logical time, in the zone of their job.
fn text_of(database: &Connection, logical_time: Timestamp) -> String {
    let mut statement = database.prepare("SELECT DISTINCT logical_time FROM loads").unwrap();
    let mut texts = statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    texts.find(|text| text.parse::<Timestamp>().unwrap() == logical_time).expect("the time was loaded")
}

fn line(text: &str) -> Line {
    let fields: Vec<_> = text.split('\t').collect();
    let [what, job, logical_time, _run, _batch, _attempt, token, pid, _wall, boot, exit] = fields[..] else {
        panic!("attempts.log: {text:?}");
    };
    Line {
        what: what.to_owned(),
        job: job.to_owned(),
        logical_time: logical_time.parse().unwrap(),
        token: token.to_owned(),
        pid: pid.parse().unwrap(),
        boot_ns: boot.parse().unwrap(),
        exit: exit.to_owned(),
    }
}
