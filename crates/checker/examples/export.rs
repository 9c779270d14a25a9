//! Exports the journals of an embedded log: `cargo run -p tidemill-checker --example export -- DIRECTORY
//! PARTITIONS FILE`. The directory is the one that holds `log.db`, of a process that does not run.

use std::fs::File;
use std::path::Path;

use tidemill_checker::{Options, check_file, export_journal};
use tidemill_log::{SqliteConfig, SqliteLog};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, partitions, file] = arguments.as_slice() else {
        return Err("wanted: DIRECTORY PARTITIONS FILE".into());
    };
    let config = SqliteConfig { partitions: partitions.parse()?, ..SqliteConfig::new(directory) };
    let log = SqliteLog::open(&config, Box::new(|why| eprintln!("the log has ended: {why}")))?;
    let entries = export_journal(&log, File::create(file)?)?;
    let report = check_file(Path::new(file), Options { at_rest: true, ..Options::default() })?;
    println!("{entries} records\n{report}");
    Ok(())
}
