//! EXE-13: work that jobs start elsewhere, with real processes and a stand-in for the cluster: a directory with a file for the tag and
//! the state of each application, and a script that lists, shows and ends them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidemill_executor::{ExternalState, KillCause, Lease, ShimSpec};
use tidemill_model::{
    AttemptOutcome, AttemptResult, Command, ExternalEnd, ExternalWork, ExternalWorkId, Registration, RunSpec,
    Token, WorkMessage, WorkerCommand,
};

use crate::executor::{Executor, Owner, config, spec};
use crate::shim::{self, Attempt, TOKEN, boottime_ms, script, until};

/// `list TAG`, `state ID` and `kill ID`. With a file `down` nothing answers, with `stubborn` a kill has no effect.
const STAND_IN: &str = r#"
cd "$(dirname "$0")/apps"
id -un >> ../who
if [ -e ../down ]; then echo tried >> ../tries; echo "Connection refused" >&2; exit 1; fi
case $1 in
  list)
    [ -e ../noisy ] && head -c 1100000 /dev/zero | tr '\\0' x | fold
    echo "Total number of applications:"
    for app in *; do [ -e "$app/tag" ] && [ "$(cat "$app/tag")" = "$2" ] && echo "$app  some name"; done
    echo >> ../listed; exit 0;;
  state)
    echo "$2" >> ../asked
    [ -e "$2" ] || { echo "Application with id '$2' doesn't exist" >&2; exit 1; }
    echo "  Name : x"; echo "  Final-State : $(cat "$2/state")";;
  kill)
    echo "$2" >> ../killed
    [ -e ../refuses ] && { echo "not allowed" >&2; exit 1; }
    [ -e ../stubborn ] || [ "$(cat "$2/state")" != UNDEFINED ] || echo KILLED > "$2/state";;
esac
"#;

/// In a job: `submit ID [TAG]`.
const SUBMIT: &str = r#"
submit() { mkdir -m 777 "$CLUSTER/apps/$1"; echo UNDEFINED > "$CLUSTER/apps/$1/state"; chmod 666 "$CLUSTER/apps/$1/state"; echo "$2" > "$CLUSTER/apps/$1/tag"; }
"#;

struct Cluster(TempDir);

