//! Numbers, texts, collections, and what of the vocabulary is one of these.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::num::NonZeroI32;
use std::sync::Arc;

use jiff::SignedDuration;
use rustc_hash::FxBuildHasher;
use tidemill_model::{
    BatchId, BulkId, Dependency, ExternalDependencyId, Fire, GrantId, Incarnation, InstanceId, JobId,
    Mapping, Nonce, RequestId, RerunId, ShardId, TaskId, Timestamp, Token, WorkerId,
};

use super::{Malformed, Reader, Shape, Stored, Writer};

macro_rules! numbers {
    ($($of:ty, $wide:ty, $put:ident;)+) => { $(
        impl Stored for $of {
            fn write(&self, to: &mut Writer) {
                to.$put(*self as $wide);
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                Self::try_from(from.$put()?).map_err(|_| Malformed(stringify!($of)))
            }

            fn shape(of: &mut Shape) {
                of.word(stringify!($of));
            }
        }
    )+ };
}

numbers! {
    u8, u64, number;
    u16, u64, number;
    u32, u64, number;
    u64, u64, number;
    usize, u64, number;
    i32, i64, signed;
    i64, i64, signed;
}

/// What is made of something stored, and gives it again.
macro_rules! made_of {
    ($($of:ty: $inner:ty, $give:expr, $make:expr;)+) => { $(
        impl Stored for $of {
            fn write(&self, to: &mut Writer) {
                let give: fn(&$of) -> $inner = $give;
                give(self).write(to);
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                let make: fn($inner) -> Option<$of> = $make;
                make(<$inner>::read(from)?).ok_or(Malformed(stringify!($of)))
            }

            fn shape(of: &mut Shape) {
                of.word(stringify!($of));
            }
        }
    )+ };
}

made_of! {
    bool: u8, |of| u8::from(*of), |of| (of < 2).then_some(of == 1);
    NonZeroI32: i32, |of| of.get(), NonZeroI32::new;
    Timestamp: i64, |of| of.as_millisecond(), |of| Timestamp::from_millisecond(of).ok();
    SignedDuration: (i64, i32), |of| (of.as_secs(), of.subsec_nanos()), |of| {
        (of.1.unsigned_abs() < 1_000_000_000).then(|| SignedDuration::new(of.0, of.1))
    };
    BatchId: i64, |of| of.0, |of| Some(BatchId(of));
    BulkId: i64, |of| of.0, |of| Some(BulkId(of));
    ExternalDependencyId: i64, |of| of.0, |of| Some(ExternalDependencyId(of));
    GrantId: i64, |of| of.0, |of| Some(GrantId(of));
    JobId: i64, |of| of.0, |of| Some(JobId(of));
    RerunId: i64, |of| of.0, |of| Some(RerunId(of));
    TaskId: i64, |of| of.0, |of| Some(TaskId(of));
    Token: i64, |of| of.0, |of| Some(Token(of));
    ShardId: u16, |of| of.0, |of| Some(ShardId(of));
    Fire: (Timestamp, Timestamp), |of| (of.at, of.logical_time), |of| {
        Some(Fire { at: of.0, logical_time: of.1 })
    };
    WorkerId: Arc<str>, |of| Arc::clone(&of.0), |of| Some(WorkerId(of));
    Incarnation: Arc<str>, |of| Arc::clone(&of.0), |of| Some(Incarnation(of));
    Nonce: Arc<str>, |of| Arc::clone(&of.0), |of| Some(Nonce(of));
    RequestId: Arc<str>, |of| Arc::clone(&of.0), |of| Some(RequestId(of));
    InstanceId: Arc<str>, |of| Arc::clone(&of.0), |of| Some(InstanceId(of));
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("text"))
}

macro_rules! texts {
    ($($of:ty),+) => { $(
        impl Stored for $of {
            fn write(&self, to: &mut Writer) {
                to.text(self.as_bytes());
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                text(from.text()?).map(Into::into)
            }

            fn shape(of: &mut Shape) {
                of.word("text");
            }
        }
    )+ };
}

texts!(String, Box<str>);

impl Stored for Arc<str> {
    fn write(&self, to: &mut Writer) {
        to.content::<Self>(self.as_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.content(|bytes| text(bytes).map(Into::into))
    }

    fn shape(of: &mut Shape) {
        of.word("shared text");
    }
}

impl<T: Stored> Stored for Arc<T> {
    fn write(&self, to: &mut Writer) {
        to.shared(self);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.shared()
    }

    fn shape(of: &mut Shape) {
        of.field::<T>("shared");
    }
}

impl<T: Stored> Stored for Box<T> {
    fn write(&self, to: &mut Writer) {
        self.as_ref().write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        T::read(from).map(Box::new)
    }

