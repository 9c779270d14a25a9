//! What a process wrote, synced and told, from strace.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use tempfile::TempDir;

use super::writer::TOLD;
use crate::Rng;

/// What SQLite does to a file, and what it could do instead, which ends the test where it meets a file of the log.
const TRACED: &str = "trace=openat,close,write,pwrite64,ftruncate,fsync,fdatasync,?unlink,unlinkat,mmap,\
    ?open,?creat,dup,?dup2,dup3,writev,pwritev,pwritev2,fallocate,truncate,?rename,?renameat,renameat2,?link,linkat,\
    copy_file_range,sendfile,sync_file_range,io_uring_setup";
/// Lives of the writer that end as it syncs: each second one is killed, and of the others a sync fails.
const ENDED: u64 = 4;
/// Calls of each thread of it up to which the log is opened.
const OPENED: u64 = 15;

/// What happened in order.
#[derive(Debug)]
pub struct Trace {
    pub(super) happened: Vec<Happened>,
}

#[derive(Debug)]
pub(super) enum Happened {
    /// A life of the writer.
    Began,
    /// There is a new, empty file of this name.
    Made(String),
    Written {
        file: String,
        at: usize,
        bytes: Vec<u8>,
    },
    Cut {
        file: String,
        length: usize,
    },
    Synced(String),
    /// The system may take for written what it was to sync.
    SyncFailed(String),
    Removed(String),
    DirectorySynced,
    /// Somebody may act on a record: topic, offset and hash.
    Told(String),
}

/// In memory, where there is a place for it: nothing here has to last.
pub(super) fn ground() -> Result<TempDir, String> {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.map_err(|error| error.to_string())
}

impl Trace {
    /// Traces what `writer` makes, for a directory, of several lives, all but the last of which end as they sync.
    ///
    /// # Errors
    /// It cannot be run under strace, or failed, or did what is not known here.
    pub fn record(seed: u64, writer: impl Fn(&Path) -> Command) -> Result<Self, String> {
        let ground = ground()?;
        // SQLite opens the file by the path that has no links.
        let path = ground.path().canonicalize().map_err(|error| error.to_string())?;
        let directory = path.join("data");
        let mut rng = Rng::new(seed, "power cut lives", 0);
        let mut happened = Vec::new();
        for life in 0..=ENDED {
            happened.push(Happened::Began);
            let (ends, told) = (life == ENDED, ground.path().join(format!("trace-{life}")));
            let fault = match life % 2 {
                0 => format!("signal=SIGKILL:when={}", rng.range(1, 40)),
                _ => format!("error=EIO:when={}", rng.range(OPENED, 40)),
            };
            let status = run(&writer(&directory), &told, (!ends).then_some(&*fault))?;
            if ends != status.success() || !ends && life % 2 == 0 && status.signal() != Some(9) {
                return Err(format!("life {life} of the writer of seed {seed} ended with {status}"));
            }
            let text = fs::read_to_string(&told).map_err(|error| error.to_string())?;
            fs::remove_file(&told).map_err(|error| error.to_string())?;
            Lines {
                directory: &directory,
                files: BTreeMap::new(),
                broken: BTreeMap::new(),
                happened: &mut happened,
            }
            .read(&text)?;
        }
        Ok(Self { happened })
    }
}

/// Lets a sync of the writer fail; gives what it told after that, which it must not.
///
/// # Errors
/// It cannot be run under strace, or no sync failed.
pub fn told_after_a_failed_sync(
    when: u64,
    writer: impl Fn(&Path) -> Command,
) -> Result<Option<String>, String> {
    let ground = ground()?;
    let trace = ground.path().join("trace");
    let failure = format!("error=EIO:when={when}");
    let status = run(&writer(&ground.path().join("data")), &trace, Some(&failure))?;
    if status.success() {
        return Err(format!("the writer did not end at the sync {when}, which failed"));
    }
    let text = fs::read_to_string(&trace).map_err(|error| error.to_string())?;
    let (_, after) = text.split_once("(INJECTED)").ok_or("no sync failed")?;
    let told: String = TOLD.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    Ok(after.lines().find(|line| line.contains(&told)).map(str::to_owned))
}

/// Runs a writer under strace; `fault`: what becomes of its syncs.
fn run(writer: &Command, trace: &Path, fault: Option<&str>) -> Result<ExitStatus, String> {
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-xx", "-s", "100000000", "-e", TRACED, "-o"]).arg(trace);
    traced.args(fault.map(|fault| format!("--inject=fsync,fdatasync:{fault}")));
    traced.arg("--").arg(writer.get_program()).args(writer.get_args());
    let set = writer.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let status = traced.envs(set).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.map_err(|error| format!("strace cannot be run: {error}"))
}

/// The lines of one life.
struct Lines<'a> {
    directory: &'a Path,
    /// What is open.
    files: BTreeMap<i64, String>,
    /// Calls that are under way, by thread: another's came between.
    broken: BTreeMap<String, String>,
    happened: &'a mut Vec<Happened>,
}

