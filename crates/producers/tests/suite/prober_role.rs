//! What a prober does next, with given times: no clock, no log, nothing to ask.

use std::collections::BTreeSet;

use tidemill_model::{BatchId, ExternalDependencyId, ShardId, Timestamp, Token};
use tidemill_probe::{Answer, Failure, FailureKind, Outcome, Path, Question, Urgency};
use tidemill_producers::Parts;
use tidemill_producers::prober::{
    Answered, Config, Finding, Health, Input, LostOutput, Output, Role, Wanted,
};

const ONE: ShardId = ShardId(1);
const TWO: ShardId = ShardId(2);

fn question(path: &str) -> Question {
    Question { path: Path::parse("path", path, None).unwrap(), mark: None }
}

fn wanted(number: i64, path: &str) -> Wanted {
    Wanted {
        external_dependency: ExternalDependencyId(number),
        generation: 1,
        question: question(path),
        urgency: Urgency::Waiting,
        nudge: 0,
    }
}

fn all(shard: ShardId, external_dependencies: impl IntoIterator<Item = Wanted>) -> Input {
    Input::Wanted {
        shard,
        external_dependencies: external_dependencies.into_iter().collect(),
        barred: Vec::new(),
        outputs: Vec::new(),
    }
}

fn answer(path: &str, outcome: Outcome) -> Input {
    Input::Answer(Answer { question: question(path), outcome })
}

fn present(path: &str) -> Input {
    answer(path, Outcome::Present)
}

fn failed(path: &str, kind: FailureKind) -> Input {
    answer(path, Outcome::Failed(Failure { kind, reason: "out of order".to_owned(), tries: 4 }))
}

fn parts(mine: impl IntoIterator<Item = u32>) -> Input {
    Input::Parts(Parts { mine: mine.into_iter().collect(), count: 4 })
}

/// One that asks all parts, and knows two shards.
fn role() -> Role {
    role_with(Config::default())
}

fn role_with(config: Config) -> Role {
    let mut role = Role::new(config).unwrap();
    let told = step(&mut role, 0, [parts(0..4), Input::Shards(vec![ONE, TWO])]);
    assert_eq!(told, ["look 1", "look 2"]);
    role
}

/// One step, in words.
fn step(role: &mut Role, now_ms: u64, inputs: impl IntoIterator<Item = Input>) -> Vec<String> {
    role.step(now_ms, inputs).outputs.iter().map(words).collect()
}

fn words(output: &Output) -> String {
    match output {
        Output::Look(shard) => format!("look {shard}"),
        Output::Ask(questions) => {
            let mut paths: Vec<_> = questions.iter().map(ToString::to_string).collect();
            paths.sort_unstable();
            format!("ask {}", paths.join(" "))
        }
        Output::Tell(shard, findings) => {
            let findings = findings.iter().map(|Finding { external_dependency, generation }| {
                format!("{external_dependency}.{generation}")
            });
            format!("tell {shard}: {}", findings.collect::<Vec<_>>().join(" "))
        }
        Output::LookForOutputs(looks) => {
            let looks = looks.iter().map(|(shard, token, path)| format!("{path} for {shard}.{token}"));
            format!("look for {}", looks.collect::<Vec<_>>().join(" "))
        }
        Output::TellOutputs(shard, answers) => {
            let answers = answers.iter().map(|answer| format!("{} {:?}", answer.token, answer.found));
            format!("tell outputs {shard}: {}", answers.collect::<Vec<_>>().join(", "))
        }
        Output::Health(authority, health) => {
            format!("health {authority}: {} ms, {}", health.late_ms, health.failure())
        }
    }
}

const NOTHING: [&str; 0] = [];