    fn shape(of: &mut Shape) {
        T::shape(of);
    }
}

impl<T: Stored> Stored for Option<T> {
    fn write(&self, to: &mut Writer) {
        to.byte(u8::from(self.is_some()));
        if let Some(value) = self {
            value.write(to);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(None),
            1 => T::read(from).map(Some),
            _ => Err(Malformed("option")),
        }
    }

    fn shape(of: &mut Shape) {
        of.field::<T>("option");
    }
}

fn write_all<'a, T: Stored>(of: impl ExactSizeIterator<Item = &'a T>, to: &mut Writer) {
    to.number(of.len() as u64);
    of.for_each(|value| value.write(to));
}

fn read_all<T: Stored>(from: &mut Reader<'_>) -> Result<Vec<T>, Malformed> {
    let (count, least) = from.count()?;
    let mut all = Vec::with_capacity(least.min(65_536));
    for _ in 0..count {
        all.push(T::read(from)?);
    }
    Ok(all)
}

macro_rules! lists {
    ($($of:ty $(, $more:ident)?;)+) => { $(
        impl<T: Stored $(+ $more)?> Stored for $of {
            fn write(&self, to: &mut Writer) {
                write_all(self.iter(), to);
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                // An ordered one is built at once from what is in order.
                read_all(from).map(|all| all.into_iter().collect())
            }

            fn shape(of: &mut Shape) {
                of.field::<T>("list");
            }
        }
    )+ };
}

lists! {
    Vec<T>;
    VecDeque<T>;
    Box<[T]>;
    BTreeSet<T>, Ord;
}

impl<T: Stored> Stored for Arc<[T]> {
    fn write(&self, to: &mut Writer) {
        let mut inside = Writer { is_flat: true, ..Writer::default() };
        write_all(self.iter(), &mut inside);
        to.content::<Self>(&inside.bytes);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.content(|bytes| {
            let mut inside = Reader { bytes, shared: Vec::new(), is_flat: true };
            read_all(&mut inside).map(Into::into)
        })
    }

    fn shape(of: &mut Shape) {
        of.field::<T>("shared list");
    }
}

impl<T: Stored, const N: usize> Stored for [T; N] {
    fn write(&self, to: &mut Writer) {
        self.iter().for_each(|value| value.write(to));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let all: Result<Vec<T>, Malformed> = (0..N).map(|_| T::read(from)).collect();
        all?.try_into().map_err(|_| Malformed("array"))
    }

    fn shape(of: &mut Shape) {
        of.word(&N.to_string());
        of.field::<T>("times");
    }
}

impl<K: Stored + Ord, V: Stored> Stored for BTreeMap<K, V> {
    fn write(&self, to: &mut Writer) {
        to.number(self.len() as u64);
        for (key, value) in self {
            key.write(to);
            value.write(to);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        read_all::<(K, V)>(from).map(|all| all.into_iter().collect())
    }

    fn shape(of: &mut Shape) {
        of.field::<K>("map");
        of.field::<V>("to");
    }
}

impl<K: Stored + Ord + Hash, V: Stored> Stored for HashMap<K, V, FxBuildHasher> {
    fn write(&self, to: &mut Writer) {
        to.sorted(self.iter());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.entries()
    }

    fn shape(of: &mut Shape) {
        of.field::<K>("map");
        of.field::<V>("to");
    }
}

macro_rules! tuples {
    ($($($name:ident $at:tt),+;)+) => { $(
        impl<$($name: Stored),+> Stored for ($($name,)+) {
            fn write(&self, to: &mut Writer) {
                $(self.$at.write(to);)+
            }

            fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(($($name::read(from)?,)+))
            }

            fn shape(of: &mut Shape) {
                $(of.field::<$name>(stringify!($at));)+
            }
        }
    )+ };
}

tuples! {
    A 0, B 1;
    A 0, B 1, C 2;
}

impl Stored for () {
    fn write(&self, _: &mut Writer) {}

    fn read(_: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(())
    }

    fn shape(of: &mut Shape) {
        of.word("nothing");
    }
}

impl Stored for Dependency {
    fn write(&self, to: &mut Writer) {
        let Self { parent, mapping, times, met } = self;
        parent.write(to);
        mapping.write(to);
        times.write(to);
        met.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (parent, mapping, times) = Stored::read(from)?;
        Ok(Self { parent, mapping, times, met: Stored::read(from)? })
    }

    fn shape(of: &mut Shape) {
        if of.enter::<Self>("Dependency") {
            of.field::<Mapping>("parent mapping times met");
            of.leave();
        }
    }
}