impl Cluster {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("apps")).unwrap();
        fs::write(dir.path().join("yarn.sh"), STAND_IN).unwrap();
        fs::write(dir.path().join("who"), "").unwrap();
        for name in ["killed", "asked"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        for name in ["", "apps", "who", "killed", "asked"] {
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o777)).unwrap();
        }
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self) -> String {
        self.0.path().to_string_lossy().into_owned()
    }

    fn external_work(&self, more: &Value) -> Value {
        let stand_in = self.path("yarn.sh").to_string_lossy().into_owned();
        let command = |words: [&str; 2]| json!(["/bin/sh", stand_in, words[0], words[1]]);
        let mut all = json!({
            "list": command(["list", "{tag}"]), "state": command(["state", "{id}"]), "kill": command(["kill", "{id}"]),
            "id_prefix": "application_", "state_prefix": "Final-State :", "succeeded": ["SUCCEEDED"],
            "failed": ["FAILED"], "killed": ["KILLED"], "gone": ["doesn't exist"],
            "look_ms": 100, "settle_ms": 100,
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    }

    /// What a shim runs whose work carries `tag-1`.
    fn spec(&self, more: &Value, of: &str) -> ShimSpec {
        let mut spec = script(&format!("{SUBMIT} {of}"));
        spec.env.insert("CLUSTER".to_owned(), self.text());
        let external = json!({"config": self.external_work(more), "tag": "tag-1"});
        spec.external = Some(serde_json::from_value(external).unwrap());
        spec
    }

    fn state(&self, id: &str) -> String {
        fs::read_to_string(self.path(&format!("apps/{id}/state"))).unwrap().trim().to_owned()
    }

    fn set_state(&self, id: &str, state: &str) {
        fs::write(self.path(&format!("apps/{id}/state")), state).unwrap();
    }

    fn submit(&self, id: &str, tag: &str) {
        fs::create_dir(self.path(&format!("apps/{id}"))).unwrap();
        fs::write(self.path(&format!("apps/{id}/tag")), tag).unwrap();
        self.set_state(id, "UNDEFINED");
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

struct Fixture {
    dir: TempDir,
    owner: Owner,
    executor: Executor,
    me: Registration,
    cluster: Cluster,
}

impl Fixture {
    fn start(more: &Value) -> Self {
        Self::start_with(more, |_| ())
    }

    /// With a type that starts nothing elsewhere, too.
    fn start_with(more: &Value, change: impl FnOnce(&mut Value)) -> Self {
        let (dir, mut owner, cluster) = (TempDir::new().unwrap(), Owner::new(), Cluster::new());
        // An account of a job has to pass through.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let mut config = config(dir.path());
        config.heartbeat_ms = 100;
        let mut of_type = json!({
            "command": ["/bin/sh", "{script}"], "env": {"CLUSTER": cluster.text()},
            "external_work": cluster.external_work(more),
        });
        change(&mut of_type);
        config.types.insert("shell".try_into().unwrap(), serde_json::from_value(of_type).unwrap());
        let plain = json!({"command": ["/bin/sh", "{script}"]});
        config.types.insert("plain".try_into().unwrap(), serde_json::from_value(plain).unwrap());
        config.slots.insert("plain".try_into().unwrap(), 4);
        let executor = Executor::start(&owner, config);
        let me = owner.hear_registration();
        owner.welcome(&me, Vec::new());
        Self { dir, owner, executor, me, cluster }
    }

    fn spec(token: Token, script: &str) -> RunSpec {
        RunSpec { execution_timeout_ms: Some(60_000), ..spec(token, "shell", &format!("{SUBMIT}{script}")) }
    }

    fn run(&mut self, script: &str) {
        self.owner.grant(&self.me, &Self::spec(TOKEN, script));
        self.owner.hear_started(TOKEN);
    }

    fn hear_found(&mut self, token: Token, wanted: &[&str]) {
        let mut found: Vec<String> = Vec::new();
        while !wanted.iter().all(|id| found.iter().any(|found| found == id)) {
            let work = self.owner.hear_external_work();
            let of_it = work.iter().filter(|work| work.token == token);
            found.extend(of_it.flat_map(|work| work.ids.iter().map(ToString::to_string)));
        }
    }

    fn kill(&self) {
        self.owner.say(&self.me, &WorkMessage::Kill { token: TOKEN, grace_ms: 0 });
    }

    fn end(&mut self) -> (AttemptOutcome, Option<ExternalEnd>) {
        match self.owner.hear() {
            Command::Worker(WorkerCommand::ReportFinished { token: TOKEN, outcome, external, .. }) => {
                (outcome, external.map(|external| *external))
            }
            other => panic!("not the end: {other:?}"),
        }
    }

    fn stop(self) {
        self.executor.stop();
        self.owner.say(&self.me, &WorkMessage::Recorded { token: TOKEN });
        self.executor.join();
    }
}

fn ids(of: &[&str]) -> Vec<ExternalWorkId> {
    of.iter().map(|id| ExternalWorkId::try_from(*id).unwrap()).collect()
}

/// EXE-13: what carries the tag and what the job reports is found while it runs and ended with it, all of it, before its end is
/// reported; what is of others stays.
#[test]
fn killed_attempt_ends_all_that_it_started_elsewhere() {
    let mut fixture = Fixture::start(&json!({}));
    fixture.cluster.submit("application_9_9", "of-another");
    fixture.run(
        r#"submit application_1_1 "$TIDEMILL_WORK_TAG"; submit application_1_2 "$TIDEMILL_WORK_TAG"
        submit application_1_3 other; echo application_1_3 >> "$TIDEMILL_WORK_IDS"; echo '-kill;x' >> "$TIDEMILL_WORK_IDS"
        printf application_9_9 >> "$TIDEMILL_WORK_IDS"; sleep 1000"#,
    );
    fixture.hear_found(TOKEN, &["application_1_1", "application_1_2", "application_1_3"]);
    // The line of the stranger never was whole, and is taken back.
    let report = fixture.dir.path().join(format!("attempts/{TOKEN}/work_ids"));
    fs::write(&report, "application_1_3\n").unwrap();
    fixture.kill();
    let (outcome, external) = fixture.end();
    assert_eq!(outcome.result, AttemptResult::Killed);
    let all = ["application_1_1", "application_1_2", "application_1_3"];
    assert_eq!(external, Some(ExternalEnd { ids: ids(&all), unconfirmed: false }));
    assert_eq!(all.map(|id| fixture.cluster.state(id)), ["KILLED"; 3]);
    assert_eq!(fixture.cluster.state("application_9_9"), "UNDEFINED");
    fixture.stop();
}

/// EXE-13: while the cluster does not answer, or does not end what it is asked to, the end of the attempt is not reported.
#[test]
fn end_is_not_reported_before_the_cluster_confirms_it() {
    let mut fixture = Fixture::start(&json!({}));
    fixture.run(r#"submit application_1_1 "$TIDEMILL_WORK_TAG"; sleep 1000"#);
    fixture.hear_found(TOKEN, &["application_1_1"]);
    fs::write(fixture.cluster.path("stubborn"), "").unwrap();
    fs::write(fixture.cluster.path("down"), "").unwrap();
    fs::write(fixture.cluster.path("tries"), "").unwrap();
    fs::set_permissions(fixture.cluster.path("tries"), fs::Permissions::from_mode(0o666)).unwrap();
    fixture.kill();
    until("several tries", || (fixture.cluster.lines("tries").len() >= 6).then_some(()));
    assert_eq!(fixture.owner.heard_so_far(), []);
    fs::remove_file(fixture.cluster.path("down")).unwrap();
    until("several kills", || (fixture.cluster.lines("killed").len() >= 2).then_some(()));
    assert_eq!(fixture.owner.heard_so_far(), []);
    fs::remove_file(fixture.cluster.path("stubborn")).unwrap();
    let (outcome, external) = fixture.end();
    assert_eq!((outcome.result, external.unwrap().unconfirmed), (AttemptResult::Killed, false));
    assert_eq!(fixture.cluster.state("application_1_1"), "KILLED");
    fixture.stop();
}

/// EXE-13: by its exit code, what an attempt has left running elsewhere is ended with it, and what has ended is left alone.
#[test]
fn ordinary_end_ends_what_is_left_elsewhere() {
    let mut fixture = Fixture::start(&json!({}));
    fixture.run(
        r#"submit application_1_1 "$TIDEMILL_WORK_TAG"; submit application_1_2 "$TIDEMILL_WORK_TAG"
        echo FAILED > "$CLUSTER/apps/application_1_1/state"; exit 0"#,
    );
    let (outcome, external) = fixture.end();
    assert_eq!(outcome.result, AttemptResult::Success);
    assert_eq!(external.unwrap().ids, ids(&["application_1_1", "application_1_2"]));
    assert_eq!(
        ["application_1_1", "application_1_2"].map(|id| fixture.cluster.state(id)),
        ["FAILED", "KILLED"]
    );
    assert_eq!(fixture.cluster.lines("killed"), ["application_1_2"]);
    fixture.stop();
}

/// EXE-13: where the final state decides, the attempt lasts until all has ended by itself, whatever its exit code; without external
/// work the exit code decides.
#[test]
fn final_state_decides_where_the_type_says_so() {
    for (code, state, expected) in [
        (0, "FAILED", AttemptResult::Failed),
        (3, "SUCCEEDED", AttemptResult::Success),
        (0, "KILLED", AttemptResult::Failed),
    ] {
        let mut fixture = Fixture::start(&json!({"success": "final_state"}));
        fixture.run(&format!(r#"submit application_1_1 "$TIDEMILL_WORK_TAG"; exit {code}"#));
        fixture.hear_found(TOKEN, &["application_1_1"]);
        assert_eq!(fixture.owner.heard_so_far(), []);
        fixture.cluster.set_state("application_1_1", state);
        let (outcome, _) = fixture.end();
        assert_eq!((outcome.result, outcome.exit_code), (expected, Some(code)), "{outcome:?}");
        let says = outcome.message.contains("application_1_1 ended as");
        assert_eq!(says, expected == AttemptResult::Failed, "{outcome:?}");
        assert_eq!(fixture.cluster.lines("killed"), Vec::<String>::new());
        fixture.stop();
    }
    let mut fixture = Fixture::start(&json!({"success": "final_state"}));
    fixture.run("exit 3");
    assert_eq!(fixture.end().0.result, AttemptResult::Failed);
    fixture.stop();
}

/// EXE-13, TMO-5: a kill and a timeout end what the attempt waits for elsewhere, after its processes have ended.
#[test]
fn attempt_that_lasts_elsewhere_can_be_killed_and_times_out() {
    let mut fixture = Fixture::start(&json!({"success": "final_state"}));
    fixture.run(r#"submit application_1_1 "$TIDEMILL_WORK_TAG"; exit 0"#);
    fixture.hear_found(TOKEN, &["application_1_1"]);
    fixture.kill();
    let (outcome, external) = fixture.end();
    assert_eq!((outcome.result, external.unwrap().unconfirmed), (AttemptResult::Killed, false));
    assert_eq!(fixture.cluster.state("application_1_1"), "KILLED");
    fixture.stop();

    let mut fixture = Fixture::start(&json!({"success": "final_state"}));
    let script = r#"submit application_1_1 "$TIDEMILL_WORK_TAG"; exit 0"#;
    let run = RunSpec { execution_timeout_ms: Some(500), ..Fixture::spec(TOKEN, script) };
    fixture.owner.grant(&fixture.me, &run);
    fixture.owner.hear_started(TOKEN);
    assert_eq!(fixture.end().0.result, AttemptResult::TimedOut);
    assert_eq!(fixture.cluster.state("application_1_1"), "KILLED");
    fixture.stop();
}

/// EXE-13: a shim that is killed confirms nothing, and the next attempt ends what it has left before its process begins.
#[test]
fn next_attempt_ends_what_a_killed_shim_has_left_before_it_begins() {
    let mut fixture = Fixture::start(&json!({}));
    fixture.run(
        r#"submit application_1_1 "$TIDEMILL_WORK_TAG"; submit application_1_2 other
        echo application_1_2 >> "$TIDEMILL_WORK_IDS"; echo $PPID > "$CLUSTER/shim.new"; mv "$CLUSTER/shim.new" "$CLUSTER/shim"
        sleep 1000"#,
    );
    fixture.hear_found(TOKEN, &["application_1_1", "application_1_2"]);
    let shim = fs::read_to_string(fixture.cluster.path("shim")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(shim).unwrap(), Signal::STOP).unwrap();
    use std::io::Write as _;
    let report = fixture.dir.path().join(format!("attempts/{TOKEN}/work_ids"));
    writeln!(fs::OpenOptions::new().append(true).open(report).unwrap(), "application_1_3\nno_id").unwrap();
    kill_process(Pid::from_raw(shim).unwrap(), Signal::KILL).unwrap();
    let (outcome, external) = fixture.end();
    let external = external.unwrap();
    // The last one was reported when nobody looked any more.
    let mut known = external.ids.clone();
    known.sort();
    assert_eq!(known, ids(&["application_1_1", "application_1_2", "application_1_3"]));
    assert_eq!((outcome.result, external.unconfirmed), (AttemptResult::Lost, true));
    assert_eq!(fixture.cluster.state("application_1_1"), "UNDEFINED");

    let next = Token(8193);
    let unconfirmed = vec![ExternalWork { token: TOKEN, ids: ids(&["application_1_2"]) }];
    let script = r#"cat "$CLUSTER"/apps/*/state > "$CLUSTER/states"; exit 0"#;
    fixture.owner.grant(&fixture.me, &RunSpec { unconfirmed, ..Fixture::spec(next, script) });
    fixture.owner.hear_started(next);
    assert_eq!(fixture.owner.hear_finished(next).0.result, AttemptResult::Success);
    assert_eq!(fixture.cluster.lines("states"), ["KILLED", "KILLED"], "before it began");
    fixture.owner.say(&fixture.me, &WorkMessage::Recorded { token: next });
    fixture.stop();
}

/// EXE-13: an attempt whose earlier ones cannot be confirmed does not begin; a kill ends it without a process.
#[test]
fn attempt_does_not_begin_while_earlier_work_is_not_confirmed() {
    let mut fixture = Fixture::start(&json!({}));
    fixture.cluster.submit("application_1_1", "x");
    fs::write(fixture.cluster.path("stubborn"), "").unwrap();
    let unconfirmed = vec![ExternalWork { token: Token(2), ids: ids(&["application_1_1"]) }];
    let run = RunSpec { unconfirmed, ..Fixture::spec(TOKEN, r#"touch "$CLUSTER/begun""#) };
    fixture.owner.grant(&fixture.me, &run);
    until("several kills", || (fixture.cluster.lines("killed").len() >= 3).then_some(()));
    assert_eq!(fixture.owner.heard_so_far(), []);
    fixture.kill();
    let (outcome, external) = fixture.end();
    assert_eq!((outcome.result, external), (AttemptResult::Killed, None));
    assert!(!fixture.cluster.path("begun").exists());
    fixture.stop();
}

/// EXE-13: a worker whose type cannot end what earlier attempts have left gives the attempt back, and says why; where nothing is named,
/// there is nothing to end.
#[test]
fn worker_that_cannot_end_earlier_work_gives_the_attempt_back() {
    let mut fixture = Fixture::start(&json!({}));
    let left = |token| vec![ExternalWork { token, ids: ids(&["application_1_1"]) }];
    let run = spec(TOKEN, "plain", "exit 0");
    fixture.owner.grant(&fixture.me, &RunSpec { unconfirmed: left(Token(2)), ..run.clone() });
    let Command::Worker(WorkerCommand::RejectAssignment { token: TOKEN, reason, .. }) = fixture.owner.hear()
    else {
        panic!("it is not given back")
    };
    assert!(reason.contains("application_1_1") && reason.contains("type plain"), "{reason}");
    let next = Token(8193);
    let unconfirmed = vec![ExternalWork { token: Token(2), ids: Vec::new() }];
    fixture.owner.grant(&fixture.me, &RunSpec { token: next, unconfirmed, ..run });
    fixture.owner.hear_started(next);
    fixture.owner.hear_finished(next);
    fixture.owner.say(&fixture.me, &WorkMessage::Recorded { token: next });
    fixture.stop();
}

/// EXE-13, JOB-2: the program of a type, and those that look after its external work, are looked for in the `PATH` of its jobs, with an
/// account and without.
#[test]
fn programs_are_found_in_the_path_of_the_job() {
    for run_as in [None, Some("nobody".try_into().unwrap())] {
        let dir = TempDir::new().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy("/bin/sh", dir.path().join("only-here")).unwrap();
        let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
        let mut fixture = Fixture::start_with(&json!({}), |of_type| {
            of_type["command"][0] = json!("only-here");
            of_type["env"]["PATH"] = json!(path);
            for command in ["list", "state", "kill"] {
                of_type["external_work"][command][0] = json!("only-here");
            }
        });
        let of = r#"submit application_1_1 "$TIDEMILL_WORK_TAG"; exit 0"#;
        fixture.owner.grant(&fixture.me, &RunSpec { run_as, ..Fixture::spec(TOKEN, of) });
        fixture.owner.hear_started(TOKEN);
        let (outcome, external) = fixture.end();
        assert_eq!(outcome.result, AttemptResult::Success, "{outcome:?}");
        assert_eq!(external, Some(ExternalEnd { ids: ids(&["application_1_1"]), unconfirmed: false }));
        fixture.stop();
    }
}

/// EXE-13: lines of the output count only where the type asks for it, and only whole ones that are so.
#[test]
fn pattern_finds_submissions_and_nothing_else() {
    let mut fixture = Fixture::start(&json!({"pattern": "* INFO *: Submitted application {id}"}));
    for id in ["application_7_7", "application_8_8", "application_9_9"] {
        fixture.cluster.submit(id, "other");
    }
    fixture.run(
        r#"echo "1 INFO Client: Submitted application application_7_7"
        echo "1 INFO Client: Submitted application application_8_8 failed" >&2
        echo "Killing application_9_9"; sleep 1000"#,
    );
    fixture.hear_found(TOKEN, &["application_7_7"]);
    fixture.kill();
    let (_, external) = fixture.end();
    assert_eq!(external.unwrap().ids, ids(&["application_7_7"]));
    let states =
        ["application_7_7", "application_8_8", "application_9_9"].map(|id| fixture.cluster.state(id));
    assert_eq!(states, ["KILLED", "UNDEFINED", "UNDEFINED"]);
    fixture.stop();
}

/// EXE-13: what is cut names no stranger: a last line without its end, in the output and in the report, and a line that the limit of the
/// output cuts. What is missing is not confirmed.
#[test]
fn cut_line_names_nothing() {
    let pattern = json!({"pattern": "* INFO Client: Submitted application {id}"});
    let line = "echo '1 INFO Client: Submitted application application_1_10'";
    for (of, output_max_bytes, is_missing) in [
        ("printf '1 INFO Client: Submitted application application_1_1'; exit 0".to_owned(), None, false),
        ("printf application_1_1 >> ../work_ids; exit 0".to_owned(), None, true),
        // Its head ends in the id.
        (format!("{line}; yes | head -n 200; exit 0"), Some(2 * 52), true),
        (format!("{line}; exit 0"), None, false),
    ] {
        let cluster = Cluster::new();
        cluster.submit("application_1_1", "other");
        let attempt = Attempt::start(&ShimSpec { output_max_bytes, ..cluster.spec(&pattern, &of) });
        let external = until("the end", || attempt.record()).external.unwrap();
        assert_eq!(
            (cluster.state("application_1_1").as_str(), external.unconfirmed),
            ("UNDEFINED", is_missing),
            "{of}"
        );
        let found = external.work.contains_key(&ids(&["application_1_10"])[0]);
        assert_eq!(found, !is_missing && of.contains("1_10"), "{of}: {external:?}");
    }
}

/// EXE-13, EXE-2: the commands run as the account of the job, with its environment; its file of ids is its own.
#[test]
fn commands_run_as_the_account_of_the_job() {
    let mut fixture = Fixture::start(&json!({}));
    let script = r#"submit application_1_1 other; echo application_1_1 >> "$TIDEMILL_WORK_IDS"; sleep 1000"#;
    let run = RunSpec { run_as: Some("nobody".try_into().unwrap()), ..Fixture::spec(TOKEN, script) };
    fixture.owner.grant(&fixture.me, &run);
    fixture.owner.hear_started(TOKEN);
    fixture.hear_found(TOKEN, &["application_1_1"]);
    fixture.kill();
    assert_eq!(fixture.end().0.result, AttemptResult::Killed);
    assert_eq!(fixture.cluster.state("application_1_1"), "KILLED");
    let who = fixture.cluster.lines("who");
    assert!(!who.is_empty() && who.iter().all(|who| who == "nobody"), "{who:?}");
    fixture.stop();
}

/// EXE-13: a submission that was on its way when its process was killed turns up later, and is ended: where the kernel or the shim killed
/// it, or where the job has failed.
#[test]
fn submission_that_was_on_its_way_is_ended() {
    for of in ["kill -9 $$", "sleep 1000 & exit 0", "exit 1"] {
        let cluster = Cluster::new();
        let attempt = Attempt::start(&cluster.spec(&json!({"settle_ms": 1_500}), of));
        until("a first look", || cluster.path("listed").exists().then_some(()));
        cluster.submit("application_1_1", "tag-1");
        let external = until("the end", || attempt.record()).external.unwrap();
        assert_eq!(cluster.state("application_1_1"), "KILLED", "{of}: {external:?}");
    }
}

/// EXE-13: what a cluster does not know yet, or not for a while, is asked for again, and ended once `list` names it.
#[test]
fn work_that_was_gone_and_is_listed_later_is_ended() {
    let cluster = Cluster::new();
    let more = json!({"settle_ms": 1_000});
    let report = "printf 'application_1_1\\napplication_2_2\\n' >> ../work_ids; sleep 1000";
    let spec = cluster.spec(&more, report);
    let mut attempt = Attempt::start(&spec);
    until("the report", || {
        fs::read_to_string(attempt.path("work_ids")).is_ok_and(|text| text.lines().count() == 2).then_some(())
    });
    attempt.order("kill 0 asked");
    until("a first round", || cluster.lines("asked").contains(&"application_2_2".to_owned()).then_some(()));
    cluster.submit("application_1_1", "tag-1");
    cluster.submit("application_2_2", "not-listed");
    let record = until("the end", || attempt.record());
    assert_eq!(cluster.state("application_1_1"), "KILLED", "{record:?}");
    assert_eq!(cluster.state("application_2_2"), "KILLED", "{record:?}");
}

/// EXE-13: all of what a job reports is ended, also where that is more than stands on record.
#[test]
fn more_than_is_on_record_is_ended() {
    let cluster = Cluster::new();
    let submits = "for n in $(seq 120); do submit application_1_$n other; echo application_1_$n >> ../work_ids; done; exit 0";
    let attempt = Attempt::start(&cluster.spec(&json!({}), submits));
    let external = until("the end", || attempt.record()).external.unwrap();
    assert_eq!((external.work.len(), external.unconfirmed), (120, false));
    let left = |number: &u32| cluster.state(&format!("application_1_{number}")) != "KILLED";
    assert_eq!((1..=120).find(left), None);
}

/// EXE-13: where more is reported, or listed, than can be read, the end is not confirmed.
#[test]
fn what_is_beyond_a_bound_is_not_confirmed() {
    let too_long = "yes application_1_1 | head -n 20000 >> ../work_ids; exit 0";
    let no_file = "mkdir ../work_ids; exit 0";
    for (of, is_noisy) in [(too_long, false), (no_file, false), ("exit 0", true), ("exit 0", false)] {
        let cluster = Cluster::new();
        cluster.submit("application_1_1", "tag-1");
        if is_noisy {
            fs::write(cluster.path("noisy"), "").unwrap();
        }
        let attempt = Attempt::start(&cluster.spec(&json!({}), of));
        let external = until("the end", || attempt.record()).external.unwrap();
        assert_eq!(external.unconfirmed, is_noisy || of != "exit 0", "{of}: {external:?}");
        assert_eq!(cluster.state("application_1_1") == "KILLED", !is_noisy, "{of}: {external:?}");
    }
}

/// EXE-13: why a `kill` has failed is told, once.
#[test]
fn failed_kill_says_why() {
    let cluster = Cluster::new();
    fs::write(cluster.path("refuses"), "").unwrap();
    let log = cluster.path("log");
    let fixture = shim::Fixture::start_into(&format!("| cat > '{}'", log.display()));
    let attempt =
        Attempt::start_with(fixture, &cluster.spec(&json!({}), "submit application_1_1 tag-1; exit 0"));
    until("several kills", || (cluster.lines("killed").len() >= 3).then_some(()));
    fs::remove_file(cluster.path("refuses")).unwrap();
    until("the end", || attempt.record());
    let said = cluster.lines("log");
    let why = |line: &&String| line.ends_with("`kill` of application_1_1 has failed: not allowed");
    assert_eq!(said.iter().filter(why).count(), 1, "{said:?}");
}

/// EXE-13: what cannot be told since nobody reads it ends neither the agent nor its shim.
#[test]
fn agent_whose_complaints_nobody_reads_goes_on() {
    let cluster = Cluster::new();
    let spec = cluster.spec(&json!({}), "submit application_1_1 tag-1; exit 0");
    fs::write(cluster.path("down"), "").unwrap();
    let attempt = Attempt::start_with(shim::Fixture::start_unread(), &spec);
    until("several tries", || (cluster.lines("tries").len() >= 4).then_some(()));
    fs::remove_file(cluster.path("down")).unwrap();
    let external = until("the end", || attempt.record()).external.unwrap();
    assert!(!external.unconfirmed, "{external:?}");
    assert_eq!(cluster.state("application_1_1"), "KILLED");
}

/// EXE-13, EXE-8: without its worker, a shim whose lease is over ends what runs elsewhere, and writes down that it has.
#[test]
fn lease_end_ends_what_runs_elsewhere_without_a_worker() {
    let cluster = Cluster::new();
    let mut spec = cluster.spec(&json!({}), "submit application_1_1 tag-1; sleep 1000");
    let term_at_ms = boottime_ms() + 2_000;
    spec.lease = Some(Lease { term_at_ms, kill_at_ms: term_at_ms });
    let attempt = Attempt::start(&spec);
    until("the application", || cluster.path("apps/application_1_1/tag").exists().then_some(()));
    attempt.leave();
    let record = until("the end", || attempt.record());
    assert_eq!(record.kill_cause, Some(KillCause::Lease), "{record:?}");
    let external = record.external.unwrap();
    assert_eq!(external.work.values().copied().collect::<Vec<_>>(), [Some(ExternalState::Killed)]);
    assert!(!external.unconfirmed);
    assert_eq!(cluster.state("application_1_1"), "KILLED");
}

/// Ends the agent of the attempt whose job has written down its shim.
fn kill_agent(cluster: &Cluster) {
    let shim = fs::read_to_string(cluster.path("shim")).unwrap();
    let is_agent = |pid: &&str| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "tidemill-agent")
    };
    // It takes its name after it has begun.
    let agent = until("the agent", || {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", shim.trim())).unwrap();
        children.split_whitespace().find(is_agent)?.parse().ok()
    });
    kill_process(Pid::from_raw(agent).unwrap(), Signal::KILL).unwrap();
}

/// EXE-13: an agent that is killed leaves an end that is not confirmed, and says so. Its job goes on to its own end, which is
/// a success by the exit code, and none by the final state: nobody has asked for that.
#[test]
fn killed_agent_leaves_an_end_that_is_not_confirmed() {
    for (success, expected) in [("exit_code", AttemptResult::Success), ("final_state", AttemptResult::Lost)] {
        for submits in ["submit application_1_1 \"$TIDEMILL_WORK_TAG\"", ""] {
            let mut fixture = Fixture::start(&json!({"success": success}));
            fixture.run(&format!(
                r#"{submits}
                echo $PPID > "$CLUSTER/shim.new"; mv "$CLUSTER/shim.new" "$CLUSTER/shim"
                until [ -e "$CLUSTER/go" ]; do sleep 0.05; done; exit 0"#
            ));
            let known: &[&str] = if submits.is_empty() { &[] } else { &["application_1_1"] };
            fixture.hear_found(TOKEN, known);
            until("the shim's number", || fixture.cluster.path("shim").exists().then_some(()));
            kill_agent(&fixture.cluster);
            fs::write(fixture.cluster.path("go"), "").unwrap();
            let (outcome, external) = fixture.end();
            assert_eq!(external, Some(ExternalEnd { ids: ids(known), unconfirmed: true }));
            assert_eq!(outcome.result, expected, "{success}: {outcome:?}");
            assert!(outcome.message.contains("external work has ended is not known"), "{outcome:?}");
            fixture.stop();
        }
    }
}
