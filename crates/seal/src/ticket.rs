//! The right to read one log: the interface, which knows who may, writes a ticket; a store of logs takes nothing else.

use std::fmt;

use hmac::Mac as _;
use tidemill_model::{GroupName, Timestamp, Token, from_hex, hex};

use crate::{Sha256Mac, finished, mac};

/// What interfaces and stores of logs have in common.
#[derive(Clone)]
pub struct LogsSecret([u8; 32]);

/// A log that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The log of this attempt.
    pub token: Token,
    /// Of a worker of this group.
    pub group: GroupName,
    /// Up to then.
    pub until: Timestamp,
}

/// Why a text is no ticket for a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTicket {
    /// It is none, or somebody else has written it.
    Forged,
    /// Its time is over.
    Over,
}

impl LogsSecret {
    /// From the text of `internal.key`, which no worker has.
    #[must_use]
    pub fn of(internal_key: &str) -> Self {
        Self(finished(mac(internal_key.as_bytes(), ["tidemill-log-tickets"])))
    }

    /// The ticket as it is sent: `TOKEN.UNTIL.SEAL.GROUP`, the time in milliseconds since 1970.
    #[must_use]
    pub fn write(&self, ticket: &Ticket) -> String {
        let Ticket { token, group, until } = ticket;
        let seal = hex(&finished(self.mac(ticket)));
        format!("{token}.{}.{seal}.{group}", until.as_millisecond())
    }

    /// What a text that was sent gives a right to.
    ///
    /// # Errors
    /// It gives none.
    pub fn read(&self, text: &str, now: Timestamp) -> Result<Ticket, NoTicket> {
        let mut parts = text.splitn(4, '.');
        let mut part = || parts.next().ok_or(NoTicket::Forged);
        let (token, until, seal, group) = (part()?, part()?, part()?, part()?);
        let ticket = Ticket {
            token: token.parse().map_err(|_| NoTicket::Forged)?,
            group: group.try_into().map_err(|_| NoTicket::Forged)?,
            until: until
                .parse()
                .ok()
                .and_then(|ms| Timestamp::from_millisecond(ms).ok())
                .ok_or(NoTicket::Forged)?,
        };
        let seal = from_hex::<32>(seal).ok_or(NoTicket::Forged)?;
        self.mac(&ticket).verify_slice(&seal).map_err(|_| NoTicket::Forged)?;
        if now > ticket.until { Err(NoTicket::Over) } else { Ok(ticket) }
    }

    fn mac(&self, Ticket { token, group, until }: &Ticket) -> Sha256Mac {
        let (token, until) = (token.to_string(), until.as_millisecond().to_string());
        mac(&self.0, [token.as_str(), until.as_str(), group.as_str()])
    }
}

impl fmt::Debug for LogsSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogsSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-2: a ticket opens the log that it names, for its time; nothing of it can be changed.
    #[test]
    fn ticket_is_for_one_log_and_one_time() {
        let secret = LogsSecret::of("internal key");
        let ticket =
            Ticket { token: Token(8), group: "a.b-c".try_into().unwrap(), until: Timestamp::constant(10) };
        let text = secret.write(&ticket);
        assert_eq!(secret.read(&text, Timestamp::constant(10)), Ok(ticket.clone()));
        assert_eq!(secret.read(&text, Timestamp::constant(11)), Err(NoTicket::Over));
        let now = Timestamp::constant(1);
        assert_eq!(LogsSecret::of("another").read(&text, now), Err(NoTicket::Forged));
        for (from, to) in [("8.", "9."), ("10000", "20000"), ("a.b-c", "a.b-d"), (".", ""), ("8.", "x.")] {
            assert_eq!(secret.read(&text.replacen(from, to, 1), now), Err(NoTicket::Forged), "{to}");
        }
        for text in ["", "...", "8.1.zz.g", "8.99999999999999999999.00.g"] {
            assert_eq!(secret.read(text, now), Err(NoTicket::Forged), "{text}");
        }
        assert!(!format!("{secret:?}").contains(&hex(&secret.0)));
    }
}
