//! Rows for people, and the files in the reference.

use std::path::Path;

use anyhow::Context;

use crate::row::{More, Row};
use crate::target::{Verdict, verdicts};

const PAGE: &str = "benchmarks.md";
const ROWS: &str = "benchmarks.json";

/// How the rows came about.
pub(crate) struct Conditions {
    pub(crate) machine: Vec<String>,
    pub(crate) arguments: Vec<String>,
    pub(crate) day: String,
    /// What the sizes were divided by.
    pub(crate) scale: usize,
}

/// The fewest runs whose median stands for something.
const RUNS: usize = 3;

/// What rows are not for comparison, if any.
fn trial(rows: &[Row], scale: usize) -> String {
    let few = rows.iter().filter(|row| row.runs < RUNS).count();
    if scale > 1 {
        return format!("\n**A trial run**: sizes divided by {scale}. Not for comparison.\n");
    }
    match few {
        0 => String::new(),
        _ if few == rows.len() => {
            format!(
                "\n**A trial run**: fewer than {RUNS} of each, whatever else the machine did. Not for comparison.\n"
            )
        }
        _ => format!("\n**In part a trial run**: rows of fewer than {RUNS} runs are not for comparison.\n"),
    }
}

/// Writes the page and the rows into this directory.
pub(crate) fn write(directory: &Path, rows: &[Row], conditions: &Conditions) -> anyhow::Result<()> {
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    write(ROWS, serde_json::to_string_pretty(rows)? + "\n")?;
    write(PAGE, page(rows, conditions))
}

/// These rows, and those of this directory that are of something else, in front.
pub(crate) fn added(directory: &Path, rows: Vec<Row>) -> anyhow::Result<Vec<Row>> {
    let path = directory.join(ROWS);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut all: Vec<Row> =
        serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
    let is_new =
        |old: &Row| rows.iter().any(|row| (&row.workload, &row.backend) == (&old.workload, &old.backend));
    all.retain(|row| !is_new(row));
    all.extend(rows);
    Ok(all)
}

/// One row, on one line.
pub(crate) fn line(row: &Row) -> String {
    let p50 = row.p50_ms.map_or_else(String::new, |p50| format!(", p50 {p50:.2} ms"));
    let Row { workload, backend, per_second, ratio, .. } = row;
    format!("{workload} on {backend}: {per_second:.0}/s{p50}, ratio {ratio:.3}")
}

/// The rows, and what of the targets was met.
pub(crate) fn tables(rows: &[Row]) -> String {
    let verdicts = verdicts(rows);
    let measured = table(
        &[
            "workload",
            "backend",
            "runs",
            "n",
            "per second",
            "p50 ms",
            "p99 ms",
            "cpu s",
            "peak MB",
            "raw limit",
            "ratio",
        ],
        2,
        rows.iter().map(cells),
    );
    let more = rows.iter().flat_map(|row| row.more.iter().map(move |more| (row, more)));
    let more: Vec<Vec<String>> = more
        .map(|(Row { workload, backend, .. }, More { figure, value })| {
            vec![workload.clone(), backend.clone(), figure.clone(), format!("{value:.2}")]
        })
        .collect();
    let more = if more.is_empty() {
        String::new()
    } else {
        format!("\n\n{}", table(&["workload", "backend", "figure", "value"], 3, more.into_iter()))
    };
    let targets = table(
        &["workload", "backend", "target", "measured", ""],
        5,
        verdicts.into_iter().map(|verdict| {
            let Verdict { workload, backend, target, measured, is_met } = verdict;
            vec![
                workload.to_owned(),
                backend,
                target,
                measured,
                if is_met { "met" } else { "missed" }.to_owned(),
            ]
        }),
    );
    format!("{measured}{more}\n\n{targets}\n")
}

/// In Markdown; the first `texts` columns are left, the others right.
fn table(head: &[&str], texts: usize, lines: impl Iterator<Item = Vec<String>>) -> String {
    let rule = (0..head.len()).map(|column| if column < texts { "---" } else { "---:" });
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let head = head.iter().map(|text| (*text).to_owned()).collect();
    let all = [head, rule.map(str::to_owned).collect()].into_iter().chain(lines);
    all.map(line).collect::<Vec<_>>().join("\n")
}

fn cells(row: &Row) -> Vec<String> {
    let milliseconds = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
    let limit =
        if row.raw_limit < 100.0 { format!("{:.3}", row.raw_limit) } else { format!("{:.0}", row.raw_limit) };
    vec![
        row.workload.clone(),
        row.backend.clone(),
        row.runs.to_string(),
        row.n.to_string(),
        format!("{:.0}", row.per_second),
        milliseconds(row.p50_ms),
        milliseconds(row.p99_ms),
        format!("{:.1}", row.cpu_s),
        format!("{:.0}", row.peak_rss_mb),
        format!("{limit} {}", row.raw_unit),
        format!("{:.3}", row.ratio),
    ]
}

