use super::*;

const HOME: &str = "/home/alice";

fn parsed(text: &str, chosen: Option<&str>) -> Result<Config, UsageError> {
    let home = Some(OsStr::new(HOME));
    Config::parse("/c.toml".into(), text, home, chosen.map(str::to_owned))
}

fn refused(text: &str) -> String {
    parsed(text, None).expect_err(text)
}

fn text_of(config: &Config, name: &str) -> Option<String> {
    match config.get(name)?.0 {
        Setting::Text(text) => text.to_str().map(str::to_owned),
        Setting::Flag(on) => Some(on.to_string()),
    }
}

#[test]
fn a_profile_comes_before_the_defaults() {
    let text = "[defaults]\ntimeout = '1m'\nttl = '2h'\nquiet = true\n\
                [profile.deploy]\ntimeout = '10m'\nquiet = false\n\
                [profile.other]\nttl = '9h'\n";
    let config = parsed(text, Some("deploy")).unwrap();
    assert_eq!(text_of(&config, "timeout").as_deref(), Some("10m"));
    assert_eq!(text_of(&config, "quiet").as_deref(), Some("false"));
    assert_eq!(text_of(&config, "ttl").as_deref(), Some("2h"));
    assert_eq!(text_of(&config, "probe"), None);
    let origin = |name| config.get(name).map(|(_, origin)| origin);
    assert_eq!(origin("timeout"), Some(Origin::Profile("deploy")));
    assert_eq!(origin("ttl"), Some(Origin::Defaults));
    let plain = parsed(text, None).unwrap();
    assert_eq!(text_of(&plain, "timeout").as_deref(), Some("1m"));
}

#[test]
fn values_of_every_type_become_what_would_be_typed() {
    let text = "[defaults]\nretries = 3\nmax-output = 0x100000\nsuccess-codes = [0, 3]\n\
                retry-on = ['exit:75', 'timeout']\nif-running = 'refuse'\nidempotent = true\n\
                probe = '''is-live | grep -q yes'''\nstore = '~/s.db'\nlog = '/var/log/idem'\n\
                fingerprint = 'none'\nrequire = ['key', 'after-timeout']\n";
    let config = parsed(text, None).unwrap();
    for (name, value) in [
        ("retries", "3"),
        ("max-output", "1048576"),
        ("success-codes", "0,3"),
        ("retry-on", "exit:75,timeout"),
        ("if-running", "refuse"),
        ("idempotent", "true"),
        ("probe", "is-live | grep -q yes"),
        ("store", "/home/alice/s.db"),
        ("log", "/var/log/idem"),
        ("fingerprint", "none"),
        (REQUIRE, "key,after-timeout"),
    ] {
        assert_eq!(text_of(&config, name).as_deref(), Some(value), "{name}");
    }
}

