use super::*;
use std::ffi::OsStr;

fn parse_with(url: &str, variables: &[(&str, &str)]) -> Result<Target, Refused> {
    let find = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| OsStr::new(value).to_owned())
    };
    Target::parse(url, &find)
}

fn parse(url: &str) -> Target {
    parse_with(url, &[]).expect("it is well formed")
}

fn refused(url: &str) -> String {
    let error = parse_with(url, &[]).expect_err("it is refused");
    error.to_string()
}

fn network(name: &str, port: u16) -> Host {
    Host {
        place: Place::Network(name.to_owned()),
        port,
    }
}

fn directory(path: &str, port: u16) -> Host {
    Host {
        place: Place::Directory(PathBuf::from(path)),
        port,
    }
}

#[test]
fn a_whole_url_is_taken_apart() {
    let target = parse(
        "postgresql://us%65r:p%40ss:w%2Ford@db.example:6432/ord%C3%A9rs?connect_timeout=7&application_name=a%20b&schema=jobs_1",
    );
    assert_eq!(target.hosts, [network("db.example", 6432)]);
    assert_eq!(target.user, "user");
    assert_eq!(target.password.as_deref(), Some("p@ss:w/ord"));
    assert_eq!(target.database, "ordérs");
    assert_eq!(target.connect_timeout, Some(Duration::from_secs(7)));
    assert_eq!(target.application_name, "a b");
    assert_eq!(target.schema(), "jobs_1");
    assert_eq!(target.tls, TlsMode::Prefer);
}

#[test]
fn hosts_are_names_addresses_lists_and_directories() {
    let cases: [(&str, &[Host]); 9] = [
        ("postgres://u@h", &[network("h", 5432)]),
        ("postgres://u@[::1]:7/d", &[network("::1", 7)]),
        (
            "postgres://u@a:1,[fe80::1],c:3/d",
            &[network("a", 1), network("fe80::1", 5432), network("c", 3)],
        ),
        ("postgres://u@%2Fvar%2Frun:6/d", &[directory("/var/run", 6)]),
        ("postgres://u@/d?host=/tmp&port=6", &[directory("/tmp", 6)]),
        (
            "postgres://u@/d?host=a,b&port=6",
            &[network("a", 6), network("b", 6)],
        ),
        (
            "postgres://u@/d?host=a,b&port=6,7",
            &[network("a", 6), network("b", 7)],
        ),
        ("postgres://u@a/d?host=b", &[network("b", 5432)]),
        (
            "postgres:///d?user=u",
            &[Host {
                place: Place::Usual,
                port: 5432,
            }],
        ),
    ];
    for (url, hosts) in cases {
        assert_eq!(parse(url).hosts, hosts, "{url}");
    }
}

#[test]
fn the_environment_completes_and_does_not_override() {
    let variables = [
        ("PGHOST", "env-host"),
        ("PGPORT", "6000"),
        ("PGUSER", "env-user"),
        ("PGPASSWORD", "env-secret"),
        ("PGDATABASE", "env-db"),
        ("PGPASSFILE", "/env/passfile"),
        ("PGSSLMODE", "verify-ca"),
        ("PGSSLROOTCERT", "/env/root.crt"),
        ("PGCONNECT_TIMEOUT", "9"),
        ("PGAPPNAME", "env-app"),
        ("PGOPTIONS", "-c x=y"),
        ("PGTARGETSESSIONATTRS", "any"),
        ("HOME", "/home/me"),
    ];
    let from_environment = parse_with("postgres://", &variables).expect("complete");
    assert_eq!(from_environment.hosts, [network("env-host", 6000)]);
    assert_eq!(from_environment.user, "env-user");
    assert_eq!(from_environment.password.as_deref(), Some("env-secret"));
    assert_eq!(from_environment.database, "env-db");
    assert_eq!(
        from_environment.passfile,
        Some(PathBuf::from("/env/passfile"))
    );
    assert_eq!(from_environment.tls, TlsMode::VerifyCa);
    assert_eq!(
        from_environment.roots,
        Roots::File(PathBuf::from("/env/root.crt"))
    );
    assert_eq!(
        from_environment.connect_timeout,
        Some(Duration::from_secs(9))
    );
    assert_eq!(from_environment.application_name, "env-app");
    assert_eq!(from_environment.options.as_deref(), Some("-c x=y"));
    assert_eq!(from_environment.session, SessionAttrs::Any);
    let url = "postgres://u:p@h:7/d?sslmode=require&passfile=/p&sslrootcert=/r&connect_timeout=3&application_name=a&options=o&target_session_attrs=read-write";
    let from_url = parse_with(url, &variables).expect("complete");
    let without = parse(url);
    assert_eq!(from_url.hosts, without.hosts);
    assert_eq!(from_url.password.as_deref(), Some("p"));
    assert_eq!((from_url.user, from_url.database), ("u".into(), "d".into()));
    assert_eq!((from_url.tls, from_url.roots), (without.tls, without.roots));
    assert_eq!(from_url.passfile, Some(PathBuf::from("/p")));
    assert_eq!(from_url.session, SessionAttrs::ReadWrite);
    assert_eq!(from_url.options.as_deref(), Some("o"));
}