/// DEP-1: a path that batches of several groups wait for is asked once, and all of them are told.
#[test]
fn path_that_several_shards_wait_for_is_asked_once_and_told_to_each() {
    let mut role = role();
    let inputs = [all(ONE, [wanted(1, "/a"), wanted(2, "/b")]), all(TWO, [wanted(7, "/a")])];
    assert_eq!(step(&mut role, 10, inputs), ["ask /a /b"]);
    assert_eq!(step(&mut role, 20, [present("/a")]), ["tell 1: 1.1", "tell 2: 7.1"]);
    assert_eq!(step(&mut role, 30, [answer("/b", Outcome::Absent)]), NOTHING);
    assert_eq!(role.waiting(), (2, 3));
}

#[test]
fn owners_are_asked_again_and_again_and_more_seldom_where_they_wait_for_much() {
    let mut role = role();
    assert_eq!(step(&mut role, 10, [all(ONE, []), Input::Unknown(TWO)]), NOTHING);
    assert_eq!(step(&mut role, 1_009, []), NOTHING);
    assert_eq!(step(&mut role, 1_010, []), ["look 1", "look 2"]);
    let many = (1..=30_000).map(|n| wanted(n, &format!("/{}/{n}", n % 10)));
    step(&mut role, 1_020, [all(ONE, many), all(TWO, [])]);
    assert_eq!(step(&mut role, 2_020, []), ["look 2"]);
    assert!(step(&mut role, 4_019, []).iter().all(|told| told != "look 1"));
    assert!(step(&mut role, 4_020, []).contains(&"look 1".to_owned()), "0.1 ms for each");
}

/// An answer counts for the generation that was waited for when it was asked, whatever came since.
#[test]
fn answer_to_an_older_question_does_not_count() {
    let mut role = role();
    assert_eq!(step(&mut role, 10, [all(ONE, [wanted(1, "/a")])]), ["ask /a"]);
    let withdrawn = Wanted { generation: 2, ..wanted(1, "/a") };
    assert_eq!(step(&mut role, 20, [all(ONE, [withdrawn])]), NOTHING);
    assert_eq!(step(&mut role, 30, [present("/a")]), ["ask /a"], "asked anew, and nothing told");
    assert_eq!(step(&mut role, 40, [present("/a")]), ["tell 1: 1.2"]);
}

#[test]
fn who_begins_to_wait_while_a_path_is_asked_gets_an_answer_of_its_own() {
    let mut role = role();
    assert_eq!(step(&mut role, 10, [all(ONE, [wanted(1, "/a")])]), ["ask /a"]);
    assert_eq!(step(&mut role, 20, [all(TWO, [wanted(7, "/a")])]), NOTHING);
    assert_eq!(step(&mut role, 30, [present("/a")]), ["ask /a", "tell 1: 1.1"]);
    assert_eq!(step(&mut role, 40, [present("/a")])[..], ["tell 2: 7.1"]);
}

/// DEP-9: an operator wants it asked now; what is under way does not count.
#[test]
fn nudged_path_is_asked_at_once() {
    let mut role = role();
    step(&mut role, 10, [all(ONE, [wanted(1, "/a"), wanted(2, "/b")]), all(TWO, [])]);
    step(&mut role, 20, [answer("/a", Outcome::Absent), answer("/b", Outcome::Absent)]);
    assert_eq!(step(&mut role, 1_010, []), ["look 1", "look 2"]);
    let nudged = Wanted { nudge: 1, ..wanted(1, "/a") };
    assert_eq!(step(&mut role, 1_020, [all(ONE, [nudged.clone(), wanted(2, "/b")])]), ["ask /a"]);
    let nudged = Wanted { nudge: 2, ..nudged };
    step(&mut role, 2_020, [answer("/a", Outcome::Absent)]);
    assert_eq!(step(&mut role, 2_030, [all(ONE, [nudged, wanted(2, "/b")])]), ["ask /a"]);
}

