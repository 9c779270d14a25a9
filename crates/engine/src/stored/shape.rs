//! What the bytes of a state consist of, as far as its types say: names of fields and variants, and the schemas of what
//! stands there as JSON. Another program reads a snapshot only if this is the same.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

use super::Stored;
use crate::Partition;

/// Raise it when the same fields come to mean something else; the test `form_is_that_of_the_golden_states` tells.
const MEANING: u32 = 1;

/// The text that stands for the types.
#[derive(Default)]
pub(crate) struct Shape {
    text: String,
    known: BTreeSet<TypeId>,
}

impl Shape {
    /// Whether the type is to be described: it is the first time that it occurs.
    pub(crate) fn enter<T: 'static>(&mut self, name: &str) -> bool {
        self.text.push_str(name);
        let is_new = self.known.insert(TypeId::of::<T>());
        if is_new {
            self.text.push('{');
        }
        is_new
    }

    pub(crate) fn leave(&mut self) {
        self.text.push('}');
    }

    pub(crate) fn field<T: Stored>(&mut self, name: &str) {
        self.word(name);
        T::shape(self);
    }

    pub(crate) fn variant(&mut self, name: &str) {
        self.text.push('|');
        self.text.push_str(name);
    }

    pub(crate) fn word(&mut self, word: &str) {
        self.text.push(' ');
        self.text.push_str(word);
        self.text.push(':');
    }
}

/// Names the form of this program's snapshots, in 16 hexadecimal digits.
pub fn form() -> &'static str {
    static FORM: LazyLock<String> = LazyLock::new(|| {
        let mut shape = Shape::default();
        Partition::shape(&mut shape);
        let digest = Sha256::digest(format!("{MEANING} {}", shape.text));
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    });
    &FORM
}