/// Files that cannot be used, and what is said of them.
const UNUSABLE: [(&str, &str); 26] = [
    (
        "[defaults]\n\ntiemout = '1m'",
        "line 3: there is no option 'tiemout'; did you mean 'timeout'?",
    ),
    (
        "[defaults]\nzebra = 1",
        "there is no option 'zebra'; the names are those of",
    ),
    ("[profile.a]\nretires = 1", "did you mean 'retries'?"),
    (
        "[default]\n",
        "line 1: 'default' is no table of idem's; did you mean [defaults]?",
    ),
    (
        "timeout = '1m'",
        "settings stand in [defaults] and [profile.NAME]",
    ),
    ("profile = 1", "did you mean [profile.NAME]?"),
    ("[profile]\ndeploy = 1", "profile.deploy is no table"),
    ("[defaults]\nkey = 'k'", "key belongs to one call"),
    ("[defaults]\nstep = 's'", "step belongs to one call"),
    ("[defaults]\ndry-run = true", "dry-run belongs to one call"),
    (
        "[defaults]\ntimeout = 30",
        "timeout cannot be a value of type integer; write a string (DUR)",
    ),
    (
        "[defaults]\ntimeout = ['1m']",
        "timeout cannot be a value of type array",
    ),
    (
        "[defaults]\ntimeout = 1.5",
        "timeout cannot be a value of type float",
    ),
    (
        "[defaults]\njson = 'yes'",
        "json cannot be a value of type string; write true or false",
    ),
    (
        "[defaults]\nretries = true",
        "retries cannot be a value of type boolean",
    ),
    (
        "[defaults]\nretries = 99999999999999999999",
        "retries cannot be a value of type integer",
    ),
    (
        "[defaults]\nretry-on = ['timeout', 1.5]",
        "retry-on cannot be a value of type array",
    ),
    (
        "[defaults]\nif-running = 'wiat'",
        "if-running cannot be 'wiat'; did you mean 'wait'?",
    ),
    (
        "[defaults]\nif-running = 'zebra'",
        "write one of wait, refuse, skip",
    ),
    (
        "[defaults]\nstore = 's.db'",
        "store is a relative path; begin it with / or ~/",
    ),
    ("[defaults]\nlog = ''", "log is a relative path"),
    ("[defaults]\nrequire = 'key'", "require is no array"),
    (
        "[defaults]\nrequire = ['kye']",
        "require cannot ask for 'kye'; did you mean 'key'?",
    ),
    (
        "[defaults]\nrequire = [1]",
        "require is no array of strings",
    ),
    ("[defaults\n", "/c.toml, line 1: "),
    ("[defaults]\nttl = '1h'\nttl = '2h'", "/c.toml, line 3: "),
];

#[test]
fn what_cannot_be_used_is_named_with_its_line() {
    for (text, part) in UNUSABLE {
        let error = refused(text);
        assert!(error.starts_with("/c.toml, line "), "{error}");
        assert!(error.contains(part), "{text}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_path_in_a_home_that_is_not_known_is_refused() {
    let error = Config::parse("/c".into(), "[defaults]\nstore = '~/s'", None, None);
    assert!(error.unwrap_err().contains("relative path"));
}

#[test]
fn a_profile_must_be_there() {
    let text = "[profile.deploy]\n[profile.nightly]\n";
    let error = |name| parsed(text, Some(name)).unwrap_err();
    assert!(
        error("deplyo").ends_with("did you mean 'deploy'?"),
        "{}",
        error("deplyo")
    );
    assert!(error("zebra").ends_with("it has deploy, nightly"));
    let none = parsed("", Some("zebra")).unwrap_err();
    assert!(none.ends_with("write a table [profile.zebra]"), "{none}");
    let nowhere = |_: &str| None;
    let error = Config::read(None, Some(OsStr::new("a")), &nowhere).unwrap_err();
    assert!(error.contains("there is none"), "{error}");
}

#[test]
fn the_users_own_file_is_where_the_specification_says() {
    let own = |config: Option<&str>, home: Option<&str>| {
        own_path(&|name| match name {
            "XDG_CONFIG_HOME" => config.map(OsString::from),
            _ => home.map(OsString::from),
        })
    };
    let path = |text: &str| Some(PathBuf::from(text));
    assert_eq!(own(Some("/x"), Some("/h")), path("/x/idem/config.toml"));
    for ignored in [None, Some(""), Some("relative"), Some("./x")] {
        assert_eq!(
            own(ignored, Some("/h")),
            path("/h/.config/idem/config.toml")
        );
    }
    assert_eq!(own(None, None), None);
    assert_eq!(own(Some("x"), Some("relative")), None);
}

#[test]
fn every_option_that_can_be_configured_takes_some_type() {
    for name in known_names().filter(|name| *name != REQUIRE) {
        let values = [
            "true", "'1'", "'wait'", "'refuse'", "'replay'", "'/f'", "'null'", "'print'",
            "'finish'",
        ];
        let accepted = values
            .iter()
            .any(|value| parsed(&format!("[defaults]\n{name} = {value}"), None).is_ok());
        assert!(accepted, "{name}");
    }
}
