//! What a definition runs: its size, and the templates in it with the values of parents that these name (BYD-20).

use super::fields::check_parameters;
use super::runs_nothing;
use crate::schedule::utc;
use crate::weight::{of_definition, of_spec};
use tidemill_calendar::Template;
use tidemill_model::{FieldError, JobDefinition, bounds, parameter_variable};

/// Of a definition, its parents among it: less than one decision may take.
const MAX_DEFINITION_BYTES: usize = 164 * 1024;

/// The program and parameters of a definition: bounds and templates.
pub(crate) fn check_program(definition: &JobDefinition) -> Result<(), FieldError> {
    let spec = &definition.spec;
    let runs_nothing = runs_nothing(spec);
    if runs_nothing != (spec.command.is_none() && spec.program.is_none()) {
        let field = if runs_nothing { "command" } else { "type" };
        let rule = "types noop and anchor run nothing, and every other type needs a command or a program";
        return Err(FieldError::new(field, &spec.job_type, rule));
    }
    check_parameters(&spec.parameters)?;
    let texts = of_spec(spec);
    if texts > bounds::COMMAND_BYTES {
        let rule =
            format!("all texts of a job together, as JSON, must be at most {} bytes", bounds::COMMAND_BYTES);
        return Err(FieldError::new("command", texts, rule));
    }
    let encoded = of_definition(definition);
    if encoded > MAX_DEFINITION_BYTES {
        let rule = format!(
            "the job takes {encoded} bytes with them, and at most {MAX_DEFINITION_BYTES} fit into a record; name them in \
             the order in which they are defined, which takes fewest, shorten its texts, or put jobs between them"
        );
        return Err(FieldError::new("parents", format!("{} parents", definition.parents.len()), rule));
    }
    for (field, text) in spec.templates() {
        check_template(field, text, definition)?;
        if matches!(field, "command" | "final_command") {
            no_value_in_code(field, text)?;
        }
    }
    for (field, text) in spec.paths() {
        check_template(&field, text, definition)?;
    }
    for (name, text) in &spec.parameters {
        check_template(&format!("parameters.{name}"), text, definition)?;
    }
    Ok(())
}

fn check_template(field: &str, text: &str, definition: &JobDefinition) -> Result<(), FieldError> {
    if !text.contains("${") {
        return Ok(());
    }
    let template =
        Template::parse(text).map_err(|error| FieldError::new(field, &error.text, error.to_string()))?;
    let unset = template.job_fields().find(|field| field.of(definition, &utc()).is_none());
    if let Some(unset) = unset {
        let rule = "names a field that the job does not set; set it, or leave the placeholder out";
        return Err(FieldError::new(field, unset.name(), rule));
    }
    let unknown = template.param_names().find(|name| !definition.spec.parameters.contains_key(*name));
    match unknown {
        Some(name) if field.starts_with("parameters") => {
            Err(FieldError::new(field, name, "a parameter cannot refer to other parameters"))
        }
        Some(name) => {
            let rule = "names a parameter that the job does not have; add it to parameters";
            Err(FieldError::new(field, name, rule))
        }
        None => Ok(()),
    }
}

/// JOB-7: no value becomes code. Parameters and what parents pass on are written by others than the job's author, and no quoting
/// holds in every interpreter and between all quotes: a script reads them from its environment or its arguments.
fn no_value_in_code(field: &str, text: &str) -> Result<(), FieldError> {
    let Some(template) = text.contains("${").then(|| Template::parse(text).ok()).flatten() else {
        return Ok(());
    };
    if let Some(name) = template.param_names().next() {
        let variable = parameter_variable(name);
        let rule = format!(
            "would become a part of the script, which runs it; read the environment variable {variable} there (in a shell: \
             \"${variable}\"), or pass it in arguments"
        );
        return Err(FieldError::new(field, format!("${{param.{name}}}"), rule));
    }
    if let Some((parent, key)) = template.value_names().next() {
        let value = format!("${{values.{parent}.{key}}}");
        let variable = parameter_variable(key);
        let rule = format!(
            "would become a part of the script, which runs it; make it a parameter, as `parameters: {{{key}: '{value}'}}`, and \
             read the environment variable {variable} there (in a shell: \"${variable}\"), or pass it in arguments"
        );
        return Err(FieldError::new(field, value, rule));
    }
    Ok(())
}

/// Where a definition reads a value of a parent that is written so: the field, and `values.PARENT.KEY`.
pub(in crate::catalogue) fn value_read(
    definition: &JobDefinition,
    is_so: impl Fn(&str) -> bool,
) -> Option<(String, String)> {
    texts(definition).filter(|(_, text)| text.contains("${values.")).find_map(|(field, text)| {
        let template = Template::parse(text).ok()?;
        let (name, key) = template.value_names().find(|(name, _)| is_so(name))?;
        Some((field, format!("values.{name}.{key}")))
    })
}

/// A parent as written, as `group/name`.
pub(in crate::catalogue) fn full_parent_name(definition: &JobDefinition, name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("{}/{name}", definition.spec.group) }
}

/// Every template that is resolved when a batch starts, with its field.
pub(super) fn texts(definition: &JobDefinition) -> impl Iterator<Item = (String, &str)> {
    let written = definition.spec.templates().map(|(field, text)| (field.to_owned(), text));
    let parameters = definition.spec.parameters.iter();
    written.chain(parameters.map(|(name, text)| (format!("parameters.{name}"), text.as_str())))
}

/// Only parents pass values on, and a path is resolved before they do.
pub(crate) fn check_values(definition: &JobDefinition, parents: &[&str]) -> Result<(), FieldError> {
    let full = |name: &str| full_parent_name(definition, name);
    let known: Vec<String> = parents.iter().map(|parent| full(parent)).collect();
    if let Some((field, value)) = value_read(definition, |parent| !known.contains(&full(parent))) {
        return Err(FieldError::new(field, value, "names no parent of the job; add it to parents"));
    }
    match definition.spec.paths().find(|(_, text)| text.contains("${values.")) {
        Some((field, text)) => {
            let rule = "cannot hold values of parents: paths are resolved when the batch is generated";
            Err(FieldError::new(field, text, rule))
        }
        None => Ok(()),
    }
}
