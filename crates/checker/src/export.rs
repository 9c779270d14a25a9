//! Journals in one file, with the commands they decide.
//!
//! ```text
//! "TDMLJRN1"                                            all numbers big-endian
//! 'C' | 'J'   partition u32   offset u64   time i64 (ms)   length u32   bytes     as often as needed
//! 'E'         entries u64                                                         once, at the end
//! ```
//! Commands of a partition stand before the journal records that were appended after them. The file is a
//! copy, record for record: a check of it finds what a check of the log finds.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use tidemill_log::{Log, Record, Topic};

use crate::Error;
use crate::source::{Ends, Entry, each_entry};

const MAGIC: &[u8; 8] = b"TDMLJRN1";
const COMMAND: u8 = b'C';
const JOURNAL: u8 = b'J';
const END: u8 = b'E';
/// No topic takes more.
const MAX_BYTES: u32 = 8 * 1024 * 1024;

/// Writes the journals of a log, and their commands, to an exported file. Gives the number of records.
///
/// # Errors
/// The log cannot be read, or the file not written.
pub fn export_journal(log: &dyn Log, writer: impl Write) -> Result<u64, Error> {
    export_journal_upto(log, None, writer)
}

/// The same, up to these ends alone: what a log had at one moment, while it goes on.
///
/// # Errors
/// As [`export_journal`].
pub fn export_journal_upto(log: &dyn Log, ends: Option<&Ends>, writer: impl Write) -> Result<u64, Error> {
    let mut writer = BufWriter::new(writer);
    let mut entries = 0;
    let failed = |entries, source| Error::WriteExport { entries, source };
    writer.write_all(MAGIC).map_err(|source| failed(0, source))?;
    each_entry(log, true, ends, &mut |entry| {
        write_entry(&mut writer, &entry).map_err(|source| failed(entries, source))?;
        entries += 1;
        Ok(())
    })?;
    let mut end = || {
        writer.write_all(&[END])?;
        writer.write_all(&u64::to_be_bytes(entries))?;
        writer.flush()
    };
    end().map_err(|source| failed(entries, source))?;
    Ok(entries)
}

/// Writes journals that are in memory, by partition, to an exported file.
///
/// # Errors
/// The file cannot be written.
pub fn export_records(journals: &[Vec<Record>], writer: impl Write) -> Result<u64, Error> {
    let mut writer = BufWriter::new(writer);
    let mut entries = 0;
    let mut write = || {
        writer.write_all(MAGIC)?;
        for (partition, record) in (0..).zip(journals).flat_map(|(at, of)| of.iter().map(move |it| (at, it)))
        {
            let Record { offset, timestamp_ms: taken_ms, .. } = *record;
            let topic = Topic::Journal;
            write_entry(&mut writer, &Entry { topic, partition, offset, taken_ms, bytes: &record.value })?;
            entries += 1;
        }
        writer.write_all(&[END])?;
        writer.write_all(&u64::to_be_bytes(entries))?;
        writer.flush()
    };
    let written = write();
    written.map(|()| entries).map_err(|source| Error::WriteExport { entries, source })
}

/// Gives every record of an exported file, those of each topic and partition in their order. Keys are not among what is exported.
///
/// # Errors
/// The file cannot be read, or is not a whole export; then what was given is no history.
pub fn each_exported(path: &Path, to: &mut dyn FnMut(Topic, u32, Record)) -> Result<(), Error> {
    read_export(path, &mut |Entry { topic, partition, offset, taken_ms, bytes }| {
        to(topic, partition, Record { offset, timestamp_ms: taken_ms, key: Vec::new(), value: bytes.into() });
    })
}

/// The journals of an exported file, by partition.
///
/// # Errors
/// The file cannot be read, or is not a whole export.
pub fn exported_journals(path: &Path) -> Result<Vec<Vec<Record>>, Error> {
    let mut journals = Vec::new();
    each_exported(path, &mut |topic, partition, record| {
        if topic == Topic::Journal {
            let partition = usize::try_from(partition).unwrap_or(usize::MAX);
            if journals.len() <= partition {
                journals.resize(partition + 1, Vec::new());
            }
            journals[partition].push(record);
        }
    })?;
    Ok(journals)
}

fn write_entry(writer: &mut impl Write, entry: &Entry<'_>) -> io::Result<()> {
    let kind = if entry.topic == Topic::Commands { COMMAND } else { JOURNAL };
    let length = u32::try_from(entry.bytes.len()).map_err(io::Error::other)?;
    writer.write_all(&[kind])?;
    writer.write_all(&entry.partition.to_be_bytes())?;
    writer.write_all(&entry.offset.to_be_bytes())?;
    writer.write_all(&entry.taken_ms.to_be_bytes())?;
    writer.write_all(&length.to_be_bytes())?;
    writer.write_all(entry.bytes)
}

/// Gives every record of an exported file.
pub(crate) fn read_export(path: &Path, to: &mut dyn FnMut(Entry<'_>)) -> Result<(), Error> {
    let opened = std::fs::File::open(path);
    let file = opened.map_err(|source| Error::OpenFile { path: path.to_owned(), source })?;
    let mut reader = BufReader::new(file);
    let mut entries = 0;
    let not = |rule| Error::NotAnExport { path: path.to_owned(), rule };
    let failed = |entries, source: io::Error| match source.kind() {
        io::ErrorKind::UnexpectedEof => not("it is cut off before its end mark"),
        _ => Error::ReadFile { path: path.to_owned(), entries, source },
    };
    let magic: [u8; 8] = array(&mut reader).map_err(|source| failed(0, source))?;
    if &magic != MAGIC {
        return Err(not("it does not begin with TDMLJRN1"));
    }
    let mut bytes = Vec::new();
    loop {
        let [kind] = array(&mut reader).map_err(|source| failed(entries, source))?;
        let topic = match kind {
            COMMAND => Topic::Commands,
            JOURNAL => Topic::Journal,
            END => {
                let count = array(&mut reader).map_err(|source| failed(entries, source))?;
                let whole = u64::from_be_bytes(count) == entries;
                return if whole { Ok(()) } else { Err(not("its end mark counts other records")) };
            }
            _ => return Err(not("it has an entry that is neither command, journal record nor end")),
        };
        let mut next = || -> io::Result<(u32, u64, i64, u32)> {
            Ok((
                u32::from_be_bytes(array(&mut reader)?),
                u64::from_be_bytes(array(&mut reader)?),
                i64::from_be_bytes(array(&mut reader)?),
                u32::from_be_bytes(array(&mut reader)?),
            ))
        };
        let (partition, offset, taken_ms, length) = next().map_err(|source| failed(entries, source))?;
        if length > MAX_BYTES {
            return Err(not("it has an entry larger than any record"));
        }
        bytes.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
        reader.read_exact(&mut bytes).map_err(|source| failed(entries, source))?;
        to(Entry { topic, partition, offset, taken_ms, bytes: &bytes });
        entries += 1;
    }
}

fn array<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}
