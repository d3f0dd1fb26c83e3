//! The configuration file: what it may say, and who may have written it.
//!
//! It gives commands to run, so it is read from the user's own place only, never from the working
//! directory, and a file that others can write is refused.

use super::layers::Origin;
use super::options::{GLOBAL, Opt, RUN_GROUPS, Takes};
use super::settings::UsageError;
use crate::domain::nearest::nearest;
use crate::process::sys;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Names no file: given as `--config`, nothing is configured.
const NO_FILE: &str = "/dev/null";
/// No configuration is larger, whatever was named instead of one.
const MAX_BYTES: u64 = 1024 * 1024;
/// The questions that every call must answer; no option, so it stands in the file only.
pub const REQUIRE: &str = "require";
/// Options that belong to one call: they name its operation, or say what it is at all.
const OF_ONE_CALL: [&str; 9] = [
    "key", "key-file", "key-from", "task", "step", "call", "dry-run", "config", "profile",
];

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// Of an option without a value.
    Flag(bool),
    /// As it would be typed; a list's items have commas between them.
    Text(OsString),
}

/// One table of the file.
#[derive(Debug, PartialEq, Eq)]
struct Section {
    /// The profile's name; none for the defaults.
    profile: Option<String>,
    settings: Vec<(&'static str, Setting)>,
}

/// A configuration that can be used.
#[derive(Debug, PartialEq, Eq)]
pub struct Config {
    path: PathBuf,
    sections: Vec<Section>,
    chosen: Option<String>,
}

impl Config {
    /// Reads the file that was named, or else the user's own, which need not be there. `chosen` is the
    /// profile, which must be.
    pub fn read(
        named: Option<&OsStr>,
        chosen: Option<&OsStr>,
        env: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Config>, UsageError> {
        let path = match named {
            Some(path) if path.is_empty() => {
                return Err("--config is empty; name a file or leave it out".to_owned());
            }
            Some(path) if path == NO_FILE => None,
            Some(path) => Some(PathBuf::from(path)),
            None => own_path(env),
        };
        let found = match path {
            Some(path) => load(&path, named.is_some())?.map(|text| (path, text)),
            None => None,
        };
        let chosen = chosen.map(profile_name).transpose()?;
        match (found, chosen) {
            (Some((path, text)), chosen) => {
                Config::parse(path, &text, env("HOME").as_deref(), chosen).map(Some)
            }
            (None, Some(name)) => Err(format!(
                "--profile {name} needs a configuration file, and there is none; write one, or name it with --config"
            )),
            (None, None) => Ok(None),
        }
    }

    /// Understands the text of a file at that path; `~` stands for `home`.
    pub fn parse(
        path: PathBuf,
        text: &str,
        home: Option<&OsStr>,
        chosen: Option<String>,
    ) -> Result<Config, UsageError> {
        let document = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let why = error.message().replace('\n', ", ");
            format!("{}: {why}; correct it", place(&path, text, at))
        })?;
        let reader = Reader {
            path: &path,
            text,
            home,
        };
        let sections = reader.sections(document.get_ref())?;
        let config = Config {
            path,
            sections,
            chosen,
        };
        config.check_profile()?;
        Ok(config)
    }

    /// A configuration for tests, without a file.
    #[cfg(test)]
    pub fn of_text(path: &str, text: &str, chosen: Option<String>) -> Result<Config, UsageError> {
        Config::parse(path.into(), text, None, chosen)
    }

    fn check_profile(&self) -> Result<(), UsageError> {
        let Some(chosen) = &self.chosen else {
            return Ok(());
        };
        let known: Vec<&str> = self.profiles().collect();
        if known.contains(&chosen.as_str()) {
            return Ok(());
        }
        let hint = match nearest(chosen, &known) {
            Some(similar) => format!("did you mean '{similar}'?"),
            None if known.is_empty() => format!("write a table [profile.{chosen}]"),
            None => format!("it has {}", known.join(", ")),
        };
        Err(format!(
            "{} has no profile '{chosen}'; {hint}",
            self.path.display()
        ))
    }

