//! Certificates of a run's own: an authority, and server certificates that are right or wrong.

use std::path::Path;
use std::process::{Command, Stdio};

use super::tools;

/// Makes them in a directory, each with `.crt` and `.key`: the authorities `authority` and `stranger`,
/// which has signed nothing; by the first, `localhost`, `elsewhere` and `expired` (for localhost too);
/// and `selfsigned`, for localhost.
pub fn make(directory: &Path) {
    let made = Directory(directory);
    for authority in ["authority", "stranger"] {
        made.self_signed(authority, "subjectKeyIdentifier=hash");
    }
    made.self_signed("selfsigned", "subjectAltName=DNS:localhost");
    made.signed("localhost", "localhost", "365");
    made.signed("elsewhere", "elsewhere.example", "365");
    made.signed("expired", "localhost", "-1");
}

struct Directory<'a>(&'a Path);

impl Directory<'_> {
    fn self_signed(&self, name: &str, extension: &str) {
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj /CN={name} \
             -addext {extension} -keyout {name}.key -out {name}.crt"
        ));
    }

    fn signed(&self, name: &str, host: &str, days: &str) {
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={host} \
             -addext subjectAltName=DNS:{host} -keyout {name}.key -out {name}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA authority.crt -CAkey authority.key -CAcreateserial \
             -copy_extensions copy -days {days} -out {name}.crt"
        ));
    }

    fn openssl(&self, arguments: &str) {
        let mut openssl = Command::new(tools::path("openssl"));
        openssl
            .args(arguments.split_whitespace())
            .current_dir(self.0);
        let ran = openssl.stdin(Stdio::null()).output().unwrap();
        assert!(
            ran.status.success(),
            "openssl {arguments}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
}
