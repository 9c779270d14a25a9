//! Seals of reports: who wrote a record of the commands topic, at the cost of a hash.
//!
//! ```text
//!  owners: internal.key ──► X25519 pair ─┐                      ┌─► a key for each life of each worker ──► HMAC of each record
//!                                        ├─► one secret a group ┤
//!  worker: group-NAME.key (Ed25519) ─────┘                      └─► the same, made by the worker itself
//! ```
//! An owner tells a worker its public half; the group's public half is in the owner's state. Neither sends a secret. What a
//! program reports of itself comes through the interface, and what is found of paths from probers, which share `internal.key`
//! with owners. The right to read a log is a [`Ticket`].
//!
//! Pure: no clock, no I/O, no randomness. Start reading at [`OwnersSecret`], then [`SealKey`].

mod ticket;

use std::fmt;

use curve25519_dalek::MontgomeryPoint;
use ed25519_dalek::{SigningKey, VerifyingKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;
use tidemill_model::{
    Command, CommandRecord, GroupName, Incarnation, ObservationCommand, RequestId, SEAL_BYTES, ShardId,
    WorkerCommand, WorkerId, from_hex, hex, sealed_value,
};

pub use ticket::{LogsSecret, NoTicket, Ticket};

type Sha256Mac = Hmac<Sha256>;

/// What owners have in common with interfaces and probers: all that follows from `internal.key`.
#[derive(Clone)]
pub struct OwnersSecret {
    private: [u8; 32],
    public: OwnersKey,
    commands: [u8; 32],
}

impl OwnersSecret {
    /// From the text of `internal.key`.
    #[must_use]
    pub fn of(internal_key: &str) -> Self {
        let derived = |label: &str| finished(mac(internal_key.as_bytes(), [label]));
        let private = derived("tidemill-reports");
        let public = OwnersKey(MontgomeryPoint::mul_base_clamped(private).to_bytes());
        Self { private, public, commands: derived("tidemill-commands") }
    }

    /// What workers are told.
    #[must_use]
    pub fn public(&self) -> OwnersKey {
        self.public
    }

    /// With the group whose public key this is, 64 hexadecimal digits; nothing where it is no key.
    #[must_use]
    pub fn with_group(&self, worker_key: &str) -> Option<GroupSecret> {
        let key = VerifyingKey::from_bytes(&from_hex(worker_key)?).ok()?;
        GroupSecret::of(self.private, key.to_montgomery())
    }

    /// The command with the seal of a process that knows the secret, where its kind has one. Shard and request are sealed with
    /// it.
    #[must_use]
    pub fn sealed(&self, command: Command, shard: ShardId, request: Option<&RequestId>) -> Command {
        let mut command = command;
        let seal = self.command_mac(&command, shard, request).map(|mac| hex(&finished(mac)));
        if let (Some(field), Some(seal)) = (command.seal_mut(), seal) {
            *field = seal;
        }
        command
    }

    /// Whether a process of this cluster has sealed that command; nothing where its kind has no such seal.
    #[must_use]
    pub fn has_sealed(&self, record: &CommandRecord) -> Option<bool> {
        let seal = from_hex::<SEAL_BYTES>(record.command.seal()?);
        let mac = self.command_mac(&record.command, record.shard, record.request.as_ref())?;
        Some(seal.is_some_and(|seal| mac.verify_slice(&seal).is_ok()))
    }

    fn command_mac(
        &self,
        command: &Command,
        shard: ShardId,
        request: Option<&RequestId>,
    ) -> Option<Sha256Mac> {
        let (kind, said) = match command {
            Command::Worker(WorkerCommand::ReportUserCode { token, code, .. }) => {
                ("tidemill-code", vec![token.to_string(), code.to_string()])
            }
            Command::Observation(ObservationCommand::ReportPaths { answers, .. }) => {
                ("tidemill-paths", answers.iter().map(json).collect())
            }
            Command::Observation(ObservationCommand::ReportOutputs { answers, .. }) => {
                ("tidemill-outputs", answers.iter().map(json).collect())
            }
            _ => return None,
        };
        let (shard, request) = (shard.to_string(), request.map_or("", RequestId::as_str));
        let parts = [kind, &shard, request].into_iter().chain(said.iter().map(String::as_str));
        Some(mac(&self.commands, parts))
    }
}

/// As it is written: an owner that reads it writes the same. So a field of an answer is added behind a level alone, and is left out
/// where it says nothing.
fn json(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("plain data")
}

impl fmt::Debug for OwnersSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnersSecret").field("public", &self.public).finish_non_exhaustive()
    }
}

/// One public half belongs to one secret.
impl PartialEq for OwnersSecret {
    fn eq(&self, other: &Self) -> bool {
        self.public == other.public
    }
}

impl Eq for OwnersSecret {}

/// The public half of owners.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OwnersKey([u8; 32]);

impl OwnersKey {
    /// From 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }

    /// As 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        hex(&self.0)
    }
}

impl fmt::Debug for OwnersKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