    /// The names of the profiles.
    pub fn profiles(&self) -> impl Iterator<Item = &str> {
        let names = self.sections.iter();
        names.filter_map(|section| section.profile.as_deref())
    }

    /// What the chosen profile, or else the defaults, say about an option.
    pub fn get(&self, name: &str) -> Option<(&Setting, Origin<'_>)> {
        let chosen = self.chosen.as_deref();
        let of_profile = chosen.and_then(|chosen| {
            let setting = self.in_section(Some(chosen), name)?;
            Some((setting, Origin::Profile(chosen)))
        });
        of_profile.or_else(|| Some((self.in_section(None, name)?, Origin::Defaults)))
    }

    fn in_section(&self, profile: Option<&str>, name: &str) -> Option<&Setting> {
        // What stands before all tables is a section of its own beside [defaults].
        let sections = self.sections.iter();
        let of_profile = sections.filter(|section| section.profile.as_deref() == profile);
        let mut settings = of_profile.flat_map(|section| &section.settings);
        settings
            .find(|(known, _)| *known == name)
            .map(|(_, setting)| setting)
    }

    /// How a message names a setting of the file.
    pub fn label(&self, name: &str, origin: &Origin<'_>) -> String {
        format!("{}: {origin} {name}", self.path.display())
    }
}

fn profile_name(name: &OsStr) -> Result<String, UsageError> {
    match name.to_str() {
        Some("") => Err("--profile is empty; name one or leave it out".to_owned()),
        Some(name) => Ok(name.to_owned()),
        None => Err("--profile: the name is not UTF-8; write it in plain text".to_owned()),
    }
}

/// The user's own file, by the XDG base directory specification, which has relative paths ignored.
fn own_path(env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| {
        env(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("idem/config.toml"))
}

/// The file's text; nothing if it is not there and need not be.
fn load(path: &Path, needed: bool) -> Result<Option<String>, UsageError> {
    let shown = path.display();
    // Without waiting: a named pipe must not hold the call up.
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if !needed && is_absent(&error) => return Ok(None),
        Err(error) => {
            return Err(format!(
                "the configuration {shown} cannot be read: {error}; make it readable, or name another with --config"
            ));
        }
    };
    let unreadable = |error| format!("the configuration {shown} cannot be read: {error}");
    check_owner(path, &file.metadata().map_err(unreadable)?)?;
    let mut text = String::new();
    let mut limited = file.take(MAX_BYTES + 1);
    match limited.read_to_string(&mut text) {
        Ok(_) if text.len() as u64 > MAX_BYTES => Err(format!(
            "the configuration {shown} is too large; shorten it"
        )),
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(format!(
            "the configuration {shown} is not UTF-8; write it in plain text"
        )),
        Err(error) => Err(unreadable(error)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Only the user and root may say what is run.
fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), UsageError> {
    let shown = path.display();
    if !metadata.is_file() {
        return Err(format!(
            "the configuration {shown} is no regular file; name a file, or {NO_FILE} for none"
        ));
    }
    if metadata.uid() != sys::effective_user() && metadata.uid() != 0 {
        return Err(format!(
            "the configuration {shown} belongs to another user, who could have any command run; name one of your own with --config, or {NO_FILE} for none"
        ));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(format!(
            "the configuration {shown} can be written by others, who could have any command run; chmod go-w it"
        ));
    }
    Ok(())
}

/// `FILE, line N`.
fn place(path: &Path, text: &str, at: usize) -> String {
    let before = text.as_bytes().iter().take(at);
    let line = before.filter(|byte| **byte == b'\n').count() + 1;
    format!("{}, line {line}", path.display())
}

/// What a message about a value needs.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    home: Option<&'a OsStr>,
}

type Entry<'a> = (
    &'a Spanned<toml::de::DeString<'a>>,
    &'a Spanned<DeValue<'a>>,
);