impl Lines<'_> {
    fn read(mut self, text: &str) -> Result<(), String> {
        for line in text.lines() {
            let (thread, rest) = line.split_once(' ').ok_or_else(|| format!("no thread: {line:.80}"))?;
            let rest = rest.trim_start();
            if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
                self.broken.insert(thread.to_owned(), begun.to_owned());
                continue;
            }
            let whole = match rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
                Some((_, end)) => self.broken.remove(thread).unwrap_or_default() + end,
                None => rest.to_owned(),
            };
            // Signals and ends, and calls that never returned.
            let Some((call, result)) = whole.rsplit_once(" = ") else { continue };
            let result = result.split(' ').next().unwrap_or_default();
            let Ok(result) = result.parse::<i64>().or_else(|_| hex_number(result)) else { continue };
            self.call(call, result).map_err(|what| format!("{what}: {call:.200}"))?;
        }
        Ok(())
    }

    fn call(&mut self, call: &str, result: i64) -> Result<(), String> {
        let (name, rest) = call.split_once('(').ok_or("no call")?;
        let arguments: Vec<&str> = rest.trim_end().trim_end_matches(')').split(", ").collect();
        let argument = |index: usize| arguments.get(index).copied().ok_or("an argument is missing");
        let number = |index| argument(index)?.parse::<i64>().map_err(|_| "no number");
        if result < 0 {
            let synced = matches!(name, "fsync" | "fdatasync").then(|| number(0)).transpose()?;
            let file = synced.and_then(|of| self.files.get(&of)).filter(|file| !file.is_empty());
            self.happened.extend(file.cloned().map(Happened::SyncFailed));
            return Ok(());
        }
        match name {
            "openat" => {
                let path = path(argument(1)?)?;
                let Some(file) = self.name_of(&path) else { return Ok(()) };
                let (flags, is_there) = (argument(2)?, self.is_there(&file));
                if flags.contains("O_CREAT") && !is_there {
                    self.happened.push(Happened::Made(file.clone()));
                }
                if flags.contains("O_TRUNC") {
                    self.happened.push(Happened::Cut { file: file.clone(), length: 0 });
                }
                self.files.insert(result, file);
            }
            "close" => drop(self.files.remove(&number(0)?)),
            "write" if number(0)? == 1 => {
                let told = String::from_utf8_lossy(&bytes(argument(1)?)?).into_owned();
                let lines = told.lines().filter_map(|line| line.strip_prefix(TOLD));
                self.happened.extend(lines.map(|line| Happened::Told(line.to_owned())));
            }
            "unlink" | "unlinkat" => {
                let path = path(argument(usize::from(name == "unlinkat"))?)?;
                self.happened.extend(self.name_of(&path).map(Happened::Removed));
            }
            "mmap" => {
                let shared = argument(3)?.contains("MAP_SHARED") && argument(2)?.contains("PROT_WRITE");
                let of = arguments.get(4).and_then(|fd| fd.parse().ok()).and_then(|fd| self.files.get(&fd));
                if shared && of.is_some() {
                    return Err("a file is written through memory".to_owned());
                }
            }
            _ => {
                let Ok(of) = number(0) else { return Err("a call that the tracer does not know".to_owned()) };
                let Some(file) = self.files.get(&of).cloned() else { return Ok(()) };
                self.happened.push(match name {
                    "pwrite64" => {
                        let (mut bytes, at) = (bytes(argument(1)?)?, number(3)?);
                        bytes.truncate(usize::try_from(result).map_err(|_| "no length")?);
                        Happened::Written { file, at: usize::try_from(at).map_err(|_| "no place")?, bytes }
                    }
                    "ftruncate" => {
                        Happened::Cut { file, length: usize::try_from(number(1)?).map_err(|_| "no length")? }
                    }
                    "fsync" | "fdatasync" if file.is_empty() => Happened::DirectorySynced,
                    "fsync" | "fdatasync" => Happened::Synced(file),
                    _ => return Err("a call that the tracer does not know".to_owned()),
                });
            }
        }
        Ok(())
    }

    /// The name of a file that has to last; empty for the directory itself. What coordinates processes is made anew.
    fn name_of(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(self.directory).ok()?.to_str()?;
        matches!(name, "" | "log.db" | "log.db-journal" | "log.db-wal").then(|| name.to_owned())
    }

    fn is_there(&self, file: &str) -> bool {
        let last = self.happened.iter().rev().find_map(|happened| match happened {
            Happened::Made(made) if made == file => Some(true),
            Happened::Removed(removed) if removed == file => Some(false),
            _ => None,
        });
        file.is_empty() || last == Some(true)
    }
}

fn path(quoted: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(String::from_utf8_lossy(&bytes(quoted)?).into_owned()))
}

fn hex_number(text: &str) -> Result<i64, std::num::ParseIntError> {
    // Addresses, of which only that they are none of the errors matters.
    i64::from_str_radix(text.trim_start_matches("0x"), 16)
}

/// Of `"\x41\x42"`.
fn bytes(quoted: &str) -> Result<Vec<u8>, String> {
    let text =
        quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).ok_or("a text that is cut short")?;
    let digits = |pair: &str| u8::from_str_radix(pair, 16).map_err(|_| "no byte in hexadecimal".to_owned());
    text.split("\\x").skip(1).map(digits).collect()
}
