//! A directory of job files through the command line and REST: checked, applied as one, exported.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::server::{Server, code, text, tidemill};

/// Jobs of one level; there are 50. `TIDEMILL_TEST_LEVEL_JOBS=200` makes them 10,000.
fn width() -> usize {
    std::env::var("TIDEMILL_TEST_LEVEL_JOBS").map_or(20, |text| text.parse().unwrap())
}

const LEVELS: usize = 50;

/// One file for each job, each job but those of the first level the child of two of the level before.
fn write_jobs(directory: &Path, width: usize) {
    fs::create_dir_all(directory).unwrap();
    for level in 0..LEVELS {
        for n in 0..width {
            write_job(directory, level, n, width, "ann", None);
        }
    }
}

fn write_job(directory: &Path, level: usize, n: usize, width: usize, owner: &str, parent: Option<&str>) {
    let name = format!("l{level}-{n}");
    let mut job = format!(
        "jobs:\n- name: {name}\n  group: default\n  type: shell\n  owner: {owner}\n  command: |\n    \
         echo ${{yyyyMMdd-1d}}\n    exit 0\n"
    );
    if level == 0 {
        job.push_str("  enabled: false\n  schedule: {period: day, zone: Europe/Berlin}\n");
        let _ = parent.map(|parent| writeln!(job, "  parents: [{parent}]"));
    } else {
        let above = level - 1;
        let _ = writeln!(job, "  parents: [l{above}-{n}, l{above}-{}]", (n + 1) % width);
    }
    fs::write(directory.join(format!("{name}.yaml")), job).unwrap();
}

fn kinds(answer: &serde_json::Value, kind: &str) -> usize {
    answer["changes"].as_array().unwrap().iter().filter(|change| change["change"] == kind).count()
}

/// JOB-5, JOB-6, C7, API-6: a directory in a DAG 50 levels deep is checked without a server, shown, applied as
/// one, and the second time there is nothing to change; a cycle is named by its path, and nothing is changed;
/// what is exported is taken back.
#[test]
fn directory_of_jobs_is_applied_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let (jobs, data) = (dir.path().join("jobs"), dir.path().join("data"));
    let width = width();
    let all = LEVELS * width;
    write_jobs(&jobs, width);
    let path = jobs.to_str().unwrap();
    let valid = tidemill(&data, &["job", "validate", path]);
    assert_eq!(
        text(&valid.stdout),
        format!("{all} jobs in {all} files are good.\n"),
        "{}",
        text(&valid.stderr)
    );

    let server = Server::start(&data);
    let count = || server.json(&["job", "export"])["jobs"].as_array().unwrap().len();
    let dry = server.json(&["job", "apply", "-f", path, "--dry-run"]);
    assert_eq!((kinds(&dry, "added"), count()), (all, 0));
    let applied = server.json(&["job", "apply", "-f", path]);
    assert_eq!((kinds(&applied, "added"), applied["position"].is_string()), (all, true));
    let exported = server.json(&["job", "export"]);
    assert_eq!(exported["jobs"].as_array().unwrap().len(), all, "the position shows the last chunk");
    let again = server.run(&["job", "apply", "-f", path]);
    assert_eq!(
        text(&again.stdout),
        format!("Nothing to change, {all} as before.\n"),
        "{}",
        text(&again.stderr)
    );

    // One file makes a cycle through all levels.
    let last = format!("l{}-0", LEVELS - 1);
    write_job(&jobs, 0, 0, width, "eve", Some(&last));
    for arguments in [&["job", "apply", "-f", path][..], &["job", "validate", path]] {
        let refused = server.run(arguments);
        assert_ne!(code(&refused), 0);
        let told = text(&refused.stderr);
        let cycle = told.split("dependency cycle: ").nth(1).unwrap().lines().next().unwrap();
        let named: Vec<&str> = cycle.split(" → ").collect();
        assert_eq!((named.len(), named[0]), (LEVELS + 1, *named.last().unwrap()), "{told}");
        assert!(named.contains(&"default/l0-0") && named.contains(&&*format!("default/{last}")), "{told}");
    }
    assert_eq!(server.json(&["job", "export"]), exported, "a refused apply changes nothing");

    // Two files change; what the whole takes back is what was exported.
    write_job(&jobs, 0, 0, width, "eve", None);
    write_job(&jobs, 7, 1, width, "eve", None);
    let changed = server.run(&["job", "apply", "-f", path]);
    let told = text(&changed.stdout);
    for line in ["~ default/l0-0  version 2: owner", "    owner: ann → eve"] {
        assert!(told.lines().any(|told| told == line), "{told}");
    }
    assert!(told.ends_with(&format!("2 changed, {} as before.\n", all - 2)), "{told}");
    let yaml = dir.path().join("export.yaml");
    fs::write(&yaml, server.run(&["job", "export"]).stdout).unwrap();
    let same = server.json(&["job", "apply", "-f", yaml.to_str().unwrap(), "--prune", "default"]);
    assert_eq!(kinds(&same, "unchanged"), all);

    // The whole directory but a level goes.
    for n in 0..width {
        fs::remove_file(jobs.join(format!("l{}-{n}.yaml", LEVELS - 1))).unwrap();
    }
    let pruned = server.json(&["job", "apply", "-f", path, "--prune", "default"]);
    assert_eq!((kinds(&pruned, "deleted"), count()), (width, all - width));
    assert_eq!(server.stop(), Some(0));
}

/// JOB-5, JOB-6: what is wrong with files is told with file and job, without a server.
#[test]
fn bad_files_are_told_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let check = |paths: &[&str]| {
        let output = tidemill(dir.path(), &[&["job", "validate"], paths].concat());
        (code(&output), text(&output.stdout) + &text(&output.stderr))
    };
    let good = file("good.yaml", "jobs:\n- {name: a, group: g, type: noop, parents: [b, h/far]}\n");
    let other = file("other.yaml", "jobs:\n- {name: b, group: g, type: noop}\n");
    let (exit, told) = check(&[&good]);
    assert_eq!(exit, 0, "{told}");
    assert!(told.contains("good.yaml: job a: parents[0]: g/b is not in these files"), "{told}");
    let (exit, told) = check(&[&good, &other]);
    assert_eq!(exit, 0, "{told}");
    assert!(!told.contains("g/b is not") && told.contains("h/far is not in these files"), "{told}");
    for (name, job, part) in [
        ("cron", "schedule: {cron: '61 * * * * ?', zone: UTC}", "job x: schedule.cron: "),
        ("zone", "schedule: {period: day, zone: Mars/Olympus}", "job x: schedule.zone: "),
        ("template", "parameters: {p: '${yyyy'}", "job x: parameters.p: "),
        ("unknown", "colour: red", "job x: colour: "),
        ("twice", "parents: [b, b]", "job x: parents[1]: "),
        ("mapping", "parents: [{job: b, mapping: all}]", "job x: parents[0]: "),
    ] {
        let bad =
            file(&format!("{name}.yaml"), &format!("jobs:\n- {{name: x, group: g, type: noop, {job}}}\n"));
        let (exit, told) = check(&[&other, &bad]);
        assert_eq!(exit, 2, "{told}");
        assert!(told.contains(&format!("{name}.yaml: {part}")), "{told}");
    }
}
