//! Why a person does something, for the record.

use tidemill_model::{Rejection, bounds};

/// The reason as it is recorded: without blanks around it, 1 to [`bounds::REASON_CHARS`] characters. `advice` says what is
/// wanted of whoever gave another one.
pub(in crate::group) fn checked(reason: &str, advice: &str) -> Result<String, Rejection> {
    let reason = reason.trim();
    if reason.is_empty() || reason.chars().count() > bounds::REASON_CHARS {
        let rule = format!("must be 1 to {} characters: {advice}", bounds::REASON_CHARS);
        return Err(Rejection::field("reason", reason, rule));
    }
    Ok(reason.to_owned())
}
