//! Calls that interfaces refused, for the audit list. They are facts about others' requests: the catalogue records them and
//! keeps nothing of them.

use tidemill_model::{AccessCommand, AccessEvent, Answer, Event, FieldError, Refusal, Rejection, bounds};

use super::{check_bytes, check_count};
use crate::decision::{Decision, Ruled};

/// Bytes of the texts of a refusal: their characters, at four bytes each, as interfaces cut them.
const APP_BYTES: usize = 4 * 64;
const PERSON_BYTES: usize = 4 * bounds::USER_CHARS;
const CALL_BYTES: usize = 4 * 200;
const ADDRESS_BYTES: usize = 64;

pub(super) fn decide_access(command: &AccessCommand) -> Decision {
    match command {
        AccessCommand::ReportRefusals { refusals } => report_refusals(refusals).into(),
    }
}

fn report_refusals(refusals: &[Refusal]) -> Ruled {
    if refusals.is_empty() {
        return Err(Rejection::field("refusals", 0, format!("must be 1 to {}", bounds::REFUSALS)));
    }
    check_count("refusals", refusals.len(), bounds::REFUSALS, " refusals")?;
    for (index, refusal) in refusals.iter().enumerate() {
        check(refusal).map_err(|error| error.within(&format!("refusals[{index}]")))?;
    }
    let event = |refusal: &Refusal| Event::from(AccessEvent::Refused { refusal: refusal.clone() });
    Ok(Decision::answered(refusals.iter().map(event).collect(), Answer::Done))
}

fn check(refusal: &Refusal) -> Result<(), FieldError> {
    check_bytes("app", &refusal.app, APP_BYTES)?;
    check_bytes("person", refusal.person.as_deref().unwrap_or_default(), PERSON_BYTES)?;
    check_bytes("call", &refusal.call, CALL_BYTES)?;
    check_bytes("address", &refusal.address, ADDRESS_BYTES)?;
    if refusal.count == 0 {
        return Err(FieldError::new("count", 0, "must be at least 1"));
    }
    if refusal.first_at > refusal.last_at {
        return Err(FieldError::new("last_at", refusal.last_at, "must not be before `first_at`"));
    }
    Ok(())
}
