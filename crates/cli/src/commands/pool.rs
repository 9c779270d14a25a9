//! `tidemill pool …`.

use serde_json::{Value, json};
use tidemill_client::{Method, segment};

use super::{Session, write};
use crate::args::{OutputFormat, PoolCommand};
use crate::exit::Exit;
use crate::failure::Done;
use crate::output;
use crate::render::{self, Column};
use crate::server::Query;
use crate::yaml;

/// More than there can be.
const LIMIT: usize = 10_000;

const POOLS: &[Column] = &[
    Column("NAME", &["/name"]),
    Column("VERSION", &["/version"]),
    Column("SLOTS", &["/slots"]),
    Column("STARTS", &["/rate/starts"]),
    Column("IN SECONDS", &["/rate/interval_s"]),
    Column("GROUP", &["/group"]),
    Column("COMMENT", &["/comment"]),
];
const HOLDERS: &[Column] = &[
    Column("BATCH", &["/batch"]),
    Column("JOB", &["/job"]),
    Column("GROUP", &["/group"]),
    Column("SLOTS", &["/slots"]),
];

pub(super) fn run(session: &Session<'_>, command: PoolCommand) -> Done<Exit> {
    match command {
        PoolCommand::Apply { file } => {
            write::define(session, "/api/pools", "pool", &yaml::pools(&file)?, &file)
        }
        PoolCommand::Ls => {
            let answer = session.server.list("/api/pools", &Query::new(), LIMIT)?;
            let nothing = "No pools. Add some with `tidemill pool apply -f FILE`.";
            Ok(session.show(&answer, |answer| render::list(answer, POOLS, nothing)))
        }
        PoolCommand::Show { name } => {
            let answer = session.server.get(&format!("/api/pools/{}", segment(&name)), &[])?;
            Ok(session.show(&answer, |answer| shown(&name, answer)))
        }
        PoolCommand::Export => {
            let listed = session.server.list("/api/pools", &Query::new(), LIMIT)?;
            let names = listed["items"].as_array().into_iter().flatten().filter_map(|of| of["name"].as_str());
            let one = |name: &str| {
                let mut answer = session.server.get(&format!("/api/pools/{}", segment(name)), &[])?;
                Ok(answer["pool"].take())
            };
            let pools = names.map(one).collect::<Done<Vec<Value>>>()?;
            match session.format {
                OutputFormat::Json => output::json(&json!({ "pools": pools })),
                OutputFormat::Table => output::line(yaml::write_pools(pools)?),
            }
            Ok(Exit::Success)
        }
        PoolCommand::Delete { name } => {
            let path = format!("/api/pools/{}", segment(&name));
            let answer = session.server.write(Method::Delete, &path, None, None)?;
            Ok(session.show(&answer, |_| format!("Pool {name} removed.")))
        }
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
    let holders = render::list(&json!({ "items": answer["holders"] }), HOLDERS, "Nobody has slots of it.");
    format!("Pool {name}, {of}: {used}.{rate}\n\n{holders}")
}
