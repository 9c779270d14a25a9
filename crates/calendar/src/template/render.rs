//! From a template and a batch to text.

use std::fmt::Write;

use super::pattern::Shift;
use super::{Kind, Piece, Template, TemplateContext, TemplateError, TimeForm};

impl Template {
    /// The text for one attempt. Fails on a parameter that is not there, on a time out of range, and on a text that gets
    /// too long: a short template may name a long value often.
    pub fn render(&self, context: &TemplateContext<'_>) -> Result<String, TemplateError> {
        let most = context.most_bytes;
        let mut out = String::with_capacity(most.min(self.text.len() + 16));
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.push_str(text),
                Piece::Placeholder { position, text, kind } => {
                    let written = kind.write(context, &mut out);
                    let fits = || match out.len() <= most {
                        true => Ok(()),
                        false => Err(format!("makes the text longer than {most} bytes; make it shorter")),
                    };
                    written.and_then(|()| fits()).map_err(|rule| TemplateError {
                        position: *position,
                        text: text.clone(),
                        rule,
                    })?;
                }
            }
        }
        Ok(out)
    }
}

impl Kind {
    /// Appends the value; the error is the rule that is broken.
    fn write(&self, context: &TemplateContext<'_>, out: &mut String) -> Result<(), String> {
        let written = match self {
            Kind::Time(form, shift) => return write_time(form, shift.as_ref(), context, out),
            Kind::BatchId => write!(out, "{}", context.batch_id),
            Kind::Run => write!(out, "{}", context.run),
            Kind::Attempt => write!(out, "{}", context.attempt),
            Kind::Field(field) => match field.of(context.definition, context.zone) {
                Some(text) => out.write_str(&text),
                None => return Err(format!("the job sets no {}; set it", field.name())),
            },
            Kind::Param(name) => match context.params.get(name) {
                Some(value) => out.write_str(value),
                None => return Err(format!("no parameter '{name}'; add it to the job's parameters")),
            },
            Kind::Value(parent, key) => match context.values {
                None => write!(out, "${{values.{parent}.{key}}}"),
                Some(values) => match values.get(&format!("{parent}.{key}")) {
                    Some(value) => out.write_str(value),
                    None => return Err(format!("{parent} passed no value '{key}' on")),
                },
            },
        };
        written.expect("writing to a String cannot fail");
        Ok(())
    }
}

fn write_time(
    form: &TimeForm,
    shift: Option<&Shift>,
    context: &TemplateContext<'_>,
    out: &mut String,
) -> Result<(), String> {
    let logical = context.logical_time.to_zoned(context.zone.time_zone().clone());
    let time = match shift {
        None => logical,
        Some(shift) => shift.apply(&logical).ok_or_else(|| {
            "the shifted time is outside the years -9999 to 9999; shift it by less".to_owned()
        })?,
    };
    let written = match form {
        TimeForm::Rfc3339 if context.time_format.is_some() => {
            context.time_format.map_or(Ok(()), |format| out.write_str(&format.write(&time)))
        }
        TimeForm::Pattern(pattern) => {
            pattern.write(&time, out);
            Ok(())
        }
        TimeForm::Rfc3339 => write!(out, "{}", time.timestamp().display_with_offset(time.offset())),
        TimeForm::EpochSeconds => write!(out, "{}", time.timestamp().as_second()),
        TimeForm::EpochMillis => write!(out, "{}", time.timestamp().as_millisecond()),
    };
    written.expect("writing to a String cannot fail");
    Ok(())
}
