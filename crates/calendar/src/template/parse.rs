//! From a template's text to its pieces.

use super::pattern::{Shift, TimePattern};
use super::{JobField, Kind, Piece, Template, TemplateError, TimeForm};

const FIELDS: &str = "logical_time, epoch, epoch_ms, batch_id, run, attempt, param.NAME, values.PARENT.KEY";

impl Template {
    /// Parses a text; every placeholder in it must be known.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        // Counted on from placeholder to placeholder: a text may have very many.
        let (mut position, mut counted) = (1, 0);
        while let Some(dollar) = rest.find('$') {
            literal.push_str(&rest[..dollar]);
            rest = &rest[dollar..];
            if let Some(after) = rest.strip_prefix("$${") {
                literal.push_str("${");
                rest = after;
            } else if let Some(after) = rest.strip_prefix("${") {
                let begin = text.len() - rest.len();
                position += text[counted..begin].chars().count();
                counted = begin;
                let refuse =
                    |text: &str, rule: String| TemplateError { position, text: text.to_owned(), rule };
                let Some(length) = after.find('}') else {
                    return Err(refuse(
                        rest,
                        "'${' is not closed; add '}', or write '$${' for a plain '${'".into(),
                    ));
                };
                let whole = &rest[..length + 3];
                let kind = Kind::parse(&after[..length]).map_err(|rule| refuse(whole, rule))?;
                if !literal.is_empty() {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(Piece::Placeholder { position, text: whole.to_owned(), kind });
                rest = &after[length + 1..];
            } else {
                literal.push('$');
                rest = &rest[1..];
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Template { text: text.to_owned(), pieces })
    }
}

impl Kind {
    /// Parses what stands between the braces; the error is the rule that it breaks.
    fn parse(content: &str) -> Result<Kind, String> {
        if let Some(name) = content.strip_prefix("param.") {
            return match is_param_name(name) {
                true => Ok(Kind::Param(name.to_owned())),
                false => Err("a parameter's name has letters, digits, '_', '-' and '.'".into()),
            };
        }
        if let Some(name) = content.strip_prefix("values.") {
            return match name.rsplit_once('.') {
                Some((parent, key)) if !parent.is_empty() && is_key(key) => {
                    Ok(Kind::Value(parent.to_owned(), key.to_owned()))
                }
                Some(_) | None => {
                    Err("a parent's value is values.PARENT.KEY, where KEY has letters, digits, '_' and '-'"
                        .into())
                }
            };
        }
        match content {
            "batch_id" => return Ok(Kind::BatchId),
            "run" => return Ok(Kind::Run),
            "attempt" => return Ok(Kind::Attempt),
            "" => return Err("nothing between the braces; name a field or a time pattern".into()),
            _ => {}
        }
        if let Some(field) = JobField::named(content) {
            return Ok(Kind::Field(field));
        }
        let (form, shift) = Shift::split(content)?;
        let is_no_time = matches!(form, "batch_id" | "run" | "attempt") || JobField::named(form).is_some();
        if shift.is_some() && is_no_time {
            return Err(format!("'{form}' is no time and takes no shift"));
        }
        let form = match form {
            "logical_time" => TimeForm::Rfc3339,
            "epoch" => TimeForm::EpochSeconds,
            "epoch_ms" => TimeForm::EpochMillis,
            _ => TimeForm::Pattern(TimePattern::parse(form).map_err(|rule| match is_identifier(form) {
                true => format!(
                    "unknown name; write '$${{{content}}}' for a shell variable; known are {FIELDS}, the job's \
                     {} and time patterns such as yyyyMMdd-1d",
                    JobField::names()
                ),
                false => format!("{rule}; write '$${{{content}}}' to leave it to the shell"),
            })?),
        };
        Ok(Kind::Time(form, shift))
    }
}

fn is_param_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
