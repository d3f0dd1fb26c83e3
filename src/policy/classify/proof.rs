//! When a tool is known to send one request at most: by its arguments and its environment.
//!
//! What is not recognised proves nothing. Configuration files are not read: a `~/.curlrc` or
//! `~/.wgetrc` that turns retries on is the caller's to know.

use super::invocation::Invocation;

/// The ending itself shows it.
pub fn always(_: &Invocation) -> bool {
    true
}

/// The arguments cannot show it, but the user named the classifier for this command.
pub fn named(call: &Invocation) -> bool {
    call.named
}

/// No long option of curl's but these is known to keep it to one request.
const CURL_FLAGS: &str = " anyauth append basic cert-status compressed create-dirs crlf digest disable disallow-username-in-url fail fail-early fail-with-body form-escape get globoff haproxy-protocol head http0.9 http1.0 http1.1 http2 http2-prior-knowledge http3 http3-only ignore-content-length include insecure ipv4 ipv6 junk-session-cookies negotiate netrc netrc-optional no-alpn no-buffer no-clobber no-keepalive no-location no-npn no-progress-meter no-sessionid no-silent no-verbose ntlm path-as-is progress-bar proxy-anyauth proxy-basic proxy-digest proxy-insecure proxy-negotiate proxy-ntlm proxy-tlsv1 proxytunnel raw remote-header-name remote-name remote-name-all remote-time remove-on-error sasl-ir show-error silent ssl ssl-no-revoke ssl-reqd ssl-revoke-best-effort sslv2 sslv3 styled-output suppress-connect-headers tcp-fastopen tcp-nodelay tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 tr-encoding trace-time use-ascii verbose xattr ";

/// These take a value.
const CURL_VALUED: &str = " abstract-unix-socket alt-svc aws-sigv4 cacert capath cert cert-type ciphers connect-timeout connect-to continue-at cookie cookie-jar create-file-mode crlfile curves data data-ascii data-binary data-raw data-urlencode delegation dns-interface dns-ipv4-addr dns-ipv6-addr dns-servers doh-url dump-header egd-file engine etag-compare etag-save expect100-timeout form form-string happy-eyeballs-timeout-ms header hostpubmd5 hostpubsha256 hsts interface json keepalive-time key key-type limit-rate local-port login-options max-filesize max-time netrc-file noproxy oauth2-bearer output output-dir pass pinnedpubkey proto proto-default proxy proxy-cacert proxy-capath proxy-cert proxy-cert-type proxy-ciphers proxy-crlfile proxy-header proxy-key proxy-key-type proxy-pass proxy-pinnedpubkey proxy-service-name proxy-tls13-ciphers proxy-user proxy1.0 pubkey range referer request request-target resolve service-name socks4 socks4a socks5 socks5-gssapi-service socks5-hostname speed-limit speed-time stderr time-cond tls-max tls13-ciphers trace trace-ascii unix-socket upload-file url-query user user-agent write-out ";

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

/// wget with one try and one URL, whose redirects are off or visible in its messages.
pub fn wget(call: &Invocation) -> bool {
    let one_try = call.has("-t1") || call.sets("-t", "1") || call.sets("--tries", "1");
    let quiet = call.texts().any(|a| {
        let group = short_group(&a).unwrap_or_default();
        group.starts_with('q') || group.starts_with("nv")
    });
    let quiet = quiet || ["--quiet", "--no-verbose"].iter().any(|o| call.has(o));
    let hidden_redirects = quiet && !call.sets("--max-redirect", "0");
    call.known && one_try && !hidden_redirects && wget_urls(call) == Some(1)
}

/// Options that make wget send more than what its URLs say.
const WGET_MORE: &str = " recursive mirror page-requisites input-file execute config span-hosts ";
/// Long options with a value, which may be the next argument.
const WGET_VALUED: &str = " tries timeout dns-timeout connect-timeout read-timeout wait limit-rate output-file append-output output-document directory-prefix user password http-user http-password header post-data post-file method body-data body-file user-agent referer max-redirect load-cookies save-cookies ca-certificate ca-directory certificate certificate-type private-key secure-protocol bind-address prefer-family start-pos quota ";
const WGET_SHORT_VALUED: &str = "tTwoaOPUQB";
const WGET_SHORT_MORE: &str = "rmpieHKkEF";

fn wget_urls(call: &Invocation) -> Option<usize> {
    let mut urls = 0;
    let mut args = call.texts();
    while let Some(arg) = args.next() {
        if let Some(long) = arg.strip_prefix("--") {
            let (name, value) = long
                .split_once('=')
                .map_or((long, None), |(n, v)| (n, Some(v)));
            if among(WGET_MORE, name) {
                return None;
            }
            if value.is_none() && among(WGET_VALUED, name) {
                args.next()?;
            }
        } else if let Some(short) = short_group(&arg) {
            if short.starts_with('n') {
                continue;
            }
            let valued = short.find(|c| WGET_SHORT_VALUED.contains(c));
            let flags = &short[..valued.unwrap_or(short.len())];
            if flags.contains(|c| WGET_SHORT_MORE.contains(c)) {
                return None;
            }
            if valued.is_some_and(|at| at + 1 == short.len()) {
                args.next()?;
            }
        } else {
            urls += 1;
        }
    }
    Some(urls)
}

/// httpie that follows no redirects.
pub fn httpie(call: &Invocation) -> bool {
    call.known && !call.has("--follow") && !call.texts().any(|a| is_short(&a, 'F'))
}

fn is_short(arg: &str, letter: char) -> bool {
    short_group(arg).is_some_and(|g| g.contains(letter))
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

/// npm with its own retries off.
pub fn npm(call: &Invocation) -> bool {
    let off = call.env_is("npm_config_fetch_retries", "0") || call.sets("--fetch-retries", "0");
    call.known && off
}

/// psql with one command at most: what failed was rolled back.
pub fn one_command(call: &Invocation) -> bool {
    let commands = call
        .texts()
        .filter(|a| a.starts_with("-c") || a.starts_with("--command"));
    commands.count() <= 1
}

/// A gh command that sends one changing request, as its last.
pub fn gh(call: &Invocation) -> bool {
    let first = call.texts().find(|a| !a.starts_with('-'));
    let single = first.is_some_and(|f| f == "api" || f == "issue");
    call.known && single && !call.has("--paginate")
}

/// `terraform plan -detailed-exitcode`, which says by a code of its own that there are changes.
pub fn terraform_plan(call: &Invocation) -> bool {
    let detailed = call.has("-detailed-exitcode") || call.has("--detailed-exitcode");
    call.known && detailed
}
