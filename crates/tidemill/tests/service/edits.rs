//! API-10: definitions carry an ETag, and two people who edit one job do not overwrite each other.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::server::{Server, TIDEMILL, text};

const JOBS: &str = "jobs: [{name: a, group: default, type: shell, command: echo 1, comment: first}]\n";

struct Definition<'s> {
    server: &'s Server,
    path: String,
}

impl<'s> Definition<'s> {
    fn new(server: &'s Server) -> Self {
        let id = server.json(&["job", "show", "default/a"])["id"].clone();
        Self { server, path: format!("/api/jobs/{id}/definition") }
    }

    fn get(&self) -> (Value, String) {
        let answer = self.server.client().get(&self.path).answer().unwrap();
        (answer.body, answer.etag.expect("it has a tag"))
    }

    fn put(&self, definition: &Value, tag: Option<&str>) -> (u16, Value, Option<String>) {
        let client = self.server.client();
        let call = client.put(&self.path).body(definition);
        let answer = match tag {
            Some(tag) => call.if_match(tag).answer(),
            None => call.answer(),
        };
        let answer = answer.unwrap();
        (answer.status, answer.body, answer.etag)
    }
}

fn with(definition: &Value, field: &str, value: impl Into<Value>) -> Value {
    let mut changed = definition.clone();
    changed[field] = value.into();
    changed
}

/// API-10: who shows the tag of what stands changes it and gets the next tag; who shows an older one is refused and changes nothing,
/// whether the definition or the switch was changed; without a tag nothing is changed, and `*` is for whatever stands.
#[test]
fn two_who_edit_one_job_do_not_overwrite_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(JOBS);
    let definition = Definition::new(&server);
    let (read, tag) = definition.get();
    assert_eq!((&read["command"], tag.as_str()), (&json!("echo 1"), "\"1\""), "{read}");

    let (status, answer, next) = definition.put(&with(&read, "command", "echo ann"), Some(&tag));
    assert_eq!((status, &answer["changes"][0]["version"], next.as_deref()), (200, &json!(2), Some("\"2\"")));
    let (status, again, same) = definition.put(&with(&read, "command", "echo ann"), Some(&tag));
    assert_eq!((status, &again["changes"][0]["change"], same), (200, &json!("unchanged"), next), "a repeat");
    let (status, refused, _) = definition.put(&with(&read, "comment", "bo"), Some(&tag));
    assert_eq!((status, refused["code"].as_str()), (412, Some("changed_meanwhile")), "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("its ETag is \"2\" now"), "{refused}");
    let (stands, tag) = definition.get();
    assert_eq!((&stands["command"], &stands["comment"]), (&json!("echo ann"), &json!("first")));

    // The switch belongs to the definition as it is written.
    assert!(server.run(&["job", "disable", "default/a"]).status.success());
    let (status, refused, _) = definition.put(&with(&stands, "comment", "bo"), Some(&tag));
    assert_eq!(status, 412, "it would be enabled again: {refused}");
    let (stands, tag) = definition.get();
    assert_eq!((tag.as_str(), &stands["enabled"]), ("\"2-disabled\"", &json!(false)));

    let (status, refused, _) = definition.put(&stands, None);
    assert_eq!((status, refused["errors"][0]["field"].as_str()), (428, Some("If-Match")), "{refused}");
    for (field, value) in
        [("name", json!("b")), ("group", json!("other")), ("priority", json!(99)), ("colour", json!("red"))]
    {
        let (status, refused, _) = definition.put(&with(&stands, field, value), Some(&tag));
        assert_eq!((status, refused["errors"][0]["field"].as_str()), (422, Some(field)), "{refused}");
    }
    // Errors that the catalogue finds are named as in the request, too.
    let (status, refused, _) = definition.put(&with(&stands, "parents", json!(["nowhere"])), Some(&tag));
    assert_eq!((status, refused["errors"][0]["field"].as_str()), (422, Some("parents[0]")), "{refused}");
    let (status, unchanged, same) = definition.put(&stands, Some(&tag));
    assert_eq!((status, &unchanged["changes"][0]["change"], same), (200, &json!("unchanged"), Some(tag)));
    let (status, _, next) = definition.put(&with(&read, "comment", "whatever it is"), Some("*"));
    assert_eq!((status, next.as_deref()), (200, Some("\"3\"")));
}

/// API-10: of many who read the same and write at once, one is done for each tag.
#[test]
fn of_many_edits_at_once_one_counts() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(JOBS);
    let definition = Definition::new(&server);
    let (read, tag) = definition.get();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let edit = |number: usize| {
            let (definition, read, tag) = (&definition, &read, &tag);
            scope.spawn(move || definition.put(&with(read, "comment", format!("by {number}")), Some(tag)).0)
        };
        let edits: Vec<_> = (0..8).map(edit).collect();
        edits.into_iter().map(|edit| edit.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 412].contains(status)), "{statuses:?}");
    assert_eq!(definition.get().1, "\"2\"");
}

/// API-6, API-10: `job edit` opens the definition in an editor, says what changed, and keeps what was written where it is refused.
#[test]
fn job_edit_opens_an_editor() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(JOBS);
    let done = edit(dir.path(), "sed -i 's/echo 1/echo 2/'");
    assert!(done.status.success() && text(&done.stdout).contains("command: echo 1 → echo 2"), "{done:?}");
    let nothing = edit(dir.path(), "true");
    assert!(text(&nothing.stdout).contains("Nothing to change."), "{nothing:?}");
    let failed = edit(dir.path(), "false");
    assert!(!failed.status.success() && text(&failed.stderr).contains("nothing is changed"), "{failed:?}");

    // Somebody else is faster.
    let other = format!(
        "'{TIDEMILL}' --data '{}' job disable default/a; sed -i 's/echo 2/echo 3/'",
        dir.path().display()
    );
    let refused = edit(dir.path(), &other);
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("was changed since it was read"), "{said}");
    let kept = said
        .split("is kept in ")
        .nth(1)
        .expect("it says where")
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();
    assert!(std::fs::read_to_string(&kept).unwrap().contains("echo 3"), "{said}");
    std::fs::remove_file(kept).unwrap();
    assert_eq!(Definition::new(&server).get().0["command"], "echo 2");
}

fn edit(data: &Path, editor: &str) -> Output {
    let mut command = Command::new(TIDEMILL);
    command
        .env_remove("TIDEMILL_SERVER")
        .env_remove("TIDEMILL_KEY")
        .env("VISUAL", editor)
        .args(["--data".as_ref(), data.as_os_str()]);
    command.args(["job", "edit", "default/a"]).output().unwrap()
}
