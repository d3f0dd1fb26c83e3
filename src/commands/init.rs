//! `idem init`.

use super::context::{Context, text};
use crate::cli::stdout::print;
use crate::cli::words::{Words, flag};
use crate::store::location::Location;
use anyhow::{Result, anyhow};

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    let role = text(words, "role")?;
    let print_sql = flag(words, "print-sql");
    if role.is_some() && !print_sql {
        return Err(anyhow!(
            "--role goes with --print-sql: whoever owns the tables executes what that prints"
        ));
    }
    match (print_sql, context.location.init_script(role)) {
        (true, Some(script)) => print(script)?,
        (false, Some(_)) => print(told(&context.location)?)?,
        (_, None) => print(format!(
            "{} is made by the first call that writes it; nothing to do\n",
            context.location
        ))?,
    }
    Ok(0)
}

fn told(location: &Location) -> Result<String> {
    let known = Location::newest_schema();
    Ok(match location.init()? {
        None => format!("made the tables of {location} (schema {known})\n"),
        Some(before) if before < known => {
            format!("brought {location} from schema {before} to {known}\n")
        }
        Some(_) => format!("the tables of {location} are there (schema {known})\n"),
    })
}
