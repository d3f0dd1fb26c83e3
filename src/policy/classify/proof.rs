//! When a tool is known to send one request at most: by its arguments and its environment.
//!
//! What is not recognised proves nothing. Configuration files are not read: a `~/.curlrc` or
//! `~/.wgetrc` that turns retries on is the caller's to know.

use super::invocation::Invocation;

/// The ending itself shows it.
pub fn always(_: &Invocation) -> bool {
    true
}

/// Nothing shows it.
pub fn never(_: &Invocation) -> bool {
    false
}

/// The arguments cannot show it, but the user named the classifier for this command.
pub fn named(call: &Invocation) -> bool {
    call.named
}

/// No long option of curl's but these is known to keep it to one request. A login by challenge
/// (`--anyauth`, `--digest` and the like) is not: its first request may carry everything.
const CURL_FLAGS: &str = " append basic cert-status compressed create-dirs crlf disable disallow-username-in-url fail fail-early fail-with-body form-escape get globoff haproxy-protocol head http0.9 http1.0 http1.1 http2 http2-prior-knowledge http3 http3-only ignore-content-length include insecure ipv4 ipv6 junk-session-cookies netrc netrc-optional no-alpn no-buffer no-clobber no-keepalive no-location no-npn no-progress-meter no-sessionid no-silent no-verbose path-as-is progress-bar proxy-basic proxy-insecure proxy-tlsv1 proxytunnel raw remote-header-name remote-name remote-name-all remote-time remove-on-error sasl-ir show-error silent ssl ssl-no-revoke ssl-reqd ssl-revoke-best-effort sslv2 sslv3 styled-output suppress-connect-headers tcp-fastopen tcp-nodelay tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 tr-encoding trace-time use-ascii verbose xattr ";

/// These take a value.
const CURL_VALUED: &str = " abstract-unix-socket aws-sigv4 cacert capath cert cert-type ciphers connect-timeout connect-to continue-at cookie cookie-jar create-file-mode crlfile curves data data-ascii data-binary data-raw data-urlencode delegation dns-interface dns-ipv4-addr dns-ipv6-addr dns-servers doh-url dump-header egd-file engine etag-compare etag-save expect100-timeout form form-string happy-eyeballs-timeout-ms header hostpubmd5 hostpubsha256 hsts interface json keepalive-time key key-type limit-rate local-port login-options max-filesize max-time netrc-file noproxy oauth2-bearer output output-dir pass pinnedpubkey proto proto-default proxy proxy-cacert proxy-capath proxy-cert proxy-cert-type proxy-ciphers proxy-crlfile proxy-header proxy-key proxy-key-type proxy-pass proxy-pinnedpubkey proxy-service-name proxy-tls13-ciphers proxy-user proxy1.0 pubkey range referer request request-target resolve service-name socks4 socks4a socks5 socks5-gssapi-service socks5-hostname speed-limit speed-time stderr time-cond tls-max tls13-ciphers trace trace-ascii unix-socket upload-file url-query user user-agent write-out ";

/// Short options without a value (`-L`, `-:` and `-Z` are not among them), and those with one.
const CURL_SHORT_FLAGS: &str = "aBfgGiIjJklnNOpqRsSv012346#";
const CURL_SHORT_VALUED: &str = "AbcCdDeEFHmoPrTuUwxXyYz";

fn among(list: &str, word: &str) -> bool {
    !word.contains(' ') && list.contains(&format!(" {word} "))
}

/// curl with one URL, no redirects followed, no retries and no configuration file.
pub fn curl(call: &Invocation) -> bool {
    curl_urls(call) == Some(1)
}

/// How many requests these arguments ask for; nothing when some argument is not known.
fn curl_urls(call: &Invocation) -> Option<usize> {
    if !call.known || uploads_several(call) {
        return None;
    }
    let globs = !(call.has("-g") || call.has("--globoff"));
    let mut urls = 0;
    let mut args = call.texts();
    while let Some(arg) = args.next() {
        if let Some(long) = arg.strip_prefix("--") {
            match long {
                "url" => urls += one_url(&args.next()?, globs)?,
                _ if among(CURL_FLAGS, long) => {}
                _ if among(CURL_VALUED, long) => drop(args.next()?),
                _ => return None,
            }
        } else if let Some(short) = short_group(&arg) {
            if curl_short(short)? {
                args.next()?;
            }
        } else {
            urls += one_url(&arg, globs)?;
        }
    }
    Some(urls)
}

