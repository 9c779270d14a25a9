//! API-6: shells complete commands, options, and names that the server has.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::command_line::Person;
use crate::server::{Server, TIDEMILL, run_job, text, until};

/// What bash offers for a command line, with its own script; nothing may be said on stderr.
fn bash(person: &Person, words: &[&str]) -> Vec<String> {
    let mut script =
        format!("complete() {{ :; }}; source <({TIDEMILL} completion bash); COMP_WORDS=({TIDEMILL}");
    for word in words {
        script.push_str(&format!(" '{word}'"));
    }
    script.push_str(&format!(
        "); COMP_CWORD={}; _tidemill_names {TIDEMILL} '{}' '{}'; ((${{#COMPREPLY[@]}} == 0)) || printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.len(),
        words.last().unwrap(),
        words.iter().rev().nth(1).unwrap_or(&"tidemill"),
    ));
    let mut shell = Command::new("bash");
    for name in ["SERVER", "KEY", "DATA", "CONFIG", "CONTEXT", "CONTEXTS", "AS_USER"] {
        shell.env_remove(format!("TIDEMILL_{name}"));
    }
    let shell = shell.args(["--norc", "-c", &script]).current_dir(&person.home).env("HOME", &person.home);
    let output = shell.env_remove("XDG_CONFIG_HOME").output().unwrap();
    assert_eq!(text(&output.stderr), "", "{words:?}");
    let mut found: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    found.sort();
    found
}

/// API-6: bash completes names by the context's key; whatever goes wrong is silence, and takes no longer than a second or so.
#[test]
fn bash_completes_names_from_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let [data, home] = ["data", "home"].map(|name| dir.path().join(name));
    [&data, &home].iter().for_each(|dir| fs::create_dir(dir).unwrap());
    let server = Server::start(&data);
    server.apply(
        "jobs:\n- {name: load-1, group: default, type: shell, command: 'true'}\n\
         - {name: load-2, group: default, type: shell, command: 'true'}\n\
         - {name: report, group: default, type: shell, command: 'true'}\n",
    );
    let pools = dir.path().join("pools.yaml");
    fs::write(&pools, "pools: [{name: lane, slots: 2}, {name: api, slots: 1}]").unwrap();
    server.json(&["pool", "apply", "-f", pools.to_str().unwrap()]);
    let batch = run_job(&server, "default/report");
    let person = Person { home };
    let url = server.client().server().to_owned();
    let key = fs::read_to_string(data.join("admin.key")).unwrap();
    let kept = person.run(&["login", "--server", &url, "--context", "prod"], &[], &key);
    assert!(kept.status.success(), "{}", text(&kept.stderr));

    let names = |words: &[&str]| bash(&person, words);
    until("the lists show the jobs", || (names(&["job", "show", "default/"]).len() == 3).then_some(()));
    assert_eq!(names(&["job", "show", "default/lo"]), ["default/load-1", "default/load-2"]);
    assert_eq!(names(&["-o", "json", "jobs", "run", "default/re"]), ["default/report"]);
    assert_eq!(names(&["batch", "ls", "--group", "=", "de"]), ["default"]);
    assert_eq!(names(&["pool", "show", ""]), ["api", "lane"]);
    assert_eq!(names(&["job", "ls", "--context", "p"]), ["prod"]);
    until("the list has the batch", || (names(&["batch", "show", ""]) == [batch.clone()]).then_some(()));
    assert_eq!(names(&["key", "delete", "ad"]), ["admin"]);
    // Where no name stands, commands and options do.
    assert!(names(&["po"]).contains(&"pool".to_owned()));
    assert!(names(&["job", "ls", "--gr"]).contains(&"--group".to_owned()));

    let none = |words: &[&str]| {
        let begun_at = Instant::now();
        let found = names(words);
        assert!(begun_at.elapsed() < Duration::from_secs(20), "{words:?}");
        assert!(
            !found.iter().any(|name| name.contains("lane") || name.contains("rror")),
            "{words:?}: {found:?}"
        );
    };
    none(&["--key", "admin:wrong", "pool", "show", "la"]);
    none(&["--server", "nonsense://h", "pool", "show", "la"]);
    none(&["--context", "nowhere", "pool", "show", "la"]);
    assert_eq!(server.stop(), Some(0));
    none(&["pool", "show", "la"]);
}

/// API-6: a server that takes the question and never answers is not waited for.
#[test]
fn completion_has_a_time_limit() {
    let dir = tempfile::tempdir().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let begun_at = Instant::now();
    let output = Command::new(TIDEMILL)
        .args(["complete-names", "--", "tidemill", "--server", &url, "--key", "a:b", "job", "show", ""])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), String::new()));
    assert!(output.status.success());
    assert!(begun_at.elapsed() < Duration::from_secs(30), "the client itself would wait for a minute");
}

/// API-6: zsh and fish ask for names in their own way.
#[test]
fn zsh_and_fish_ask_for_names_too() {
    let script =
        |shell: &str| text(&Command::new(TIDEMILL).args(["completion", shell]).output().unwrap().stdout);
    let end = |script: &str, from: &str| script[script.rfind(from).unwrap()..].to_owned();
    let (zsh, fish) = (script("zsh"), script("fish"));
    assert!(zsh.starts_with("#compdef tidemill") && zsh.contains("_tidemill()"));
    expect_test::expect![[r#"
        _tidemill_names() {
            local -a names
            names=("${(@f)$(command $words[1] complete-names -- "${(@)words[1,CURRENT]}" 2>/dev/null </dev/null)}")
            if [[ -n $names[1] ]]; then
                compadd -- $names
            else
                _tidemill "$@"
            fi
        }

        compdef _tidemill_names tidemill
    "#]]
    .assert_eq(&end(&zsh, "_tidemill_names() {"));
    assert!(fish.contains("__fish_tidemill_"));
    expect_test::expect![[r#"
        complete -c tidemill -a '(command tidemill complete-names -- (commandline -opc) (commandline -ct) 2>/dev/null </dev/null)'
    "#]]
    .assert_eq(&end(&fish, "complete -c tidemill -a '(command"));
    for shell in ["elvish", "powershell"] {
        assert!(!script(shell).contains("complete-names --"), "{shell}");
    }
}