impl Reader<'_> {
    fn sections(&self, document: &DeTable<'_>) -> Result<Vec<Section>, UsageError> {
        let mut sections = Vec::new();
        for (name, value) in document {
            match (name.get_ref().as_ref(), value.get_ref()) {
                // It is about every call, and may stand before all tables.
                (REQUIRE, _) => sections.push(Section {
                    profile: None,
                    settings: std::iter::once((REQUIRE, self.questions(value)?)).collect(),
                }),
                ("defaults", DeValue::Table(table)) => sections.push(self.section(None, table)?),
                ("profile", DeValue::Table(profiles)) => {
                    for profile in profiles {
                        sections.push(self.profile(profile)?);
                    }
                }
                (name, _) => {
                    let hint = match nearest(name, &["defaults", "profile"]) {
                        Some("defaults") => "did you mean [defaults]?",
                        Some(_) => "did you mean [profile.NAME]?",
                        None => "settings stand in [defaults] and [profile.NAME]",
                    };
                    return Err(self.error(
                        value,
                        &format!("'{name}' is no table of idem's"),
                        hint,
                    ));
                }
            }
        }
        Ok(sections)
    }

    fn profile(&self, (name, value): Entry<'_>) -> Result<Section, UsageError> {
        match value.get_ref() {
            DeValue::Table(table) => self.section(Some(name.get_ref().to_string()), table),
            _ => Err(self.error(
                value,
                &format!("profile.{} is no table", name.get_ref()),
                "write its settings below [profile.NAME]",
            )),
        }
    }

    fn section(&self, profile: Option<String>, table: &DeTable<'_>) -> Result<Section, UsageError> {
        let table = table.iter().map(|entry| self.setting(entry));
        let settings = table.collect::<Result<_, _>>()?;
        Ok(Section { profile, settings })
    }

    fn setting(&self, (name, value): Entry<'_>) -> Result<(&'static str, Setting), UsageError> {
        let name = name.get_ref().as_ref();
        if name == REQUIRE {
            return Ok((REQUIRE, self.questions(value)?));
        }
        if OF_ONE_CALL.contains(&name) {
            return Err(self.error(
                value,
                &format!("{name} belongs to one call and not into a file"),
                "give it on the command line",
            ));
        }
        let Some(option) = options().find(|option| option.long == name) else {
            let known: Vec<&str> = known_names().collect();
            let hint = match nearest(name, &known) {
                Some(similar) => format!("did you mean '{similar}'?"),
                None => "the names are those of `idem run --help`".to_owned(),
            };
            return Err(self.error(value, &format!("there is no option '{name}'"), &hint));
        };
        let setting = self.value(option, value)?;
        Ok((option.long, setting))
    }

    fn value(&self, option: &Opt, value: &Spanned<DeValue<'_>>) -> Result<Setting, UsageError> {
        let wrong = || {
            let is = value.get_ref().type_str();
            let what = format!("{} cannot be a value of type {is}", option.long);
            self.error(value, &what, &wanted(option))
        };
        let text = match (option.takes, value.get_ref()) {
            (Takes::Nothing, DeValue::Boolean(on)) => return Ok(Setting::Flag(*on)),
            (Takes::Nothing, _) => return Err(wrong()),
            (_, DeValue::String(text)) => text.to_string(),
            (_, DeValue::Integer(_)) if takes_integer(option) => {
                integer(value.get_ref()).ok_or_else(wrong)?
            }
            (_, DeValue::Array(items)) if takes_list(option) => {
                let items = items.iter().map(|item| match item.get_ref() {
                    DeValue::String(text) => Some(text.to_string()),
                    DeValue::Integer(_) if takes_integer(option) => integer(item.get_ref()),
                    _ => None,
                });
                items
                    .collect::<Option<Vec<_>>>()
                    .ok_or_else(wrong)?
                    .join(",")
            }
            _ => return Err(wrong()),
        };
        match option.takes {
            Takes::OneOf(words) => self.word(option, words, value, &text)?,
            Takes::File(_) => return self.file(option, value, &text).map(Setting::Text),
            _ => {}
        }
        Ok(Setting::Text(text.into()))
    }

    fn word(
        &self,
        option: &Opt,
        words: &[&str],
        value: &Spanned<DeValue<'_>>,
        text: &str,
    ) -> Result<(), UsageError> {
        if words.contains(&text) {
            return Ok(());
        }
        let hint = match nearest(text, words) {
            Some(similar) => format!("did you mean '{similar}'?"),
            None => format!("write one of {}", words.join(", ")),
        };
        Err(self.error(value, &format!("{} cannot be '{text}'", option.long), &hint))
    }

    /// A file's name must mean the same file whatever the working directory is.
    fn file(
        &self,
        option: &Opt,
        value: &Spanned<DeValue<'_>>,
        text: &str,
    ) -> Result<OsString, UsageError> {
        let home = self.home.filter(|home| home.as_bytes().starts_with(b"/"));
        match (text.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => Ok(Path::new(home).join(rest).into_os_string()),
            (None, _) if text.starts_with('/') || text.contains("://") => Ok(text.into()),
            _ => Err(self.error(
                value,
                &format!("{} is a relative path", option.long),
                "begin it with / or ~/",
            )),
        }
    }

    fn questions(&self, value: &Spanned<DeValue<'_>>) -> Result<Setting, UsageError> {
        let known = super::require::QUESTIONS;
        let hint = format!(
            "write an array of {}",
            known.map(|q| format!("\"{q}\"")).join(", ")
        );
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.error(value, "require is no array", &hint));
        };
        let mut questions = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::String(text) if known.contains(&text.as_ref()) => {
                    questions.push(text.to_string());
                }
                DeValue::String(text) => {
                    let what = format!("require cannot ask for '{text}'");
                    let similar = nearest(text, &known);
                    let similar = similar.map(|similar| format!("did you mean '{similar}'?"));
                    return Err(self.error(item, &what, &similar.unwrap_or(hint)));
                }
                _ => return Err(self.error(item, "require is no array of strings", &hint)),
            }
        }
        Ok(Setting::Text(questions.join(",").into()))
    }

    fn error(&self, value: &Spanned<DeValue<'_>>, what: &str, hint: &str) -> UsageError {
        let place = place(self.path, self.text, value.span().start);
        format!("{place}: {what}; {hint}")
    }
}

