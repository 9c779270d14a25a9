//! The state as bytes: what a snapshot holds.
//!
//! Equal states give equal bytes, whoever folded them: maps without an order are written in that of their keys, and what
//! is shared in memory (definitions, texts) is found by its content, written where it first occurs and named by its number
//! after that. A form has no field names, so it is read only by a program whose types have the same [`form`].

mod json;
mod plain;
mod shape;

use std::any::{Any, TypeId};
use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub(crate) use self::shape::Shape;
pub use self::shape::form;

/// What of the state stands in a snapshot.
pub(crate) trait Stored: Sized + 'static {
    fn write(&self, to: &mut Writer);
    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed>;
    /// What its bytes consist of, as far as types tell.
    fn shape(of: &mut Shape);
}

/// These bytes are not of this form, though their digest was right or nobody looked: what was to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no {0}")]
pub struct Malformed(pub(crate) &'static str);

/// Takes the state's bytes.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    /// What is shared in memory, by its address: looked up before it is written again.
    addresses: FxHashMap<(TypeId, usize), u64>,
    contents: FxHashMap<TypeId, FxHashMap<Box<[u8]>, u64>>,
    count: u64,
    /// Within something shared nothing is: else the bytes of equal things would depend on what was written before.
    is_flat: bool,
}

impl Writer {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Seven bits to a byte, the lowest first.
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Small ones take few bytes, whatever their sign.
    pub(crate) fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)) as u64);
    }

    pub(crate) fn text(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Something whose content is known as bytes.
    pub(crate) fn content<T: 'static>(&mut self, content: &[u8]) {
        if self.is_flat {
            return self.text(content);
        }
        let known = self.contents.entry(TypeId::of::<T>()).or_default();
        if let Some(number) = known.get(content) {
            let number = *number;
            return self.number(number);
        }
        self.count += 1;
        known.insert(content.into(), self.count);
        self.number(0);
        self.text(content);
    }

    /// Something shared, which is looked at only where its address is not known.
    pub(crate) fn shared<T: Stored>(&mut self, shared: &Arc<T>) {
        if self.is_flat {
            return shared.as_ref().write(self);
        }
        let address = (TypeId::of::<T>(), Arc::as_ptr(shared).addr());
        if let Some(number) = self.addresses.get(&address) {
            let number = *number;
            return self.number(number);
        }
        let mut inside = Writer { is_flat: true, ..Writer::default() };
        shared.as_ref().write(&mut inside);
        self.content::<T>(&inside.bytes);
        let number = self.contents[&TypeId::of::<T>()][inside.bytes.as_slice()];
        self.addresses.insert(address, number);
    }

    /// Entries of something without an order, in that of their keys.
    pub(crate) fn sorted<'a, K: Stored + Ord, V: Stored>(
        &mut self,
        entries: impl ExactSizeIterator<Item = (&'a K, &'a V)>,
    ) {
        let mut entries: Vec<_> = entries.collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        self.number(entries.len() as u64);
        for (key, value) in entries {
            key.write(self);
            value.write(self);
        }
    }
}

/// Gives the state's bytes.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    shared: Vec<Box<dyn Any>>,
    is_flat: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, shared: Vec::new(), is_flat: false }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.bytes.split_first().ok_or(Malformed("byte"))?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed("number"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(crate) fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed("length"))?;
        let (text, rest) = self.bytes.split_at_checked(length).ok_or(Malformed("text"))?;
        self.bytes = rest;
        Ok(text)
    }

    /// How many follow, and how many of them are worth room before they are there.
    pub(crate) fn count(&mut self) -> Result<(u64, usize), Malformed> {
        let count = self.number()?;
        let least = usize::try_from(count).unwrap_or(usize::MAX).min(self.bytes.len());
        Ok((count, least))
    }

    /// What [`Writer::content`] wrote.
    pub(crate) fn content<T: Clone + 'static>(
        &mut self,
        of: impl FnOnce(&'a [u8]) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        if self.is_flat {
            return of(self.text()?);
        }
        match self.number()? {
            0 => {
                let value = of(self.text()?)?;
                self.shared.push(Box::new(value.clone()));
                Ok(value)
            }
            number => {
                let at = usize::try_from(number - 1).map_err(|_| Malformed("reference"))?;
                let known = self.shared.get(at).and_then(|known| known.downcast_ref::<T>());
                known.cloned().ok_or(Malformed("reference"))
            }
        }
    }

    /// What [`Writer::shared`] wrote.
    pub(crate) fn shared<T: Stored>(&mut self) -> Result<Arc<T>, Malformed> {
        if self.is_flat {
            return T::read(self).map(Arc::new);
        }
        self.content(|bytes| {
            let mut inside = Reader { bytes, shared: Vec::new(), is_flat: true };
            let value = T::read(&mut inside)?;
            if inside.is_at_end() { Ok(Arc::new(value)) } else { Err(Malformed("shared value")) }
        })
    }

    /// What [`Writer::sorted`] wrote.
    pub(crate) fn entries<K: Stored + Eq + Hash, V: Stored>(&mut self) -> Result<FxHashMap<K, V>, Malformed> {
        let (count, least) = self.count()?;
        let mut map = FxHashMap::with_capacity_and_hasher(least, Default::default());
        for _ in 0..count {
            map.insert(K::read(self)?, V::read(self)?);
        }
        Ok(map)
    }
}