/// The letters of `-sS`; nothing for a long option and for what is none.
fn short_group(arg: &str) -> Option<&str> {
    let group = arg.strip_prefix('-')?;
    (!group.is_empty() && !group.starts_with('-')).then_some(group)
}

/// An upload whose file may be a pattern for several.
fn uploads_several(call: &Invocation) -> bool {
    let valued = |a: &str| {
        let group = short_group(a)?;
        group.chars().find(|c| CURL_SHORT_VALUED.contains(*c))
    };
    let upload = |a: &str| a == "--upload-file" || valued(a) == Some('T');
    let pattern = |a: &str| a.contains(['{', '[']);
    call.texts().any(|a| upload(&a)) && call.texts().any(|a| pattern(&a))
}

/// Whether a group of short options ends with one whose value is the next argument.
fn curl_short(short: &str) -> Option<bool> {
    for (at, letter) in short.char_indices() {
        if CURL_SHORT_VALUED.contains(letter) {
            return Some(at + letter.len_utf8() == short.len());
        }
        if !CURL_SHORT_FLAGS.contains(letter) {
            return None;
        }
    }
    Some(false)
}

/// One, if the URL is not a pattern for several. Brackets around an address are none.
fn one_url(url: &str, globs: bool) -> Option<usize> {
    let host = url.split("://").last().unwrap_or(url);
    let address = host.split_once('@').map_or(host, |(_, h)| h);
    let rest = match address.strip_prefix('[') {
        Some(inside) => inside.split_once(']').map_or(inside, |(_, rest)| rest),
        None => address,
    };
    let pattern = globs && rest.contains(['{', '[']);
    (!pattern).then_some(1)
}

/// curl that turns an HTTP error into an exit code, or prints the status.
pub fn curl_warning(call: &Invocation) -> Option<&'static str> {
    let long = ["--fail", "--fail-with-body", "--write-out"];
    let short = call.texts().any(|a| {
        let group = short_group(&a).unwrap_or_default();
        let value_at = group
            .find(|c| CURL_SHORT_VALUED.contains(c))
            .unwrap_or(group.len());
        group[..value_at].contains('f') || group[value_at..].starts_with('w')
    });
    let told = !call.known || short || long.iter().any(|o| call.has(o));
    (!told).then_some("curl without --fail ends with 0 whatever status the server answers")
}

/// httpie that turns an HTTP error into an exit code.
pub fn httpie_warning(call: &Invocation) -> Option<&'static str> {
    let told = !call.known || call.has("--check-status");
    (!told)
        .then_some("httpie without --check-status ends with 0 whatever status the server answers")
}

/// psql that reads a script and stops at the first error.
pub fn psql_warning(call: &Invocation) -> Option<&'static str> {
    let one_command = call
        .texts()
        .any(|a| a.starts_with("-c") || a.starts_with("--command"));
    let stops = call.texts().any(|a| a.contains("ON_ERROR_STOP"));
    let told = !call.known || one_command || stops;
    (!told).then_some("psql without ON_ERROR_STOP ends with 0 although statements of a script fail")
}

/// No warning.
pub fn no_warning(_: &Invocation) -> Option<&'static str> {
    None
}

/// wget with one try and one URL, whose messages show every request: not `-q` and not `-nv`, which hide
/// redirects and refused logins.
pub fn wget(call: &Invocation) -> bool {
    let counted = wget_counts(call);
    call.known && counted.is_some_and(|(urls, tries)| urls == 1 && tries == Some(1))
}

