//! API-5: people sign in to a program that runs, by the command line.

use std::fs;

use serde_json::Value;

use crate::command_line::Person;
use crate::server::{Server, code, text, until};

const PEOPLE: &str = "\
departments: [{name: bi}]
people:
- {name: ada, role: super_administrator}
- {name: bob, departments: [bi]}
- {name: eve, role: administrator}
";
const ADA: &str = "the analytical engine";
const BOB: &str = "a builder of all things";

/// The first word of what a command shows: an invitation, a token.
fn first_word(out: &std::process::Output) -> String {
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout).split_whitespace().next().unwrap().to_owned()
}

/// API-5, API-9: an invitation of the first start makes the first person; people invite others, get tokens and lose them; what
/// they sign in with outlives a restart; who is disabled is out; and the audit list has it all, failures too.
#[test]
fn people_sign_in_invite_and_leave() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &[("PROCESS__HEARTBEAT_MS", "200")]);
    until("the level is raised", || (server.json(&["level", "show"])["level"].as_u64()? >= 4).then_some(()));
    let places = tempfile::tempdir().unwrap();
    let at_home = |name: &str| {
        let home = places.path().join(name);
        fs::create_dir_all(&home).unwrap();
        Person { home }
    };
    let (ada, bob, stranger) = (at_home("ada"), at_home("bob"), || at_home("stranger"));
    let url = server.client().server().to_owned();
    let login = |home: &Person, person: &str, more: &[&str], typed: &str| {
        let args = [&["login", "--server", &url, "--person", person], more].concat();
        home.run(&args, &[], typed)
    };

    let invitation = first_word(&server.run(&["person", "invite", "--first"]));
    assert!(invitation.starts_with("ti_"), "{invitation}");
    let lost = invitation;
    let invitation = first_word(&server.run(&["person", "invite", "--first"]));
    assert_ne!(lost, invitation, "one that was lost is replaced");
    assert_eq!(code(&login(&ada, "ada", &["--invitation"], &format!("{invitation}\nshort\n"))), 2);
    let in_now = login(&ada, "ada", &["--invitation"], &format!("{invitation}\n{ADA}\n"));
    assert!(text(&in_now.stdout).contains("as ada"), "{}{}", text(&in_now.stdout), text(&in_now.stderr));
    let again = login(&stranger(), "ada", &["--invitation"], &format!("{invitation}\n{ADA} again\n"));
    assert!(text(&again.stderr).contains("invitation"), "{}", text(&again.stderr));

    assert!(!server.run(&["person", "invite", "--first"]).status.success(), "somebody can sign in");
    let file = dir.path().join("people.yaml");
    fs::write(&file, PEOPLE).unwrap();
    assert!(ada.run(&["directory", "apply", "-f", file.to_str().unwrap()], &[], "").status.success());
    let by_token = ada.run(&["person", "invite", "bob"], &[], "");
    assert!(text(&by_token.stderr).contains("a token makes no key and invites nobody"), "{by_token:?}");
    let invitation = first_word(&ada.run(&["person", "invite", "bob", "--by", "ada"], &[], ADA));
    assert!(!login(&bob, "eve", &["--invitation"], &format!("{invitation}\n{BOB}\n")).status.success());
    assert!(login(&bob, "bob", &["--invitation"], &format!("{invitation}\n{BOB}\n")).status.success());
    assert!(!bob.run(&["person", "invite", "eve"], &[], "").status.success(), "bob is no administrator");
    assert!(!login(&stranger(), "bob", &[], "a wrong password\n").status.success());
    let reader =
        first_word(&bob.run(&["token", "create", "reads", "--person", "bob", "--may", "view"], &[], BOB));
    assert!(reader.starts_with("tm_"), "{reader}");
    let by_reader =
        |args: &[&str]| bob.run(&[args, &["--server", &url]].concat(), &[("TIDEMILL_KEY", &reader)], "");
    assert!(by_reader(&["job", "ls"]).status.success());
    let refused = by_reader(&["bulk", "ls"]);
    let submitted = by_reader(&["job", "submit", "x", "--type", "noop"]);
    assert!(!submitted.status.success(), "{} {}", text(&refused.stderr), text(&submitted.stdout));

    // Another password ends sessions; tokens go on, and so they do in the next life of the program.
    assert!(
        bob.run(&["password", "--person", "bob"], &[], &format!("{BOB}\n{BOB} and more\n")).status.success()
    );
    assert!(!login(&stranger(), "bob", &[], BOB).status.success());
    assert_eq!(server.stop(), Some(0));
    let server = Server::start_with(dir.path(), &[("PROCESS__HEARTBEAT_MS", "200")]);
    let moved = [("TIDEMILL_SERVER", server.client().server().to_owned())];
    let moved: Vec<(&str, &str)> = moved.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let by_reader = |args: &[&str]| bob.run(args, &[&moved[..], &[("TIDEMILL_KEY", &reader)]].concat(), "");
    assert!(by_reader(&["job", "ls"]).status.success());

    let listed = server.json(&["person", "credentials", "bob"]);
    let kinds: Vec<&Value> = listed["items"].as_array().unwrap().iter().map(|of| &of["kind"]).collect();
    assert_eq!(kinds, ["token", "token"], "{listed}");
    assert!(server.run(&["person", "disable", "bob"]).status.success());
    until("bob is out", || (!by_reader(&["job", "ls"]).status.success()).then_some(()));
    assert_eq!(server.json(&["person", "credentials", "bob"])["items"].as_array().unwrap().len(), 0);

    let audit = server.json(&["audit", "ls", "--person", "bob"]).to_string();
    for what in ["credential.issued", "password.set", "\"app\":\"session\""] {
        assert!(audit.contains(what), "{what}: {audit}");
    }
    let secrets = [ADA, BOB, &reader, "$argon2id$"];
    assert!(secrets.iter().all(|secret| !audit.contains(secret)), "{audit}");
    assert_eq!(server.stop(), Some(0));
}