fn options() -> impl Iterator<Item = &'static Opt> {
    let groups = RUN_GROUPS.iter().flat_map(|group| group.options);
    groups.chain(GLOBAL)
}

fn known_names() -> impl Iterator<Item = &'static str> {
    let allowed = options().map(|option| option.long);
    let allowed = allowed.filter(|name| !OF_ONE_CALL.contains(name));
    allowed.chain([REQUIRE])
}

fn takes_list(option: &Opt) -> bool {
    matches!(option.takes, Takes::Value("LIST" | "PARTS"))
}

fn takes_integer(option: &Opt) -> bool {
    matches!(option.takes, Takes::Value("N" | "SIZE" | "LIST"))
}

fn wanted(option: &Opt) -> String {
    match option.takes {
        Takes::Nothing => "write true or false".to_owned(),
        Takes::Value(_) if takes_list(option) => "write a string or an array of strings".to_owned(),
        Takes::Value(_) if takes_integer(option) => "write a number or a string".to_owned(),
        Takes::OneOf(words) => format!("write one of {}", words.join(", ")),
        Takes::Value(name) | Takes::File(name) => format!("write a string ({name})"),
    }
}

/// An integer as it would be typed.
fn integer(value: &DeValue<'_>) -> Option<String> {
    let integer = value.as_integer()?;
    let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
    Some(number.to_string())
}

#[cfg(test)]
mod tests;