#[test]
fn path_about_to_matter_is_asked_sooner_while_it_does() {
    let mut role = role();
    step(&mut role, 0, [all(ONE, [wanted(1, "/a"), wanted(2, "/b")])]);
    step(&mut role, 10, [answer("/a", Outcome::Absent), answer("/b", Outcome::Absent)]);
    let urgent = Wanted { urgency: Urgency::Soon, ..wanted(1, "/a") };
    step(&mut role, 1_000, [all(ONE, [urgent, wanted(2, "/b")])]);
    assert_eq!(step(&mut role, 3_000, []), ["ask /a", "look 1"]);
    step(&mut role, 3_010, [all(ONE, [wanted(1, "/a"), wanted(2, "/b")]), answer("/a", Outcome::Absent)]);
    assert_eq!(step(&mut role, 6_500, []), ["look 1"]);
}

#[test]
fn what_was_not_heard_is_told_again_as_long_as_it_is_waited_for() {
    let mut role = role();
    step(&mut role, 10, [all(ONE, [wanted(1, "/a"), wanted(2, "/b")])]);
    assert_eq!(step(&mut role, 20, [present("/a")]), ["tell 1: 1.1"]);
    assert_eq!(step(&mut role, 30, [present("/b")]), NOTHING, "one command at a time");
    assert_eq!(step(&mut role, 40, [Input::Told(ONE, Answered::Lost)]), NOTHING);
    assert_eq!(step(&mut role, 1_040, []), ["tell 1: 1.1 2.1", "look 1"]);
    assert_eq!(
        step(&mut role, 1_050, [Input::Told(ONE, Answered::Lost), all(ONE, [wanted(2, "/b")])]),
        NOTHING
    );
    assert_eq!(step(&mut role, 2_060, [])[0], "tell 1: 2.1");
    assert_eq!(step(&mut role, 2_070, [Input::Told(ONE, Answered::Decided)]), NOTHING);
    assert!(step(&mut role, 9_000, []).iter().all(|told| !told.starts_with("tell")));
}

#[test]
fn much_is_told_in_commands_of_five_hundred() {
    let mut role = role();
    let external_dependencies = || (1..=1_200).map(|n| wanted(n, &format!("/{n}")));
    let mut told = step(&mut role, 10, [all(ONE, external_dependencies())]);
    let mut sizes = Vec::new();
    let mut now_ms = 10;
    while sizes.iter().sum::<usize>() < 1_200 {
        now_ms += 1;
        let mut inputs = Vec::new();
        for output in told {
            match output.split_once(' ').unwrap() {
                ("ask", paths) => inputs.extend(paths.split(' ').map(present)),
                ("tell", external_dependencies) => {
                    sizes.push(external_dependencies.split(' ').count() - 1);
                    inputs.push(Input::Told(ONE, Answered::Decided));
                }
                (other, _) => panic!("{other}"),
            }
        }
        told = step(&mut role, now_ms, inputs);
    }
    assert!(sizes.iter().all(|size| *size <= 500), "{sizes:?}");
}

/// Several probers: each asks its part, all paths are asked, and none by two.
#[test]
fn probers_divide_the_paths_and_one_that_is_gone_leaves_its_part() {
    let paths: Vec<String> = (0..60).map(|n| format!("/{n}/x")).collect();
    let external_dependencies = || (1..).zip(&paths).map(|(n, path)| wanted(n, path));
    let asked = |told: &[String]| -> BTreeSet<String> {
        let ask = told.iter().find_map(|output| output.strip_prefix("ask "));
        ask.into_iter().flat_map(|paths| paths.split(' ')).map(str::to_owned).collect()
    };
    let with = |mine: [u32; 2]| {
        let mut role = Role::new(Config::default()).unwrap();
        step(&mut role, 0, [parts(mine), Input::Shards(vec![ONE])]);
        let asked = asked(&step(&mut role, 10, [all(ONE, external_dependencies())]));
        (role, asked)
    };
    let (mut one, ones) = with([0, 1]);
    let (_, others) = with([2, 3]);
    assert!(ones.is_disjoint(&others) && !ones.is_empty() && !others.is_empty());
    assert_eq!(ones.len() + others.len(), 60);

    assert_eq!(step(&mut one, 20, [parts(0..4)]), ["look 1"], "what is its part now is looked for at once");
    assert_eq!(
        asked(&step(&mut one, 30, [all(ONE, external_dependencies())])),
        others,
        "what it asks for already is not asked twice"
    );
    step(&mut one, 40, [parts([])]);
    assert_eq!(one.waiting(), (0, 0));
    let first = ones.first().unwrap();
    assert_eq!(step(&mut one, 50, [present(first)]), NOTHING, "what is another's part is told by the other");
}

