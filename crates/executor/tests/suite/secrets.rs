//! BYD-15: secrets of attempts and of their worker, in what jobs print.

use std::fs;

use tempfile::TempDir;
use tidemill_executor::{Config, Error, OutputCount, ShimSpec};
use tidemill_model::{Token, WorkMessage};

use crate::executor::{Executor, Owner, config, log_of, spec};
use crate::shim::{Attempt, script, until};

fn masked(text: &str, secrets: &[&str]) -> ShimSpec {
    ShimSpec { mask: secrets.iter().map(|secret| (*secret).to_owned()).collect(), ..script(text) }
}

/// BYD-15: a secret is in no log, also where it is printed in two writes, by lines or in base64; nor is it while the job runs. What is
/// counted is what was written.
#[test]
fn secret_that_is_printed_in_pieces_is_in_no_log() {
    let text = "mkfifo go; printf 'password hun'; sleep 0.1; printf 'ter22.\\n'; printf 'key two\\nli' >&2; read x < go; \
        printf 'nes of it\\n' >&2; printf 'user:hunter22' | base64; printf 'ends in hunte'";
    let mut attempt = Attempt::start(&masked(text, &["hunter22", "key two\nlines of it"]));
    let log = attempt.path("stdout");
    let printed = until("the first line", || fs::read_to_string(&log).ok().filter(|log| log.ends_with('\n')));
    assert_eq!(printed, "password ***.\n");
    assert_eq!(fs::read_to_string(attempt.path("stderr")).unwrap_or_default(), "");
    fs::write(attempt.path("work/go"), "\n").unwrap();
    let record = attempt.end();
    let stdout = attempt.stdout();
    assert!(
        stdout.starts_with("password ***.\ndXNlcj") && stdout.ends_with("***\nends in hunte"),
        "{stdout}"
    );
    assert_eq!(fs::read_to_string(attempt.path("stderr")).unwrap(), "***\n");
    let count = |written: usize| OutputCount { written_bytes: written as u64, dropped_bytes: 0 };
    assert_eq!((record.stdout, record.stderr), (count(stdout.len()), count(4)));
    assert_eq!(attempt.record().unwrap().excess, None);
}

/// BYD-15: a secret that cannot be masked keeps its job from being started.
#[test]
fn job_whose_secret_cannot_be_masked_does_not_start() {
    let mut attempt = Attempt::start(&masked("echo begun > begun", &["short"]));
    let error = attempt.end().error.unwrap();
    // An older shim refuses a field that it does not know.
    assert!(!serde_json::to_string(&script("true")).unwrap().contains("mask"));
    assert_eq!(error, "a secret to be masked is of 5 bytes; 6 to 65536 are allowed");
    assert!(!attempt.path("work/begun").exists());
}

/// BYD-15: what the environment of the worker holds as a secret is masked in the output of every job; a variable that is not set is
/// refused at the start.
#[test]
fn variables_of_the_worker_are_masked_in_every_output() {
    let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
    let with = |name: &str| Config { mask_env: vec![name.to_owned()], ..config(dir.path()) };
    let (_stop, stopped) = crossbeam_channel::bounded(1);
    let error = tidemill_executor::run(with("TIDEMILL_NOT_SET"), owner.log(), stopped).unwrap_err();
    assert!(matches!(&error, Error::Config { field: "mask_env", .. }), "{error}");
    let secret = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let executor = Executor::start(&owner, with("CARGO_MANIFEST_DIR"));
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    let token = Token(4097);
    owner.grant(&me, &spec(token, "shell", &format!("echo '[{secret}]'")));
    owner.hear_started(token);
    owner.hear_finished(token);
    assert_eq!(log_of(&me, token, "")["content"], "[***]\n");
    executor.stop();
    owner.say(&me, &WorkMessage::Recorded { token });
    executor.join();
}

/// LOG-2: when output came is noted for a job that prints for a while, for each stream at most ten times a second; one that prints at
/// once costs no file.
#[test]
fn times_are_noted_of_a_job_that_prints_for_a_while() {
    let mut attempt = Attempt::start(&script("echo a; echo b >&2; echo c"));
    attempt.end();
    assert!(!attempt.path("times").exists());
    let begin = jiff::Timestamp::now().as_millisecond();
    let text = "echo a; echo e >&2; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; echo $i; done; echo f >&2";
    let mut attempt = Attempt::start(&script(text));
    attempt.end();
    let end = jiff::Timestamp::now().as_millisecond();
    let times = fs::read(attempt.path("times")).unwrap();
    let (records, rest) = times.as_chunks::<17>();
    assert!(rest.is_empty());
    let number = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap());
    let all: Vec<_> = records.iter().map(|of| (of[0], number(&of[1..9]), number(&of[9..]))).collect();
    assert_eq!((all[0].0, all[0].1, all[1].0, all[1].1), (0, 0, 1, 0), "{all:?}");
    let most = (end - begin) / 100 + 2;
    for stream in [0, 1] {
        let of: Vec<_> = all.iter().filter(|(number, ..)| *number == stream).collect();
        assert!(of.len() >= 2 && of.len() as i64 <= most, "{most}: {all:?}");
        assert!(of.windows(2).all(|two| two[0].1 < two[1].1 && two[0].2 < two[1].2), "{all:?}");
        assert!(of.iter().all(|(_, _, ms)| (begin..=end).contains(ms)), "{all:?}");
    }
    assert!(all.iter().any(|(stream, offset, _)| (*stream, *offset) == (1, 2)), "the second line: {all:?}");
}