/// What owners and the workers of one group know, and nobody else.
#[derive(Clone)]
pub struct GroupSecret([u8; 32]);

impl GroupSecret {
    /// As a worker makes it. Nothing where the owner's half is one that gives the same with every group.
    #[must_use]
    pub fn of_worker(group: &SigningKey, owners: &OwnersKey) -> Option<Self> {
        Self::of(group.to_scalar_bytes(), MontgomeryPoint(owners.0))
    }

    fn of(private: [u8; 32], public: MontgomeryPoint) -> Option<Self> {
        let shared = public.mul_clamped(private).to_bytes();
        (shared != [0; 32]).then_some(Self(shared))
    }

    /// The key of one life of one worker.
    #[must_use]
    pub fn life(&self, group: &GroupName, worker: &WorkerId, incarnation: &Incarnation) -> SealKey {
        let parts = ["tidemill-reports", group.as_str(), worker.as_str(), incarnation.as_str()];
        SealKey(mac(&finished(mac(&self.0, parts)), []))
    }
}

impl fmt::Debug for GroupSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupSecret(…)")
    }
}

/// The key that one life of one worker seals with.
#[derive(Clone)]
pub struct SealKey(Sha256Mac);

impl SealKey {
    /// The record with its seal.
    #[must_use]
    pub fn seal(&self, body: Vec<u8>) -> Vec<u8> {
        let seal = finished(self.0.clone().chain_update(&body));
        sealed_value(body, &seal)
    }

    /// Whether this is the seal of that body, compared in the same time whatever it is.
    #[must_use]
    pub fn has_sealed(&self, body: &[u8], seal: &[u8; SEAL_BYTES]) -> bool {
        self.0.clone().chain_update(body).verify_slice(seal).is_ok()
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(…)")
    }
}

/// Keys that seal alike are one.
impl PartialEq for SealKey {
    fn eq(&self, other: &Self) -> bool {
        let seal = finished(self.0.clone());
        other.has_sealed(b"", &seal)
    }
}

/// Over all parts, each with its length before it, so that no two lists give the same.
fn mac<'a>(key: &[u8], parts: impl IntoIterator<Item = &'a str>) -> Sha256Mac {
    let start = Sha256Mac::new_from_slice(key).expect("a key of HMAC may have any length");
    parts.into_iter().fold(start, |mac, part| {
        mac.chain_update((part.len() as u64).to_be_bytes()).chain_update(part.as_bytes())
    })
}