#[test]
fn shard_that_is_gone_is_neither_asked_nor_told() {
    let mut role = role();
    step(&mut role, 10, [all(ONE, [wanted(1, "/a")]), all(TWO, [])]);
    assert_eq!(step(&mut role, 20, [Input::Shards(vec![TWO])]), NOTHING);
    assert_eq!(step(&mut role, 30, [present("/a")]), NOTHING);
    assert_eq!(step(&mut role, 1_010, []), ["look 2"]);
}

/// DEP-5: what fails after its tries is told at once, each minute while it lasts, and once when it is over.
#[test]
fn failing_checks_are_told_by_authority() {
    let mut role = role();
    let external_dependencies = [wanted(1, "hdfs://a/x"), wanted(2, "hdfs://a/y"), wanted(3, "hdfs://b/x")];
    let looked = || all(ONE, external_dependencies.clone());
    step(&mut role, 10, [looked()]);
    let inputs = [failed("hdfs://a/x", FailureKind::Unavailable), answer("hdfs://b/x", Outcome::Absent)];
    step(&mut role, 20, inputs);
    let health = |told: Vec<String>| told.into_iter().find(|output| output.starts_with("health"));
    let told = health(step(&mut role, 1_020, [failed("hdfs://a/y", FailureKind::Paused { for_ms: 500 })]));
    let is = "health hdfs://a: 0 ms, 2 checks fail, as hdfs://a/x: out of order";
    assert_eq!(told.as_deref(), Some(is));
    assert_eq!(role.failing(), 2);
    assert_eq!(health(step(&mut role, 2_020, [])), None);
    let good = Health::default();
    assert_eq!(
        health(step(&mut role, 3_020, [Input::HealthTold("hdfs://a".to_owned(), good, Answered::Decided)])),
        None
    );

    // It answers again.
    let inputs = ["hdfs://a/x", "hdfs://a/y"].map(|path| answer(path, Outcome::Absent));
    let told = health(step(&mut role, 5_020, inputs));
    assert_eq!(told.as_deref(), Some("health hdfs://a: 0 ms, "));
    assert_eq!(health(step(&mut role, 6_020, [])), None, "once");
}

/// DEP-5, MON-1: lateness grows over five and ten minutes, and is told each time.
#[test]
fn lateness_is_told_when_it_begins_and_when_it_is_worth_an_alarm() {
    let mut role = role();
    step(&mut role, 0, [all(ONE, [wanted(1, "hdfs://a/x")])]);
    let mut heard = Vec::new();
    for second in 1..700_u64 {
        // It hangs and hangs.
        let told = role.step(second * 1_000, [answer("hdfs://a/x", Outcome::Hung { tries: 4 })]);
        let told = told.outputs.into_iter().filter_map(|output| match output {
            Output::Health(authority, health) => Some((authority, health.late_ms / 1_000)),
            _ => None,
        });
        heard.extend(told);
    }
    assert!(heard.iter().all(|(authority, _)| authority == "hdfs://a"));
    let late: Vec<u64> = heard.into_iter().map(|(_, late_s)| late_s).collect();
    assert!(
        [300, 600].iter().all(|step| late.iter().any(|late| (*step..*step + 2).contains(late))),
        "{late:?}"
    );
    assert!(late.len() < 20, "{late:?}");
}

