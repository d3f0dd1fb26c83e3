//! What a call was given, in layers: option before environment before profile before defaults.

use super::config::{Config, Setting};
use super::options::{GLOBAL, Opt, Takes};
use super::parse::run_options;
use super::settings::UsageError;
use super::words::{Words, flag, value};
use crate::domain::secret;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;

/// The options that a variable of the environment can give.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("key", "IDEM_KEY"),
    ("scope", "IDEM_SCOPE"),
    ("task", "IDEM_TASK"),
    ("store", "IDEM_STORE"),
];

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// The command line.
    Option,
    /// This variable of the environment.
    Environment(&'static str),
    /// This profile of the configuration.
    Profile(&'a str),
    /// The configuration's defaults.
    Defaults,
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Option => f.write_str("option"),
            Origin::Environment(variable) => f.write_str(variable),
            Origin::Profile(name) => write!(f, "[profile.{name}]"),
            Origin::Defaults => f.write_str("[defaults]"),
        }
    }
}

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given<'a> {
    /// As typed, or as it would be.
    pub value: Cow<'a, OsStr>,
    /// Its layer.
    pub origin: Origin<'a>,
}

/// One value for a person to read; see [`Layers::origins`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The option's long name.
    pub option: &'static str,
    /// Its value; `true` or `false` for an option without one. Bytes that are no UTF-8 are replaced, and
    /// a server's password is hidden.
    pub value: String,
    /// Where it comes from.
    pub origin: String,
}

/// All layers of one call.
pub struct Layers<'a> {
    words: &'a Words,
    env: &'a dyn Fn(&str) -> Option<OsString>,
    config: Option<Config>,
}

impl<'a> Layers<'a> {
    /// Reads the configuration, if there is one.
    pub fn read(
        words: &'a Words,
        env: &'a dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Layers<'a>, UsageError> {
        let named = |name: &str| value(words, name).map(OsString::as_os_str);
        let config = Config::read(named("config"), named("profile"), env)?;
        Ok(Layers { words, env, config })
    }

    /// What was typed.
    pub fn words(&self) -> &'a Words {
        self.words
    }

    /// A variable of the environment.
    pub fn variable(&self, name: &str) -> Option<OsString> {
        (self.env)(name)
    }