fn page(rows: &[Row], conditions: &Conditions) -> String {
    let Conditions { machine, arguments, day, scale } = conditions;
    let trial = trial(rows, *scale);
    let machine: String = machine.iter().map(|line| format!("- {line}\n")).collect();
    format!(
        "# Benchmarks\n\n\
         Written by `make bench`; `benchmarks.json` has the same rows.\n{trial}\n\
         {}\n\
         ## Conditions\n\n\
         {machine}\
         - {day}; each row the one in the middle of its runs, broker and load together on this machine\n\
         - last command: `make bench ARGS=\"{}\"`\n\n\
         {MEANING}",
        tables(rows),
        arguments.join(" "),
    )
}

const MEANING: &str = "\
## What the rows are

Every measurement is a process of its own with a whole Tidemill in it: dispatcher, projector with SQLite tables,
public feed, one executor, and the load. Its clock stops when the tables *and* a reader of the feed have reached
the end of the journal. *embedded* is the log on SQLite, every commit durable; *kafka* is one broker, `acks=all`.

| workload | what happens | per second | p50, p99 |
|---|---|---|---|
| lifecycle | batches of type `noop`, submitted as fast as the log takes them, through all transitions: generated, assigned, granted, started, finished, over the log | batches | from generated to finished, all of them being there at once |
| chain | 1,000 jobs, each after the one before | hops | of one hop |
| fan | one job, then 10,000 that wait for it, then one that waits for all | tasks; the anchors that gather are not counted | from generated to finished |
| burst | 100,000 jobs due in the same second, no worker | batches, from the time they are due until the last can be read from the journal | from due to generated |
| latency | `noop`, one at a time | batches | from submitted to started |
| lag | `noop`, 1,000 a second for 20 s | batches | from when the journal was seen to hold a record until the tables show it |
| processes | `sh` with a text that does nothing, at most 32 at once, each attempt's directory and files on a file system in memory | batches | from generated to finished, all of them being there at once |
| processes-on-disk | the same, on the disk | batches | likewise |
| process-latency | the same, one at a time, on the disk | batches | from submitted to started |
| running | 1,000 attempts run at once, on the disk, and do nothing for 20 s; then the executor is stopped, its next process is started with the same data directory, and takes them over | attempts taken over | |
| placement | 100,000 batches come evenly, 2,000 a second; 1,000 workers with four slots each, of which three are free | batches | from ready until a worker has read of its assignment |
| placement-backlog | 100,000 batches are ready before there is a worker; then 1,000 workers with one slot each | batches | from the report of an end until a worker has read of the next assignment, which takes its slot |
| waiting | 1,000,000 batches by hand, each waits for a path, ten for the same one, no worker; then paths come that one batch waits for, and one that 10,000 wait for | batches generated | from a path's report sent until its record can be read, of paths with one waiter |
| fairness | ten slots; 100 batches of one user, alone, then 100 that become ready at one moment with 100,000 of another user, then 100 beside what is left of those | starts of either user, beside each other | from ready until a worker has read of its assignment, of the 100 beside the others |
| ageing | ten slots, 200 batches of priority 0 wait, as many come as slots become free; one batch of priority 9 becomes ready, and 90 minutes pass at once by the owner's clock | starts, from then on | from then on until it has started |
| logs | one attempt prints 1 GB as fast as it can; that log is then read and searched; 1,000 attempts print 100 KB each at the same moment; 1,000 clients follow a job that prints two lines a second; 30 jobs start one by one, alone, beside one that writes 10 GB to /dev/null again and again, beside one that computes on every processor, and beside one that prints 10 GB, of which the log keeps 1.1 GB | MB of the first, until all of it is kept by the store | |
| pages | 1,000,000 batches of 100,000 jobs of 20,000 people in ten groups, in the tables alone; then 200 pages of 100 in a row, the newest first, for each of four readers. Raw limit: the same for who may see all; ratio: who may see 3 jobs against that | rows of batches, written | of a page, for who may see all |
| files | a directory of 10,000 job files in a DAG 50 levels deep, by the command line: `validate`, `apply`, `apply` again, `apply` with a cycle through all levels | jobs, of the first `apply` | |
| pull-1, -16, -64, -256 | for 5 s, so many clients pull and complete plain tasks over HTTP, each for its part of 4,096 users, one request after the other; every user has had a hint that nothing is due, then 30 tasks came | grants and completions | of a request |
| pull-empty | for 5 s, 64 clients pull for 4,096 users who have a hint that nothing is due | empty answers | of a request |
| pull-wake-up | 100,000 users of a group have a hint that nothing is due; then a task comes that each may have once, and a second after its acknowledgement 64 clients pull for all of them, once. A poll without the task ends the measurement | grants | of a request |