/// MON-6: a path whose last call still hangs counts as one that fails, until it is answered.
#[test]
fn hung_path_fails_until_it_is_answered() {
    let mut role = role();
    step(&mut role, 10, [all(ONE, [wanted(1, "/a")])]);
    step(&mut role, 5_000, [answer("/a", Outcome::Hung { tries: 1 })]);
    assert_eq!(role.failing(), 1);
    assert_eq!(step(&mut role, 8_000, []).iter().filter(|it| *it == "ask /a").count(), 1);
    step(&mut role, 8_010, [answer("/a", Outcome::Hung { tries: 0 })]);
    assert_eq!(role.failing(), 1);
    step(&mut role, 12_000, [present("/a")]);
    assert_eq!(role.failing(), 0);
}

/// A check that was under way when the last one stopped to wait fails nobody.
#[test]
fn failure_of_what_nobody_waits_for_is_none() {
    let mut role = role();
    step(&mut role, 10, [all(ONE, [wanted(1, "/a")])]);
    step(&mut role, 20, [all(ONE, [])]);
    step(&mut role, 30, [answer("/a", Outcome::Hung { tries: 4 })]);
    assert_eq!(role.failing(), 0);
}

#[test]
fn news_that_nobody_heard_are_told_again() {
    let mut role = role();
    step(&mut role, 10, [all(ONE, [wanted(1, "/a")])]);
    step(&mut role, 20, [failed("/a", FailureKind::Refused)]);
    let told = |outputs: Vec<Output>| {
        outputs.into_iter().find_map(|output| match output {
            Output::Health(authority, health) => Some((authority, health)),
            _ => None,
        })
    };
    let (authority, health) = told(role.step(1_020, []).outputs).unwrap();
    let lost = Input::HealthTold(authority.clone(), health.clone(), Answered::Lost);
    assert_eq!(told(role.step(2_020, [lost]).outputs), Some((authority.clone(), health)));
    assert!(step(&mut role, 26_000, []).contains(&"ask /a".to_owned()));
    let (_, good) = told(role.step(27_020, [answer("/a", Outcome::Absent)]).outputs).unwrap();
    assert!(good.is_good());
    let lost = Input::HealthTold(authority.clone(), good.clone(), Answered::Lost);
    assert_eq!(told(role.step(28_020, [lost]).outputs), Some((authority, good)));
    assert_eq!(told(role.step(29_020, []).outputs), None);
}

#[test]
fn paths_that_may_not_be_asked_for_are_told_as_failing_and_not_touched() {
    let mut role = role_with(Config { local_roots: vec!["/data".into()], ..Config::default() });
    let external_dependencies = vec![wanted(1, "/data/a"), wanted(2, "/etc/passwd")];
    let barred = vec!["path: \"x\": has to begin with hdfs://".to_owned()];
    step(&mut role, 10, []);
    let told = step(
        &mut role,
        1_020,
        [Input::Wanted { shard: ONE, external_dependencies, barred, outputs: Vec::new() }],
    );
    assert_eq!(told[0], "ask /data/a");
    assert!(told[1].starts_with("health nobody: 0 ms, 2 checks fail, as /etc/passwd"), "{told:?}");
}

fn lost(token: i64, path: &str) -> LostOutput {
    let path = Path::parse("path", path, None).map_err(|error| error.to_string());
    LostOutput { batch: BatchId(1_000 + token), token: Token(token), path }
}

fn outputs(shard: ShardId, outputs: impl IntoIterator<Item = LostOutput>) -> Input {
    let outputs = outputs.into_iter().collect();
    Input::Wanted { shard, external_dependencies: Vec::new(), barred: Vec::new(), outputs }
}

fn looked(token: i64, changed_at: Result<Option<Timestamp>, &str>) -> Input {
    Input::OutputLooked(ONE, Token(token), changed_at.map_err(str::to_owned))
}

