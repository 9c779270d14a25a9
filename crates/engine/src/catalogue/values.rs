//! BYD-20: which values of parents a job's templates may name.

use tidemill_calendar::Template;
use tidemill_model::{FieldError, JobDefinition};

/// Where a definition reads a value of the job of that full name: the field, and `values.PARENT.KEY`.
pub(super) fn value_named(definition: &JobDefinition, parent: &str) -> Option<(String, String)> {
    let texts = texts(definition);
    texts.filter(|(_, text)| text.contains("${values.")).find_map(|(field, text)| {
        let template = Template::parse(text).ok()?;
        let (name, key) = template.value_names().find(|(name, _)| full(definition, name) == parent)?;
        Some((field, format!("values.{name}.{key}")))
    })
}

/// Where a definition reads a value of a job by a name without its group: the field, and `values.PARENT.KEY`.
pub(super) fn value_by_short_name(definition: &JobDefinition) -> Option<(String, String)> {
    let texts = texts(definition);
    texts.filter(|(_, text)| text.contains("${values.")).find_map(|(field, text)| {
        let template = Template::parse(text).ok()?;
        let (name, key) = template.value_names().find(|(name, _)| !name.contains('/'))?;
        Some((field, format!("values.{name}.{key}")))
    })
}

/// A parent as written, as `group/name`.
fn full(definition: &JobDefinition, name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("{}/{name}", definition.spec.group) }
}

/// Every template that is resolved when a batch starts, with its field.
fn texts(definition: &JobDefinition) -> impl Iterator<Item = (String, &str)> {
    let written = definition.spec.templates().map(|(field, text)| (field.to_owned(), text));
    let parameters = definition.spec.parameters.iter();
    let parameters = parameters.map(|(name, text)| (format!("parameters.{name}"), text.as_str()));
    written.chain(parameters)
}

/// Only parents pass values on, and a path is resolved before they do.
pub(crate) fn check_values(definition: &JobDefinition, parents: &[&str]) -> Result<(), FieldError> {
    let full = |name: &str| full(definition, name);
    let known: Vec<String> = parents.iter().map(|parent| full(parent)).collect();
    for (field, text) in texts(definition).filter(|(_, text)| text.contains("${values.")) {
        let Ok(template) = Template::parse(text) else { continue };
        if let Some((parent, key)) = template.value_names().find(|(parent, _)| !known.contains(&full(parent)))
        {
            let rule = "names no parent of the job; add it to parents";
            return Err(FieldError::new(field, format!("values.{parent}.{key}"), rule));
        }
    }
    match definition.spec.paths().find(|(_, text)| text.contains("${values.")) {
        Some((field, text)) => {
            let rule = "cannot hold values of parents: paths are resolved when the batch is generated";
            Err(FieldError::new(field, text, rule))
        }
        None => Ok(()),
    }
}