**Raw limit**: what the machine gives without Tidemill, measured in the same process right after. *records/s*: records
of 300 bytes that the same log takes and gives back at the same time. *ms*: one durable append of 400 bytes and its
read back, one at a time, the median. *MB/s*: the same bytes
through a pipe into a file. *processes/s*: the same program, as many at once, started and waited for from
the same directory, and nothing written by or about them.
**Ratio**: per second / raw limit; where that is in *ms*, p50 / raw limit.

*logs*, *files* and *pull* are the program in processes of their own: `tidemill standalone`, or dispatcher, projector and interface on Kafka, with
tables in MariaDB and hints in Redis; the feed is not waited for, nor are the tables of *pull*. Its load is one thread of
the measuring process, that of *files* a process for each command. **cpu s** has that thread and the program's processes, **peak MB** is the sum of what each of these had at once. The
raw limit of *pull-empty* is what the same load makes of a listener on one thread that gives one answer to everything
(*exchanges/s*).

From *placement* to *ageing* there are workers without processes, all in the measuring process: they register, show that
they are alive, read of assignments, ask, start and report over the log as an executor does, and an attempt does nothing but take 250 ms
(100 ms for the last two). A path is *shown* when tables and feed have its record, and tables that its batches are ready.

**cpu s** is the processor time of that process, of its server of shims, and of all shims and jobs; a broker's is not
in it. **peak MB** is the most memory that was resident at once in that process, the load and its queue included.
*Bytes per waiting batch* is by how much the process grew from before the batches until all had settled: what owner,
projector and feed hold together.

Processes run 32 at once: with few slots each waits longer for the log than the machine does for work. Where files
are made counts for them too: an attempt makes six files and directories, and on a journalling file
system that many inodes can cost more than the process. Attempts' files are written, not synced, on either.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::example;

    fn conditions(scale: usize) -> Conditions {
        let arguments = vec!["--runs".to_owned(), "3".to_owned()];
        let machine = vec!["cores: 2".to_owned()];
        Conditions { machine, arguments, day: "2026-01-01".to_owned(), scale }
    }

    fn committed(name: &str) -> String {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
        std::fs::read_to_string(directory.join(name)).unwrap()
    }

    /// A8: the committed rows are of this type, field by field, and the committed page shows these rows.
    #[test]
    fn committed_figures_are_what_this_runner_writes() {
        let rows: Vec<Row> = serde_json::from_str(&committed(ROWS)).unwrap();
        assert!(!rows.is_empty());
        assert_eq!(serde_json::to_string_pretty(&rows).unwrap() + "\n", committed(ROWS));
        let page = committed(PAGE);
        assert!(page.contains(&tables(&rows)), "{PAGE} and {ROWS} are not of the same run");
        assert!(page.ends_with(MEANING));
    }

    #[test]
    fn trial_is_marked_and_a_whole_measurement_is_not() {
        let marked = |runs: &[usize], scale| {
            let rows: Vec<Row> = runs.iter().map(|runs| Row { runs: *runs, ..example() }).collect();
            let page = page(&rows, &conditions(scale));
            (page.contains("**A trial run**"), page.contains("**In part a trial run**"))
        };
        assert_eq!(marked(&[1, 1], 1), (true, false));
        assert_eq!(marked(&[3, 5], 10), (true, false));
        assert_eq!(marked(&[3, 1], 1), (false, true));
        assert_eq!(marked(&[3, 5], 1), (false, false));
    }

    #[test]
    fn further_figures_have_a_table_where_there_are_some() {
        let row = example().with("of two, ms", 1.25);
        assert_eq!(row.figure("of two, ms"), Some(1.25));
        assert!(tables(&[row]).contains("| lifecycle | kafka | of two, ms | 1.25 |"));
        assert!(!tables(&[example()]).contains("figure"));
    }

    #[test]
    fn rows_of_other_workloads_can_be_kept() {
        let directory = tempfile::tempdir().unwrap();
        let other = Row { workload: "chain".to_owned(), ..example() };
        write(directory.path(), &[example(), other.clone()], &conditions(1)).unwrap();
        let new = Row { n: 11, ..example() };
        assert_eq!(added(directory.path(), vec![new.clone()]).unwrap(), [other, new]);
    }

    #[test]
    fn written_files_are_read_back() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &[example()], &conditions(1)).unwrap();
        let rows = std::fs::read_to_string(directory.path().join(ROWS)).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Row>>(&rows).unwrap(), [example()]);
        let page = std::fs::read_to_string(directory.path().join(PAGE)).unwrap();
        assert!(
            page.contains("| lifecycle | kafka | ≥ 15000 per second | 5000 per second | missed |"),
            "{page}"
        );
    }
}