#[test]
fn what_nobody_says_is_as_with_libpq() {
    let target = parse_with("postgres://h", &[("HOME", "/home/me"), ("PGUSER", "")]);
    let target = target.expect("complete");
    assert_eq!(target.database, target.user);
    assert!(!target.user.is_empty());
    assert_eq!(target.passfile, Some(PathBuf::from("/home/me/.pgpass")));
    let usual = PathBuf::from("/home/me/.postgresql/root.crt");
    assert_eq!(target.roots, Roots::Usual(Some(usual)));
    assert_eq!(target.application_name, "idem");
    assert_eq!(target.schema(), "idem");
    assert_eq!(target.session, SessionAttrs::Usual);
    assert_eq!(target.connect_timeout, None);
}

#[test]
fn a_target_that_is_none_is_refused_with_advice() {
    let cases = [
        ("mysql://h/d", "postgres://"),
        ("postgres://u@h:0/d", "1 to 65535"),
        ("postgres://u@h:65536/d", "1 to 65535"),
        ("postgres://u@h:x/d", "1 to 65535"),
        ("postgres://u@::1/d", "[::1]"),
        ("postgres://u@[::1/d", "]"),
        ("postgres://u@[::1]x/d", "]"),
        ("postgres://u@a@h/d", "%40"),
        ("postgres://u@h/d%", "%25"),
        ("postgres://u@h/d%4", "%25"),
        ("postgres://u@h/d%+1", "%25"),
        ("postgres://u@h/%00", "00"),
        ("postgres://u@h/%ff", "UTF-8"),
        ("postgres://u@h%20x/d", "blank"),
        ("postgres://u@h%0a/d", "control"),
        ("postgres://u@/d?host=a,b&port=1,2,3", "3 ports for 2 hosts"),
        ("postgres://u@/d?host=@abstract", "directory"),
        ("postgres://u@h/d?sslmode", "="),
        ("postgres://u@h/d?sslmod=require", "sslmod"),
        ("postgres://u@h/d?sslmode=full", "verify-full"),
        ("postgres://u@h/d?connect_timeout=soon", "connect_timeout"),
        ("postgres://u@h/d?target_session_attrs=standby", "write"),
        ("postgres://u@h/d?service=x", "service"),
        ("postgres://u@h/d?sslcert=x", "sslcert"),
        (
            "postgres://u@h/d?channel_binding=require",
            "channel_binding",
        ),
        ("postgres://u@h/d?gssencmode=require", "gssencmode"),
        ("postgres://u@h/d?client_encoding=LATIN1", "client_encoding"),
        (
            "postgres://u@h/d?sslrootcert=system&sslmode=require",
            "verify-full",
        ),
    ];
    for (url, advice) in cases {
        let text = refused(url);
        assert!(text.contains(advice), "{url}: {text}");
    }
    for (variable, value) in [
        ("PGSERVICE", "x"),
        ("PGHOSTADDR", "127.0.0.1"),
        ("PGREQUIREAUTH", "scram-sha-256"),
        ("PGSSLMODE", "yes"),
    ] {
        let error = parse_with("postgres://u@h/d", &[(variable, value)]);
        let text = error.expect_err("it is refused").to_string();
        assert!(
            text.contains(variable) || text.contains("sslmode"),
            "{text}"
        );
    }
}