/// Long options of wget that leave it at one request and do not silence it.
const WGET_FLAGS: &str = " verbose debug server-response no-clobber no-directories no-host-directories no-check-certificate no-cookies no-cache no-dns-cache no-http-keep-alive no-hsts no-iri no-proxy no-config no-netrc show-progress content-disposition content-on-error https-only ignore-length inet4-only inet6-only keep-session-cookies save-headers trust-server-names auth-no-challenge ";
/// Those with a value, which may be the next argument.
const WGET_VALUED: &str = " tries timeout dns-timeout connect-timeout read-timeout wait limit-rate output-document directory-prefix user password http-user http-password header post-data post-file method body-data body-file user-agent referer max-redirect progress compression ciphers load-cookies save-cookies ca-certificate ca-directory crl-file hsts-file certificate certificate-type private-key private-key-type secure-protocol bind-address prefer-family quota ";
const WGET_SHORT_FLAGS: &str = "Svd46";
const WGET_SHORT_PAIRS: [&str; 3] = ["nc", "nd", "nH"];
const WGET_SHORT_VALUED: &str = "tTwOPUQ";

/// How many URLs these arguments name, and how many tries the last word about that allows; nothing
/// when some argument is not known.
fn wget_counts(call: &Invocation) -> Option<(usize, Option<u64>)> {
    let (mut urls, mut tries) = (0, None);
    let mut args = call.texts();
    while let Some(arg) = args.next() {
        let Some((option, value)) = wget_option(&arg)? else {
            urls += 1;
            continue;
        };
        let value = match value {
            Value::None => continue,
            Value::Joined(value) => value.to_owned(),
            Value::Next => args.next()?.into_owned(),
        };
        if matches!(option, "tries" | "t") {
            tries = Some(value.parse().ok()?);
        }
    }
    Some((urls, tries))
}

/// Where the value of an option is.
enum Value<'a> {
    None,
    Joined(&'a str),
    Next,
}

/// The option that takes a value, if any; nothing inside for an argument that is no option, and
/// nothing at all for an option that is not known.
fn wget_option(arg: &str) -> Option<Option<(&str, Value<'_>)>> {
    if let Some(long) = arg.strip_prefix("--") {
        return match long.split_once('=') {
            Some((name, value)) => among(WGET_VALUED, name).then_some((name, Value::Joined(value))),
            None if among(WGET_FLAGS, long) => Some((long, Value::None)),
            None => among(WGET_VALUED, long).then_some((long, Value::Next)),
        }
        .map(Some);
    }
    match short_group(arg) {
        Some(group) if WGET_SHORT_PAIRS.contains(&group) => Some(Some((group, Value::None))),
        Some(group) => wget_short(group).map(Some),
        None => Some(None),
    }
}

fn wget_short(group: &str) -> Option<(&str, Value<'_>)> {
    for (at, letter) in group.char_indices() {
        let rest = group.get(at + letter.len_utf8()..)?;
        if WGET_SHORT_VALUED.contains(letter) {
            let value = match rest {
                "" => Value::Next,
                _ => Value::Joined(rest),
            };
            return Some((group.get(at..at + letter.len_utf8())?, value));
        }
        if !WGET_SHORT_FLAGS.contains(letter) {
            return None;
        }
    }
    Some((group, Value::None))
}

/// httpie that follows no redirects.
pub fn httpie(call: &Invocation) -> bool {
    call.known && !call.has("--follow") && !call.texts().any(|a| is_short(&a, 'F'))
}

fn is_short(arg: &str, letter: char) -> bool {
    short_group(arg).is_some_and(|g| g.contains(letter))
}

/// The user named the classifier, and no argument logs in anywhere else.
pub fn named_login(call: &Invocation) -> bool {
    call.named && one_login(call)
}

/// `HOST port PORT`, or `HOST` alone, is where this ssh was to log in. The command that it runs there
/// may log in elsewhere and fail with the same words and the same code.
pub fn ssh_destination(call: &Invocation, captured: &[u8]) -> bool {
    let captured = String::from_utf8_lossy(captured);
    let (host, port) = match captured.split_once(" port ") {
        Some((host, port)) => (host, Some(port)),
        None => (&*captured, None),
    };
    let own = ssh_target(call);
    let fits = own.is_some_and(|(h, p)| h == host && port.is_none_or(|port| port == p));
    one_login(call) && (fits || call.named)
}

/// These options of ssh take a value.
const SSH_VALUED: &str = "BbcDEeFIiJLlmOoPpQRSWw";

