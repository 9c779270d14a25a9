//! A piece of the log of an attempt, as an object: some bytes of each of its streams, which follow each other.

mod build;
mod errors;
mod name;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use tidemill_model::LogStream;
use tokio::sync::OnceCell;

pub(crate) use build::{BLOCK, Footer, Part, build, count_lines};
pub(crate) use errors::first as first_error;
pub(crate) use name::{Close, Name};

use self::build::{FooterError, TRAILER_BYTES, read_footer};
use crate::Error;
use crate::place::{Object, Place};

/// So much of the end of a segment is read at first; most footers are shorter.
const END_BYTES: usize = 16 << 10;

/// A segment that is there.
pub(crate) struct Segment {
    pub(crate) name: Name,
    pub(crate) path: Path,
    place: Arc<Place>,
    object_bytes: u64,
    footer: OnceCell<Arc<Footer>>,
}

impl Segment {
    /// One of a listing; nothing, where it is no segment.
    pub(crate) fn of_object(place: &Arc<Place>, object: &Object) -> Option<Self> {
        Some(Self {
            name: Name::parse(object.path.filename()?)?,
            path: object.path.clone(),
            place: Arc::clone(place),
            object_bytes: object.bytes,
            footer: OnceCell::new(),
        })
    }

    /// One that was just written.
    pub(crate) fn written(
        place: &Arc<Place>,
        (name, path): (Name, Path),
        object_bytes: usize,
        footer: Footer,
    ) -> Self {
        Self {
            name,
            path,
            place: Arc::clone(place),
            object_bytes: object_bytes as u64,
            footer: OnceCell::new_with(Some(Arc::new(footer))),
        }
    }

    pub(crate) fn range(&self, stream: LogStream) -> &Range<u64> {
        &self.name.ranges[stream.index()]
    }

    /// What is known of it; read once.
    pub(crate) async fn footer(&self) -> Result<&Footer, Error> {
        self.footer.get_or_try_init(|| self.read_footer()).await.map(|footer| &**footer)
    }

    async fn read_footer(&self) -> Result<Arc<Footer>, Error> {
        let mut wanted = END_BYTES;
        loop {
            let begin = self.object_bytes.saturating_sub(wanted as u64);
            let end = self.object(begin..self.object_bytes).await?;
            match read_footer(&end) {
                Ok(footer) => {
                    let said = footer.streams.each_ref().map(|part| part.begin..part.begin + part.bytes);
                    if said != self.name.ranges || self.object_bytes <= self.name.data_bytes() {
                        return Err(self.damaged("its footer and its name differ"));
                    }
                    return Ok(Arc::new(footer));
                }
                Err(FooterError::Longer(bytes)) if bytes > wanted && bytes as u64 <= self.object_bytes => {
                    wanted = bytes;
                }
                Err(FooterError::Longer(_)) => return Err(self.damaged("its footer is longer than it is")),
                Err(FooterError::Wrong(what)) => return Err(self.damaged(&what)),
            }
        }
    }

    /// Bytes of a stream, which it has to hold, by their offsets in the stream.
    pub(crate) async fn read(&self, stream: LogStream, wanted: Range<u64>) -> Result<Bytes, Error> {
        let own = self.range(stream);
        assert!(own.start <= wanted.start && wanted.end <= own.end, "{} has no {wanted:?}", self.path);
        if wanted.is_empty() {
            return Ok(Bytes::new());
        }
        let blocks = &self.footer().await?.of(stream).blocks;
        // Whole blocks, since a sum is of one.
        let first = (wanted.start - own.start) / BLOCK;
        let last = (wanted.end - own.start).div_ceil(BLOCK);
        let read = first * BLOCK..(last * BLOCK).min(own.end - own.start);
        let before: u64 =
            self.name.ranges[..stream.index()].iter().map(|range| range.end - range.start).sum();
        let bytes = self.object(before + read.start..before + read.end).await?;
        if bytes.len() as u64 != read.end - read.start {
            return Err(self.damaged("it is shorter than its name says"));
        }
        let block = usize::try_from(BLOCK).expect("blocks are short");
        let index = |of: u64| usize::try_from(of).unwrap_or(usize::MAX);
        for (number, bytes) in (index(first)..).zip(bytes.chunks(block)) {
            if blocks.get(number).is_none_or(|(_, sum)| *sum != crc32fast::hash(bytes)) {
                return Err(self.damaged(&format!("the sum of block {number} of {} is wrong", stream.name())));
            }
        }
        let skip = wanted.start - own.start - read.start;
        Ok(bytes.slice(index(skip)..index(skip + (wanted.end - wanted.start))))
    }

    /// All of it, as it was put in.
    pub(crate) async fn parts(&self) -> Result<[Part; 3], Error> {
        let footer = self.footer().await?;
        let mut parts: [Part; 3] = Default::default();
        for stream in LogStream::ALL {
            let of = footer.of(stream);
            parts[stream.index()] = Part {
                begin: of.begin,
                bytes: self.read(stream, self.range(stream).clone()).await?,
                lines_before: of.lines_before,
                times: of.times.clone(),
            };
        }
        Ok(parts)
    }

    async fn object(&self, range: Range<u64>) -> Result<Bytes, Error> {
        let bytes = self.place.read(&self.path, range).await?;
        bytes.ok_or_else(|| Error::Gone { object: self.path.to_string() })
    }

    fn damaged(&self, what: &str) -> Error {
        Error::Damaged { object: self.path.to_string(), what: what.to_owned() }
    }

    pub(crate) async fn remove(&self) -> Result<(), Error> {
        self.place.remove(&self.path).await
    }
}

/// A footer and what stands behind it are at least so long.
const _: () = assert!(END_BYTES > TRAILER_BYTES);