fn told(token: i64, answered: Answered) -> Input {
    Input::OutputsTold(ONE, vec![Token(token)], answered)
}

/// ZMB-1: an output of a lost attempt is looked for at once, once, and told until its owner has heard it.
#[test]
fn output_of_a_lost_attempt_is_looked_for_and_told() {
    let mut role = role();
    let wanted = || outputs(ONE, [lost(7, "/out"), lost(8, "/gone")]);
    assert_eq!(step(&mut role, 10, [wanted()]), ["look for /out for 1.7 /gone for 1.8"]);
    assert_eq!(step(&mut role, 20, [wanted()]), NOTHING, "it is looked for");
    let at = Timestamp::UNIX_EPOCH;
    let found = step(&mut role, 30, [looked(7, Ok(Some(at))), looked(8, Ok(None))]);
    assert_eq!(found, ["tell outputs 1: 7 Changed { at: 1970-01-01T00:00:00.000Z }, 8 Absent"]);
    assert_eq!(step(&mut role, 40, [told(7, Answered::Decided), told(8, Answered::Lost)]), NOTHING);
    assert_eq!(step(&mut role, 1_039, []), ["look 1"]);
    assert_eq!(step(&mut role, 1_040, []), ["tell outputs 1: 8 Absent"]);
    assert_eq!(step(&mut role, 1_050, [told(8, Answered::Decided)]), NOTHING);
    assert_eq!(step(&mut role, 1_060, [outputs(ONE, [])]), NOTHING);
    assert_eq!(step(&mut role, 1_070, [looked(7, Ok(None))]), NOTHING, "nobody wants to know");
}

/// ZMB-1: where nobody can tell it is looked for a few times, and then that is the answer.
#[test]
fn output_that_nobody_can_tell_of_is_looked_for_a_few_times() {
    let mut role = role();
    let mut now_ms = 10;
    let first = step(&mut role, now_ms, [outputs(ONE, [lost(7, "hdfs://nn/out")])]);
    assert_eq!(first, ["look for hdfs://nn/out for 1.7"]);
    for pause_ms in [1_000, 3_000, 8_000, 15_000] {
        let early = step(&mut role, now_ms, [looked(7, Err("no answer"))]);
        assert_eq!(early, NOTHING);
        now_ms += pause_ms;
        let again = step(&mut role, now_ms, []);
        assert!(again.contains(&"look for hdfs://nn/out for 1.7".to_owned()), "{again:?}");
        step(&mut role, now_ms, [outputs(ONE, [lost(7, "hdfs://nn/out")]), Input::Unknown(TWO)]);
    }
    let given_up = step(&mut role, now_ms, [looked(7, Err("no answer"))]);
    assert_eq!(given_up, [r#"tell outputs 1: 7 Unknown { reason: "no answer" }"#]);
}

/// ZMB-1: each output has one prober; what none may ask for is said at once.
#[test]
fn outputs_are_divided_and_what_may_not_be_asked_for_is_said() {
    let config = Config { local_roots: vec!["/data".into()], ..Config::default() };
    let mut role = role_with(config);
    let said = step(&mut role, 10, [outputs(ONE, [lost(7, "/etc/out"), lost(8, "/data/out")])]);
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[0], "look for /data/out for 1.8");
    assert!(said[1].starts_with("tell outputs 1: 7 Unknown") && said[1].contains("local_roots"), "{said:?}");
    let looks = |mine: std::ops::Range<u32>| {
        let mut role = Role::new(Config::default()).unwrap();
        step(&mut role, 0, [parts(mine), Input::Shards(vec![ONE])]);
        let wanted = (0..40).map(|n| lost(n, &format!("/{n}/out")));
        step(&mut role, 10, [outputs(ONE, wanted)]).concat().matches("/out for").count()
    };
    assert_eq!(looks(0..2) + looks(2..4), 40);
    assert!(looks(0..2) > 0 && looks(2..4) > 0);
}