    /// An option's value, from the first layer that has one.
    pub fn get(&self, name: &str) -> Option<Given<'_>> {
        if let Some(value) = value(self.words, name) {
            return Some(Given {
                value: value.into(),
                origin: Origin::Option,
            });
        }
        let variable = ENVIRONMENT.iter().find(|(option, _)| *option == name);
        if let Some((_, variable)) = variable
            && let Some(value) = (self.env)(variable)
        {
            return Some(Given {
                value: value.into(),
                origin: Origin::Environment(variable),
            });
        }
        match self.config.as_ref()?.get(name)? {
            (Setting::Text(text), origin) => Some(Given {
                value: text.as_os_str().into(),
                origin,
            }),
            (Setting::Flag(_), _) => None,
        }
    }

    /// Where an option without a value was switched on.
    pub fn switched_on(&self, name: &str) -> Option<Origin<'_>> {
        match self.switch(name)? {
            (true, origin) => Some(origin),
            (false, _) => None,
        }
    }

    fn switch(&self, name: &str) -> Option<(bool, Origin<'_>)> {
        if flag(self.words, name) {
            return Some((true, Origin::Option));
        }
        match self.config.as_ref()?.get(name)? {
            (Setting::Flag(on), origin) => Some((*on, origin)),
            (Setting::Text(_), _) => None,
        }
    }

    /// Whether an option without a value is on.
    pub fn flag(&self, name: &str) -> bool {
        self.switched_on(name).is_some()
    }

    /// The word of an option that takes one of several.
    pub fn word(&self, name: &str) -> Option<String> {
        let given = self.get(name)?;
        given.value.to_str().map(str::to_owned)
    }

    /// Whether an option that takes one of several words has this one.
    pub fn is(&self, name: &str, word: &str) -> bool {
        self.get(name).is_some_and(|given| *given.value == *word)
    }

    /// Whether any layer gives the option a value.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// How a message names an option that was given there: `--ttl`, `IDEM_KEY`, or the file's place.
    pub fn label(&self, name: &str, origin: &Origin<'_>) -> String {
        match (origin, &self.config) {
            (Origin::Environment(variable), _) => (*variable).to_owned(),
            (Origin::Profile(_) | Origin::Defaults, Some(config)) => config.label(name, origin),
            _ => format!("--{name}"),
        }
    }

    /// Every option of `idem run` that some layer gives, with its value and its layer.
    pub fn origins(&self) -> Vec<Effective> {
        let options = run_options().chain(GLOBAL);
        options
            .filter_map(|option| self.effective(option))
            .collect()
    }

    fn effective(&self, option: &'static Opt) -> Option<Effective> {
        let (value, origin) = if option.takes == Takes::Nothing {
            let (on, origin) = self.switch(option.long)?;
            (on.to_string(), origin)
        } else {
            let given = self.get(option.long)?;
            (secret::hidden(&given.value.to_string_lossy()), given.origin)
        };
        Some(Effective {
            option: option.long,
            value,
            origin: match origin {
                Origin::Profile(_) | Origin::Defaults => self.label("", &origin).trim_end().into(),
                origin => origin.to_string(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse::{Typed, parse};

    const TEXT: &str = "[defaults]\nttl = '1h'\nscope = 'd'\nquiet = true\nretries = 1\n\
                        [profile.p]\nscope = 'p'\nquiet = false\nstore = '/p.db'\n";

    fn with_layers<T>(line: &str, env: &[(&str, &str)], look: impl FnOnce(&Layers<'_>) -> T) -> T {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let Ok(Typed::Verb { words, .. }) = parse(&arguments) else {
            panic!("{line}");
        };
        let env = |name: &str| {
            let found = env.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let profile = value(&words, "profile");
        let profile = profile.map(|name| name.to_str().expect("text").to_owned());
        let config = Config::of_text("/c.toml", TEXT, profile).expect("a configuration");
        look(&Layers {
            words: &words,
            env: &env,
            config: Some(config),
        })
    }

    fn given(line: &str, env: &[(&str, &str)], name: &str) -> Option<(String, String)> {
        with_layers(line, env, |layers| {
            let given = layers.get(name)?;
            let value = given.value.to_str().expect("text").to_owned();
            Some((value, layers.label(name, &given.origin)))
        })
    }

    #[test]
    fn option_before_environment_before_profile_before_defaults() {
        let env = [("IDEM_SCOPE", "e")];
        let of = |line, env| given(line, env, "scope").expect("a scope");
        let is = |value: &str, label: &str| (value.to_owned(), label.to_owned());
        assert_eq!(
            of("run --profile p --scope o -- x", &env),
            is("o", "--scope")
        );
        assert_eq!(of("run --profile p -- x", &env), is("e", "IDEM_SCOPE"));
        assert_eq!(
            of("run --profile p -- x", &[]),
            is("p", "/c.toml: [profile.p] scope")
        );
        assert_eq!(of("run -- x", &[]), is("d", "/c.toml: [defaults] scope"));
        assert_eq!(given("run -- x", &[], "probe"), None);
    }

    #[test]
    fn variables_stand_for_their_own_options_only() {
        let env = [("IDEM_KEY", "k"), ("IDEM_TTL", "9h"), ("IDEM_STORE", "/e")];
        let value = |name| given("run --profile p -- x", &env, name).map(|(value, _)| value);
        assert_eq!(value("key").as_deref(), Some("k"));
        assert_eq!(value("store").as_deref(), Some("/e"));
        assert_eq!(value("ttl").as_deref(), Some("1h"));
    }

    #[test]
    fn switches_are_layered_too() {
        let on = |line: &str, name: &str| {
            with_layers(line, &[], |layers| {
                layers.switched_on(name).map(|origin| origin.to_string())
            })
        };
        assert_eq!(on("run -- x", "quiet").as_deref(), Some("[defaults]"));
        assert_eq!(on("run --profile p -- x", "quiet"), None);
        assert_eq!(
            on("run --profile p -q -- x", "quiet").as_deref(),
            Some("option")
        );
        assert_eq!(on("run -- x", "json"), None);
    }

    #[test]
    fn a_verb_without_an_option_may_be_asked_for_it() {
        let value = given("batch b", &[], "ttl").map(|(value, _)| value);
        assert_eq!(value.as_deref(), Some("1h"));
        assert!(with_layers("batch b", &[], |layers| layers.flag("quiet")));
        assert_eq!(given("batch b", &[], "probe"), None);
    }

    #[test]
    fn everything_that_is_given_is_listed_with_its_origin() {
        let env = [("IDEM_KEY", "k")];
        let listed = with_layers("run --ttl 2h --json --profile p -- x", &env, |layers| {
            let all = layers.origins().into_iter();
            all.map(|one| format!("{}={} {}", one.option, one.value, one.origin))
                .collect::<Vec<_>>()
        });
        assert_eq!(
            listed,
            [
                "key=k IDEM_KEY",
                "scope=p /c.toml: [profile.p]",
                "ttl=2h option",
                "retries=1 /c.toml: [defaults]",
                "json=true option",
                "quiet=false /c.toml: [profile.p]",
                "store=/p.db /c.toml: [profile.p]",
                "profile=p option",
            ]
        );
    }
}