#[test]
fn a_schema_is_a_plain_lower_case_name() {
    let longest = "s".repeat(63);
    for good in ["idem", "_x", "a1_b", longest.as_str()] {
        assert_eq!(
            parse(&format!("postgres://u@h/d?schema={good}")).schema(),
            good
        );
    }
    let too_long = "s".repeat(64);
    for bad in [
        "1a",
        "A",
        "a-b",
        "a\"b",
        "a.b",
        "pg_x",
        "a;b",
        "ä",
        too_long.as_str(),
    ] {
        let url = format!("postgres://u@h/d?schema={}", encode(bad));
        assert!(refused(&url).contains("schema"), "{bad}");
    }
}

#[test]
fn certificates_of_the_system_are_for_names() {
    let target = parse_with(
        "postgres://u@h/d?sslrootcert=system",
        &[("SSL_CERT_FILE", "/bundle")],
    )
    .expect("complete");
    assert_eq!(target.tls, TlsMode::VerifyFull);
    assert_eq!(target.roots, Roots::System(Some("/bundle".into())));
}

#[test]
fn no_text_has_the_password() {
    let target = parse("postgres://u:s3cret@h/d?schema=x");
    assert_eq!(target.to_string(), "postgres://u@h/d?schema=x");
    assert!(!format!("{target:?}").contains("s3cret"));
    for url in [
        "postgres://u:s3cret@h:x/d",
        "postgres://u:s3cret@a@h/d",
        "postgres://u:s3cret%@h/d",
        "postgres://u:s3cret@h/d?password",
        "postgres://u@h/d?password=s3cret&nothing=1",
        "postgres:// u:s3cret@h/d e?x=y",
        "postgre://u:s3cret@h/d",
    ] {
        assert!(!refused(url).contains("s3cret"), "{url}");
    }
}

#[test]
fn what_is_shown_leads_to_the_same_place() {
    for url in [
        "postgres://u@h/d",
        "postgres://u%40x@a:1,b/d%2Fe?schema=s",
        "postgres://u@[::1]:7/d",
        "postgres://u@%2Fvar%2Frun%2Fx:7/d",
        "postgres://u@/d",
    ] {
        let target = parse(url);
        assert_eq!(target.to_string(), url);
        assert_eq!(target.digest(), parse(&target.to_string()).digest());
    }
    assert_eq!(
        parse("postgres://u@/d?host=/run/x&port=9").to_string(),
        "postgres://u@%2Frun%2Fx:9/d"
    );
}

#[test]
fn the_digest_is_of_the_place_alone() {
    let target = parse("postgres://u:p@h/d");
    assert_eq!(target.digest().len(), 16);
    let same = [
        "postgresql://u@h:5432/d",
        "postgres://u:other@h/d?sslmode=require&application_name=x&schema=idem",
    ];
    for url in same {
        assert_eq!(parse(url).digest(), target.digest(), "{url}");
    }
    let others = [
        "postgres://v@h/d",
        "postgres://u@i/d",
        "postgres://u@h:1/d",
        "postgres://u@h/e",
        "postgres://u@h,h/d",
        "postgres://u@h/d?schema=x",
        "postgres://u@%2Fh/d",
    ];
    for url in others {
        assert_ne!(parse(url).digest(), target.digest(), "{url}");
    }
}

#[test]
fn a_digest_that_names_a_directory_stays_the_same_in_later_versions() {
    assert_eq!(parse("postgres://u@h/d").digest(), "1e6d5892d1a53636");
}

#[test]
fn only_urls_of_postgresql_are_its() {
    assert!(Target::is_url("postgres://h"));
    assert!(Target::is_url("postgresql:///"));
    for other in ["postgres:/h", "/var/lib/x", "http://h", "xpostgres://h", ""] {
        assert!(!Target::is_url(other), "{other}");
    }
}
