//! The fuzzed check of `suite/corpus.rs` finds what it looks for. A bug is on in the whole process, so this is one of its own.
#![allow(clippy::too_many_lines, reason = "a test tells its story from beginning to end")]
#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

#[path = "suite/kit/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the suite uses the rest")]
mod kit;

use std::panic::{AssertUnwindSafe, catch_unwind};

use kit::World;
use kit::refusal::{lived, refusal_changes_nothing};
use tidemill_corpus::corpus;
use tidemill_model::CommandRecord;
use tidemill_planted::{Bug, choose};

/// What the check says of each command of the corpus, with and without a request id; nothing: it holds.
fn said(world: &World) -> Vec<Option<String>> {
    let read = |input: &Vec<u8>| serde_json::from_slice::<CommandRecord>(input).ok();
    let commands: Vec<CommandRecord> = corpus!("command").inputs().iter().filter_map(read).collect();
    let both = |record: &CommandRecord| {
        let silent = CommandRecord { request: None, reply_to: None, ..record.clone() };
        let asked = CommandRecord { request: Some(tidemill_model::RequestId::new("r")), ..record.clone() };
        [silent, asked]
    };
    let say = |record: CommandRecord| {
        let checked = catch_unwind(AssertUnwindSafe(|| refusal_changes_nothing(world, record)));
        checked.err().map(|panic| panic.downcast_ref::<String>().unwrap().clone())
    };
    commands.iter().flat_map(both).map(say).collect()
}

/// EVT-2: a refused command that changes a shard, in the state that was drafted and not in what is on record, is named by the
/// check of every fuzzed command.
#[test]
fn refused_command_that_changes_state_is_named() {
    let world = lived();
    assert!(said(&world).iter().all(Option::is_none));
    choose(Some(Bug::RefusedChangesState));
    let said = said(&world);
    choose(None);
    let named: Vec<&String> = said.iter().flatten().collect();
    assert!(named.len() >= 10 && named.len() < said.len(), "{} of {}", named.len(), said.len());
    assert!(
        named.iter().all(|it| it.starts_with("a refused command has changed a shard: Cause")),
        "{named:?}"
    );
}
