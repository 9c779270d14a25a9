//! `tidemill pool …`.

use serde_json::Value;
use tidemill_model::PoolSpec;

use super::Session;
use super::named::Named;
use crate::args::PoolCommand;
use crate::exit::Exit;
use crate::failure::Done;
use crate::render;

const POOLS: Named = Named {
    noun: "pool",
    plural: "pools",
    each: "its name and slots",
    path: "/api/pools",
    command: "pool apply",
    columns: "name, version, slots, STARTS: rate/starts, IN SECONDS: rate/interval_s, group, comment",
};

const HOLDERS: &str = "batch, job, group, slots";

pub(super) fn run(session: &Session<'_>, command: PoolCommand) -> Done<Exit> {
    match command {
        PoolCommand::Apply { file } => POOLS.apply(session, &file),
        PoolCommand::Ls => POOLS.ls(session),
        PoolCommand::Show { name } => {
            let answer = session.server.get(&POOLS.path_of(&name), &[])?;
            Ok(session.show(&answer, |answer| shown(&name, answer)))
        }
        PoolCommand::Export => POOLS.export::<PoolSpec>(session),
        PoolCommand::Delete { name } => POOLS.delete(session, &name),
    }
}

fn shown(name: &str, answer: &Value) -> String {
    let slots = &answer["pool"]["slots"];
    let used = answer["used"].as_u64().map_or("unknown; its owner could not be asked".to_owned(), |used| {
        format!("{used} of {slots} slots are taken")
    });
    let rate = &answer["pool"]["rate"];
    let rate = match (rate["starts"].as_u64(), rate["interval_s"].as_u64()) {
        (Some(starts), Some(interval)) => format!("\nAt most {starts} batches start in {interval} seconds."),
        _ => String::new(),
    };
    let of =
        answer["pool"]["group"].as_str().map_or("shared by groups".to_owned(), |of| format!("of group {of}"));
    let holders = render::items(&answer["holders"], HOLDERS, "Nobody has slots of it.");
    format!("Pool {name}, {of}: {used}.{rate}\n\n{holders}")
}