/// The host and the port that the arguments name; nothing when they leave it to more than that.
fn ssh_target(call: &Invocation) -> Option<(String, String)> {
    let (mut host, mut port) = (None, "22".to_owned());
    let mut args = call.texts();
    while let Some(arg) = args.next() {
        let Some(group) = short_group(&arg) else {
            if host.is_some() {
                break;
            }
            host = Some(arg.rsplit('@').next().unwrap_or_default().to_lowercase());
            continue;
        };
        let Some((at, letter)) = group.char_indices().find(|(_, c)| SSH_VALUED.contains(*c)) else {
            continue;
        };
        let value = match &group[at + letter.len_utf8()..] {
            "" => args.next()?.into_owned(),
            joined => joined.to_owned(),
        };
        if letter == 'p' {
            port = value;
        }
    }
    // An ssh:// URL may have a port of its own.
    host.filter(|h| !h.contains('/')).map(|h| (h, port))
}

/// ssh or rsync whose remote command does not log in anywhere itself, so that a message of a failed
/// login is about this one.
pub fn one_login(call: &Invocation) -> bool {
    let mut args = call.texts();
    while let Some(arg) = args.next() {
        if names_transport(&arg) {
            args.next();
        } else if logs_in(&arg) {
            return false;
        }
    }
    call.known
}

/// rsync's `-e` and `--rsh`, whose value names the transport of this very login.
fn names_transport(arg: &str) -> bool {
    arg == "--rsh" || short_group(arg).is_some_and(|g| g.ends_with('e'))
}

/// An argument that is, or has among its words, a command that logs in somewhere.
fn logs_in(arg: &str) -> bool {
    const LOGINS: [&str; 6] = ["ssh", "scp", "sftp", "rsync", "git", "ansible"];
    let own_option = arg.starts_with('-');
    let whole = LOGINS.contains(&arg);
    let mut words = arg.split(|c: char| !c.is_ascii_alphanumeric());
    !own_option && (whole || arg.contains(' ') && words.any(|w| LOGINS.contains(&w)))
}

/// git push of one repository that would print what it had already pushed.
pub fn git_push(call: &Invocation) -> bool {
    let more = ["-q", "--quiet", "--recurse-submodules"];
    let recurses = call.texts().any(|a| a.starts_with("--recurse-submodules="));
    call.known && !recurses && !more.iter().any(|o| call.has(o))
}

/// The aws CLI with one attempt, and no transfer of many objects.
pub fn aws(call: &Invocation) -> bool {
    call.known && !call.has("s3") && call.env_is("AWS_MAX_ATTEMPTS", "1")
}

/// npm that publishes one package, with its own retries off.
pub fn npm(call: &Invocation) -> bool {
    let mut retries = call.texts().filter(|a| a.starts_with("--fetch-retries"));
    let off = match retries.next() {
        Some(_) => retries.next().is_none() && call.sets("--fetch-retries", "0"),
        None => call.env_is("npm_config_fetch_retries", "0"),
    };
    // `-w`, `-ws`, `--ws`, `--workspace` and `--workspaces`.
    let several = |a: &str| a.starts_with("-w") || a.starts_with("--w");
    call.known && off && !call.texts().any(|a| several(&a))
}

/// psql, or pg_dump without the further sessions of `--jobs`.
pub fn one_session(call: &Invocation) -> bool {
    !call
        .texts()
        .any(|a| a.starts_with("--j") || is_short(&a, 'j'))
}

/// kubectl that runs nothing in a container, which may say the same.
pub fn kubectl(call: &Invocation) -> bool {
    let running = ["exec", "run", "attach", "debug", "cp"];
    call.known && !running.iter().any(|r| call.has(r))
}

/// psql with one command at most: what failed was rolled back.
pub fn one_command(call: &Invocation) -> bool {
    let commands = call
        .texts()
        .filter(|a| a.starts_with("-c") || a.starts_with("--command"));
    commands.count() <= 1
}

/// `gh api`, which sends one request. Other commands can send several that change something.
pub fn gh(call: &Invocation) -> bool {
    let first = call.texts().find(|a| !a.starts_with('-'));
    let single = first.is_some_and(|f| f == "api");
    call.known && single && !call.has("--paginate")
}

/// `terraform plan -detailed-exitcode`, which says by a code of its own that there are changes.
pub fn terraform_plan(call: &Invocation) -> bool {
    let detailed = call.has("-detailed-exitcode") || call.has("--detailed-exitcode");
    call.known && detailed
}
