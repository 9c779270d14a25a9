//! EXE-8: a shim that the next worker does not find lives: whatever the reason, no second process of its attempt runs beside the first, and
//! one end is reported.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;
use tidemill_model::{AttemptResult, Nonce, Registration, WorkMessage};

use crate::executor::{name, spec};
use crate::killed_worker::{TOKEN, WAITS, go};
use crate::shim::{is_alive, signal, until};
use crate::site::{Site, WorkerProcess, halt};

/// A worker that is killed while this runs, and what the owner grants again.
fn kill_worker_of(site: &mut Site, script: &str) -> (u32, u32) {
    let (worker, me) = site.begin(&[]);
    site.run(&me, TOKEN, &format!("echo $PPID > shim; echo $$ > main; {script}"));
    let of_attempt = (site.pid(TOKEN, "shim"), site.pid(TOKEN, "main"));
    worker.kill();
    of_attempt
}

/// It is assigned and granted once more, which starts nothing; then it ends, as itself.
fn end_after_another_grant(site: &mut Site, worker: WorkerProcess, again: &Registration) {
    assert_eq!(again.live, [TOKEN]);
    let (assignee, job_type) = (again.worker.clone(), name("shell"));
    site.owner
        .say(again, &WorkMessage::Assigned { worker: assignee, token: TOKEN, job_type, checks: Vec::new() });
    let (incarnation, nonce) = (again.incarnation.clone(), Nonce::new("any"));
    let spec = Box::new(spec(TOKEN, "shell", WAITS));
    site.owner.say(again, &WorkMessage::Granted { incarnation, nonce, spec });
    site.owner.hear_started(TOKEN);
    go(site, TOKEN);
    let (outcome, _) = site.hear_end(TOKEN);
    assert_eq!((outcome.result, outcome.exit_code), (AttemptResult::Failed, Some(3)));
    assert_eq!(site.runs(TOKEN), 1);
    site.record(worker, again, &[TOKEN]);
}

#[test]
fn shim_that_stands_still_is_waited_for() {
    let mut site = Site::new();
    let (worker, me) = site.begin(&[]);
    site.run(&me, TOKEN, &format!("echo $PPID > shim; {WAITS}"));
    let shim = site.pid(TOKEN, "shim");
    halt(shim);
    worker.kill();
    let (worker, again) = site.begin(&[TOKEN]);
    assert_eq!(site.owner.heard_so_far(), [], "whether it runs is not known yet");
    signal(shim, Signal::CONT);
    end_after_another_grant(&mut site, worker, &again);
}

#[test]
fn shim_whose_socket_was_removed_is_waited_for() {
    let mut site = Site::new();
    kill_worker_of(&mut site, WAITS);
    let control = site.attempt(TOKEN).join("control");
    until("the control socket", || control.exists().then_some(()));
    fs::remove_file(&control).unwrap();
    let (worker, again) = site.begin(&[TOKEN]);
    end_after_another_grant(&mut site, worker, &again);
}

/// Where the directory of an attempt is not found, the worker reports the attempt as lost, and has ended what runs of it by then.
#[test]
fn attempt_whose_directory_was_moved_or_removed_is_ended_before_it_is_lost() {
    for is_moved in [true, false] {
        let mut site = Site::new();
        let tree = format!("setsid sleep 1000 & echo $! > child; {WAITS}");
        let (shim, main) = kill_worker_of(&mut site, &tree);
        let child = site.pid(TOKEN, "child");
        let attempt = site.attempt(TOKEN);
        // Its shim looks again after seconds.
        let control = attempt.join("control");
        until("the control socket", || control.exists().then_some(()));
        if is_moved {
            fs::rename(&attempt, site.path().join("elsewhere")).unwrap();
        } else {
            fs::remove_dir_all(&attempt).unwrap();
        }
        let (worker, again) = site.begin(&[TOKEN]);
        let (outcome, usage) = site.hear_end(TOKEN);
        assert!(![main, child].into_iter().any(is_alive), "moved: {is_moved}");
        assert_eq!((outcome.result, usage), (AttemptResult::Lost, None));
        // The other one where its shim has noticed it sooner.
        let vanished = "its shim was killed, so how it ended is not known; nothing of it runs any more";
        assert!(
            [vanished, "the worker does not have it"].contains(&&*outcome.message),
            "{}",
            outcome.message
        );
        until("the end of the shim", || (!is_alive(shim)).then_some(()));
        site.record(worker, &again, &[TOKEN]);
    }
}

/// A job whose directory was moved, and that shows in no way whose it is, is ended by its shim, for nobody could take it over.
#[test]
fn job_whose_directory_was_moved_ends_without_a_worker() {
    let mut site = Site::new();
    let (shim, main) = kill_worker_of(&mut site, "echo > ready; cd /; exec env -i sleep 1000");
    let (attempt, elsewhere) = (site.attempt(TOKEN), site.path().join("elsewhere"));
    until("the job", || attempt.join("work").join("ready").exists().then_some(()));
    fs::rename(&attempt, elsewhere).unwrap();
    until("the end of the job", || (!is_alive(main)).then_some(()));
    until("the end of the shim", || (!is_alive(shim)).then_some(()));
    let (worker, again) = site.begin(&[TOKEN]);
    assert_eq!(site.hear_end(TOKEN).0.result, AttemptResult::Lost);
    site.record(worker, &again, &[TOKEN]);
}

/// A data directory that is moved as a whole, and the next worker with it, takes what runs along; and so does one whose attempts are
/// behind a link.
#[test]
fn jobs_go_on_where_only_what_is_above_their_directories_moves() {
    for is_linked in [false, true] {
        let mut site = Site::new();
        let elsewhere = site.path().join("elsewhere");
        if is_linked {
            fs::create_dir(&elsewhere).unwrap();
            fs::create_dir(site.data()).unwrap();
            symlink(&elsewhere, site.data().join("attempts")).unwrap();
        }
        let (_, main) = kill_worker_of(&mut site, WAITS);
        if !is_linked {
            fs::rename(site.data(), &elsewhere).unwrap();
            symlink(&elsewhere, site.data()).unwrap();
        }
        let control = site.attempt(TOKEN).join("control");
        until("the control socket", || control.exists().then_some(()));
        assert!(is_alive(main));
        let (worker, again) = site.begin(&[TOKEN]);
        end_after_another_grant(&mut site, worker, &again);
    }
}
