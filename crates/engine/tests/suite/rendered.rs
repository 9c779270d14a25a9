//! OPS-7: what templates become has a bound, whatever a definition says. A short text that names a long parameter often
//! would otherwise become a message that no log takes, which its owner would repeat without end.

use crate::kit::{Script, World, job};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    BatchEvent, Event, ExternalDependency, FinalCommandEvent, ObservationEvent, WorkMessage,
};

/// As much as a message to a worker may take on the log.
const MAX_MESSAGE_BYTES: usize = 4_000_000;

fn named(times: usize) -> String {
    "${param.p}".repeat(times)
}

fn ends(world: &mut World) -> Vec<String> {
    let told = |event: &Event| match event {
        Event::Batch(BatchEvent::Finished { result, message, .. }) => Some(format!("{result:?}: {message}")),
        Event::FinalCommand(FinalCommandEvent::Finished { result, message, .. }) => {
            Some(format!("final command {result:?}: {message}"))
        }
        _ => None,
    };
    world.events().iter().filter_map(told).collect()
}

/// A batch whose command, arguments or parameters become too long ends as failed, says why, and is told to nobody.
#[test]
fn batch_whose_texts_become_too_long_fails() {
    let long = "x".repeat(10_000);
    for fields in [
        json!({"command": "${app_name}".repeat(6_000), "app_name": "c".repeat(100)}),
        json!({"command": "x", "arguments": [named(30), named(30)]}),
        json!({"program": "/p", "arguments": [named(60)]}),
        json!({"command": "x", "success_check": {"output_path": format!("/o/{}", named(60))}}),
        json!({"command": "x", "parameters": {"p": "x", "q": "${app_name}".repeat(6_000)}, "app_name": "c".repeat(100)}),
    ] {
        let mut world = World::new();
        let mut whole = json!({"type": "shell", "parameters": {"p": long}});
        whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let ids = world.define(vec![job("a", whole)]);
        let worker = world.worker("w", 1, Script::Silent);
        world.batch(ids[0], None);
        world.events();
        assert_eq!(world.granted_command(&worker), None, "{fields}");
        let ends = ends(&mut world);
        assert!(ends.len() == 1 && ends[0].contains("bytes"), "{fields}: {ends:?}");
        assert!(world.folded() == world.partition);
    }
}

/// What is just short enough fits into one message, also where each of its bytes takes six of it.
#[test]
fn longest_texts_fit_into_a_message() {
    let mut world = World::new();
    let control = "\u{1}".repeat(10_000);
    let argument = format!("{}${{batch_id}}", named(51));
    let ids = world.define(vec![job(
        "a",
        json!({"type": "shell", "command": "x", "arguments": [argument], "parameters": {"p": control}}),
    )]);
    let worker = world.worker("w", 1, Script::Silent);
    world.batch(ids[0], None);
    assert!(world.granted_command(&worker).unwrap().len() > 510_000);
    let heard = &world.played(&worker).heard;
    let granted = heard.iter().rev().find(|message| matches!(message, WorkMessage::Granted { .. })).unwrap();
    let bytes = serde_json::to_vec(granted).unwrap().len();
    assert!((3_000_000..MAX_MESSAGE_BYTES).contains(&bytes), "{bytes}");
}

/// A final command, too; its batch keeps its result.
#[test]
fn final_command_that_becomes_too_long_is_not_run() {
    let mut world = World::new();
    let ids = world.define(vec![job(
        "a",
        json!({"type": "shell", "command": "x", "final_command": "${app_name}".repeat(6_000), "app_name": "c".repeat(100)}),
    )]);
    world.worker("w", 1, Script::Succeed);
    world.batch(ids[0], None);
    expect![[r#"
        Success: 
        final command NotRun: template: '${app_name}' at character 57663: makes the text longer than 524288 bytes; make it shorter"#]].assert_eq(&ends(&mut world).join("\n"));
    assert!(world.folded() == world.partition);
}

/// A path that becomes too long stays as it is written, so that its batch waits and says for what.
#[test]
fn path_that_becomes_too_long_stays_as_written() {
    let mut world = World::new();
    let ids = world.define(vec![job(
        "a",
        json!({"inputs": ["/in/${param.p}${param.p}", "/in/${param.q}"], "outputs": ["/out/${param.p}${param.p}"],
               "parameters": {"p": "x".repeat(600), "q": "7"}}),
    )]);
    world.batch(ids[0], None);
    let paths: Vec<String> = world
        .events()
        .iter()
        .flat_map(|event| match event {
            Event::Observation(ObservationEvent::ExternalDependencyRegistered {
                what: ExternalDependency::Path { path, .. },
                ..
            }) => {
                vec![path.to_string()]
            }
            Event::Batch(BatchEvent::Generated { outputs, .. }) => {
                outputs.iter().map(|output| output.path.clone()).collect()
            }
            _ => Vec::new(),
        })
        .collect();
    assert_eq!(paths, ["/in/${param.p}${param.p}", "/in/7", "/out/${param.p}${param.p}"]);
}

/// The rendering of a definition that nobody bounds would take gigabytes: it stops at the bound.
#[test]
fn definition_that_would_become_gigabytes_fails_at_the_bound() {
    let mut world = World::new();
    let fields = json!({"type": "shell", "command": "x", "arguments": [named(5_000)], "parameters": {"p": "x".repeat(60_000)}});
    let ids = world.define(vec![job("a", fields)]);
    let worker = world.worker("w", 1, Script::Silent);
    world.batch(ids[0], None);
    assert_eq!(world.granted_command(&worker), None);
}
