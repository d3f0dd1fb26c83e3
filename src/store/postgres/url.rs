//! Connection URLs, as libpq reads them.

use super::parameters::{Parameters, Refused};

/// Whether this names a PostgreSQL server at all.
pub fn is_url(text: &str) -> bool {
    rest(text).is_some()
}

fn rest(text: &str) -> Option<&str> {
    ["postgres://", "postgresql://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme))
}

/// Takes a URL apart. No text of an error quotes the URL: it can contain a password.
pub fn parse(text: &str) -> Result<Parameters, Refused> {
    let rest = rest(text).ok_or_else(|| {
        Refused::new("the URL does not begin with postgres:// or postgresql://".to_owned())
    })?;
    let mut parameters = Parameters::default();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = match authority.split_once('@') {
        Some((user, hosts)) => {
            credentials(user, &mut parameters)?;
            hosts
        }
        None => authority,
    };
    if hosts.contains('@') {
        return Err(Refused::new(
            "the URL has a second @; write one in a user or password as %40".to_owned(),
        ));
    }
    self::hosts(hosts, &mut parameters)?;
    if !database.is_empty() {
        parameters.set("dbname", decode(database)?)?;
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            Refused::new("the URL has a parameter without = and a value".to_owned())
        })?;
        parameters.set(&decode(name)?, decode(value)?)?;
    }
    Ok(parameters)
}

fn credentials(text: &str, parameters: &mut Parameters) -> Result<(), Refused> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (text, None),
    };
    if !user.is_empty() {
        parameters.set("user", decode(user)?)?;
    }
    match password {
        Some(password) if !password.is_empty() => parameters.set("password", decode(password)?),
        _ => Ok(()),
    }
}

fn hosts(text: &str, parameters: &mut Parameters) -> Result<(), Refused> {
    if text.is_empty() {
        return Ok(());
    }
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for host in text.split(',') {
        let (name, port) = host_and_port(host)?;
        names.push(decode(name)?);
        ports.push(decode(port)?);
    }
    if names.iter().any(|name| !name.is_empty()) {
        parameters.set("host", names.join(","))?;
    }
    if ports.iter().any(|port| !port.is_empty()) {
        parameters.set("port", ports.join(","))?;
    }
    Ok(())
}

fn host_and_port(host: &str) -> Result<(&str, &str), Refused> {
    let Some(bracketed) = host.strip_prefix('[') else {
        let (name, port) = host.split_once(':').unwrap_or((host, ""));
        if port.contains(':') {
            return Err(Refused::new(
                "the URL has an IPv6 address without brackets; write [::1]".to_owned(),
            ));
        }
        return Ok((name, port));
    };
    let ended = bracketed.split_once(']').and_then(|(name, after)| {
        let port = after
            .strip_prefix(':')
            .or(after.is_empty().then_some(after))?;
        (!name.is_empty()).then_some((name, port))
    });
    ended.ok_or_else(|| Refused::new("the URL has a [ without its address and ]".to_owned()))
}

/// Percent-decoding. What results must be text without NUL.
fn decode(text: &str) -> Result<String, Refused> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(*rest.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let decoded = digit().zip(digit()).map(|(high, low)| high << 4 | low);
        match decoded {
            Some(byte) if byte != 0 => bytes.push(byte),
            _ => {
                return Err(Refused::new(
                    "the URL has a % that is not followed by two hexadecimal digits (not 00); write a % itself as %25"
                        .to_owned(),
                ));
            }
        }
    }
    String::from_utf8(bytes)
        .map_err(|_| Refused::new("the URL has a part that is not UTF-8 when decoded".to_owned()))
}

/// Percent-encoding of everything that could mean something else in a URL.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
