//! The bytes of a record, and what is found out about them once for all who read it in this process.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::frame::unpacked_bytes;
use crate::{Frame, FrameError, HEADER_BYTES, Hash, Header};

/// The bytes of a record. A clone shares them, and what was found out about them.
///
/// Owner, projector and streams of one process read the same journal. Where its back end gives them the same records, the
/// hash, the header and the decoded body of each are made once, by whoever asks first: they depend on nothing but the bytes.
#[derive(Clone)]
pub struct Payload(Arc<Shared>);

struct Shared {
    bytes: Vec<u8>,
    /// As a record of a journal.
    framed: OnceLock<Box<Framed>>,
    decoded: OnceLock<Arc<dyn Any + Send + Sync>>,
}

struct Framed {
    hash: Hash,
    header: Result<Header, FrameError>,
}

impl Payload {
    fn framed(&self) -> &Framed {
        self.0.framed.get_or_init(|| {
            let bytes = &self.0.bytes;
            Box::new(Framed { hash: Hash::of(bytes), header: Header::decode(bytes) })
        })
    }

    /// The hash of the bytes.
    #[must_use]
    pub fn hash(&self) -> Hash {
        self.framed().hash
    }

    /// The header of a record of a journal.
    ///
    /// # Errors
    /// The bytes are no such record, or they are damaged.
    pub fn header(&self) -> Result<&Header, &FrameError> {
        self.framed().header.as_ref()
    }

    /// What follows the header of a record of a journal, unpacked. What is not packed as its header says is given as it is:
    /// it is none of what a body means.
    #[must_use]
    pub fn body(&self) -> Cow<'_, [u8]> {
        let bytes = self.0.bytes.get(HEADER_BYTES..).unwrap_or_default();
        let unpacked = self.header().ok().and_then(|header| header.codec.unpack(bytes));
        unpacked.unwrap_or(Cow::Borrowed(bytes))
    }

    /// How many they would be with an unpacked body: what readers keep of a record grows with that.
    pub(crate) fn unpacked_bytes(&self) -> usize {
        unpacked_bytes(&self.0.bytes).unwrap_or(self.0.bytes.len())
    }

    /// The whole record of a journal, with a copy of its body.
    ///
    /// # Errors
    /// The bytes are no such record, or they are damaged.
    pub fn frame(&self) -> Result<Frame, FrameError> {
        let Header { kind, epoch, seq, prev, codec } = *self.header().map_err(Clone::clone)?;
        Ok(Frame { kind, epoch, seq, prev, codec, body: self.body().into_owned() })
    }

    /// What the body of a record of a journal means, by a decoder that all readers use: the first one runs it.
    ///
    /// # Errors
    /// Those of the decoder, which then runs again next time.
    pub fn decoded<T: Any + Send + Sync, E>(
        &self,
        decode: impl FnOnce(&[u8]) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let known = self.0.decoded.get().cloned();
        if let Some(known) = known.and_then(|known| known.downcast().ok()) {
            return Ok(known);
        }
        let decoded = Arc::new(decode(&self.body())?);
        self.know(Arc::clone(&decoded));
        Ok(decoded)
    }

    /// Notes what the body means, for whoever made the bytes from it. It has to be what the decoder would make of them.
    pub fn know<T: Any + Send + Sync>(&self, decoded: Arc<T>) {
        // What is known already is the same.
        let _ = self.0.decoded.set(decoded);
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Shared { bytes, framed: OnceLock::new(), decoded: OnceLock::new() }))
    }
}

impl From<Payload> for Vec<u8> {
    /// Copies only what others have, too.
    fn from(payload: Payload) -> Self {
        Arc::try_unwrap(payload.0).map_or_else(|shared| shared.bytes.clone(), |shared| shared.bytes)
    }
}

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.bytes == other.0.bytes
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::Kind;

    fn record(body: &[u8]) -> Vec<u8> {
        let frame = Frame {
            kind: Kind::Envelope,
            epoch: 3,
            seq: 9,
            prev: Hash::ZERO,
            codec: crate::Codec::Plain,
            body: body.to_vec(),
        };
        frame.encode().unwrap()
    }

    fn length(bytes: &[u8]) -> Result<usize, Infallible> {
        Ok(bytes.len())
    }

    #[test]
    fn what_is_found_out_is_what_the_bytes_say() {
        let bytes = record(b"body");
        let payload = Payload::from(bytes.clone());
        assert_eq!((payload.hash(), &*payload.body()), (Hash::of(&bytes), &b"body"[..]));
        assert_eq!(payload.frame(), Frame::decode(&bytes));
        let damaged = Payload::from(&bytes[1..]);
        assert_eq!(damaged.header(), Err(&FrameError::BadMagic));
        assert_eq!(Payload::from(&b"x"[..]).body(), &b""[..]);
    }

    #[test]
    fn body_is_decoded_once_for_all_that_share_it() {
        let payload = Payload::from(record(b"body"));
        let other = payload.clone();
        let first = payload.decoded(length).unwrap();
        let again = other.decoded(|_| -> Result<usize, Infallible> { panic!("it is known") }).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(*first, 4);
    }

    #[test]
    fn body_that_cannot_be_decoded_is_tried_again() {
        let payload = Payload::from(record(b"body"));
        assert_eq!(payload.decoded(|_| Err::<usize, _>("no")), Err("no"));
        assert_eq!(payload.decoded(length), Ok(Arc::new(4)));
    }

    #[test]
    fn decoder_of_another_type_gets_the_bytes() {
        let payload = Payload::from(record(b"body"));
        assert_eq!(payload.decoded(length), Ok(Arc::new(4)));
        let text = payload.decoded(|bytes| String::from_utf8(bytes.to_vec())).unwrap();
        assert_eq!(*text, "body");
    }
}