fn finished(mac: Sha256Mac) -> [u8; 32] {
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidemill_model::{
        Actor, BatchId, ExternalDependencyId, OutputAnswer, OutputFound, PathAnswer, Timestamp, Token,
        seal_parts,
    };

    fn group_key(of: u8) -> SigningKey {
        SigningKey::from_bytes(&[of; 32])
    }

    fn worker_key(of: u8) -> String {
        hex(group_key(of).verifying_key().as_bytes())
    }

    fn by_owner(internal: &str, group: u8, name: &str, worker: &str, life: &str) -> SealKey {
        let secret = OwnersSecret::of(internal).with_group(&worker_key(group)).unwrap();
        secret.life(&name.try_into().unwrap(), &WorkerId::new(worker), &Incarnation::new(life))
    }

    fn by_worker(owners: &str, group: u8, name: &str, worker: &str, life: &str) -> SealKey {
        let secret = GroupSecret::of_worker(&group_key(group), &OwnersSecret::of(owners).public()).unwrap();
        secret.life(&name.try_into().unwrap(), &WorkerId::new(worker), &Incarnation::new(life))
    }

    /// EXE-11: both sides make one key without sending it; any other owner, group, worker or life has another.
    #[test]
    fn both_sides_make_the_same_key_for_one_life_and_no_other() {
        let key = by_owner("internal", 7, "g", "w", "i-1");
        assert_eq!(key, by_worker("internal", 7, "g", "w", "i-1"));
        for other in [
            by_worker("another", 7, "g", "w", "i-1"),
            by_worker("internal", 8, "g", "w", "i-1"),
            by_worker("internal", 7, "h", "w", "i-1"),
            by_worker("internal", 7, "g", "v", "i-1"),
            by_worker("internal", 7, "g", "w", "i-2"),
            // The parts do not run into each other.
            by_worker("internal", 7, "g", "w\ni-1", ""),
            by_worker("internal", 7, "g", "wi-1", ""),
        ] {
            assert_ne!(key, other);
        }
    }

    #[test]
    fn points_that_give_the_same_with_everybody_are_refused() {
        for low in [[0; 32], {
            let mut one = [0; 32];
            one[0] = 1;
            one
        }] {
            assert!(GroupSecret::of_worker(&group_key(7), &OwnersKey(low)).is_none());
        }
        for no_key in ["", "zz", &"00".repeat(31), &"zz".repeat(32)] {
            assert!(OwnersSecret::of("internal").with_group(no_key).is_none(), "{no_key}");
        }
        // The neutral element of the curve of Ed25519.
        let neutral = format!("01{}", "00".repeat(31));
        assert!(OwnersSecret::of("internal").with_group(&neutral).is_none());
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = OwnersSecret::of("internal");
        let group = secret.with_group(&worker_key(7)).unwrap();
        let key = by_owner("internal", 7, "g", "w", "i-1");
        let shown = format!("{secret:?} {group:?} {key:?}");
        for hidden in [secret.private, secret.commands, group.0] {
            assert!(!shown.contains(&hex(&hidden)) && !shown.contains(&format!("{hidden:?}")), "{shown}");
        }
    }

    fn commands() -> Vec<Command> {
        let (shard, seal) = (ShardId(3), String::new());
        let path = |exists| PathAnswer {
            external_dependency: ExternalDependencyId::mint(7, shard),
            generation: 2,
            exists,
        };
        let output = |found| OutputAnswer { batch: BatchId::mint(5, shard), token: Token(8), found };
        let changed = |second| OutputFound::Changed { at: Timestamp::constant(second) };
        let code = |token, code| WorkerCommand::ReportUserCode { token, code, seal: seal.clone() }.into();
        let paths = |answers| ObservationCommand::ReportPaths { answers, seal: seal.clone() }.into();
        let outputs = |answers| ObservationCommand::ReportOutputs { answers, seal: seal.clone() }.into();
        vec![
            code(Token(8), 0),
            code(Token(8), 1),
            code(Token(9), 0),
            paths(vec![]),
            paths(vec![path(true)]),
            paths(vec![path(false)]),
            paths(vec![path(true), path(true)]),
            outputs(vec![]),
            outputs(vec![output(changed(1))]),
            outputs(vec![output(changed(2))]),
            outputs(vec![output(OutputFound::Absent)]),
        ]
    }

    /// EXE-4, EXE-11: a code and an answer are sealed with all that they say, their shard and their request; a seal is good for
    /// nothing else.
    #[test]
    fn command_is_sealed_with_all_it_says() {
        let (secret, shard, request) = (OwnersSecret::of("internal"), ShardId(3), RequestId::new("r"));
        let record = |shard, request: Option<&str>, command| CommandRecord {
            shard,
            request: request.map(RequestId::new),
            reply_to: None,
            actor: Actor::default(),
            command,
        };
        for command in commands() {
            let sealed = secret.sealed(command.clone(), shard, Some(&request));
            let seal = sealed.seal().unwrap().to_owned();
            assert_eq!(secret.has_sealed(&record(shard, Some("r"), sealed.clone())), Some(true));
            assert_eq!(
                OwnersSecret::of("other").has_sealed(&record(shard, Some("r"), sealed.clone())),
                Some(false)
            );
            for (shard, request) in [(ShardId(4), Some("r")), (shard, Some("s")), (shard, None)] {
                assert_eq!(secret.has_sealed(&record(shard, request, sealed.clone())), Some(false));
            }
            for mut other in commands().into_iter().filter(|other| *other != command) {
                other.seal_mut().unwrap().clone_from(&seal);
                assert_eq!(secret.has_sealed(&record(shard, Some("r"), other)), Some(false));
            }
            assert_eq!(secret.has_sealed(&record(shard, Some("r"), command)), Some(false), "without a seal");
        }
        let other: Command = ObservationCommand::ProbeNow { batch: None }.into();
        assert_eq!(secret.sealed(other.clone(), shard, None), other);
        assert_eq!(secret.has_sealed(&record(shard, None, other)), None);
    }

    proptest! {
        /// What was sealed comes apart again, and one changed bit, wherever, makes the seal another's.
        #[test]
        fn sealed_record_comes_apart_and_any_change_breaks_it(
            words in proptest::collection::vec("[a-z \"{}é]{0,12}", 0..20), at in any::<prop::sample::Index>(), bit in 0_u8..8,
        ) {
            let key = by_owner("internal", 7, "g", "w", "i-1");
            let body = serde_json::to_vec(&words).unwrap();
            let mut value = key.seal(body.clone());
            let (found, seal) = seal_parts(&value);
            prop_assert_eq!(found, &body[..]);
            prop_assert!(key.has_sealed(found, seal.unwrap()));
            let at = at.index(value.len());
            value[at] ^= 1 << bit;
            let (found, seal) = seal_parts(&value);
            prop_assert!(!seal.is_some_and(|seal| key.has_sealed(found, seal)));
        }

        /// Whatever stands in the topic: it comes apart or is one part, and nothing that no key has made is taken for sealed.
        #[test]
        fn arbitrary_bytes_are_no_sealed_record(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let key = by_owner("internal", 7, "g", "w", "i-1");
            let (body, seal) = seal_parts(&bytes);
            prop_assert_eq!(body.len() + seal.map_or(0, |_| 1 + SEAL_BYTES), bytes.len());
            prop_assert!(!seal.is_some_and(|seal| key.has_sealed(body, seal)));
        }
    }
}
