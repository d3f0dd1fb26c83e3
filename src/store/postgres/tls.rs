//! TLS, and what of the server's certificate is looked at.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, StreamOwned,
};

use super::error::{PgError, one_line, reason};
use super::parameters::{Environment, Refused};
use super::socket::Socket;

/// Where systems keep the certificates that they trust, as one file.
const SYSTEM_BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/var/lib/ca-certificates/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// `sslmode`, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsMode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// Whose signatures are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// The file `sslrootcert`.
    File(PathBuf),
    /// The usual file, which need not be there where nothing has to be verified.
    Usual(Option<PathBuf>),
    /// Those of this system; the file in which `SSL_CERT_FILE` says they are.
    System(Option<PathBuf>),
}

impl TlsMode {
    /// Reads `sslmode` and `sslrootcert`.
    pub fn parse(
        mode: Option<&str>,
        roots: Option<String>,
        environment: Environment<'_>,
    ) -> Result<(TlsMode, Roots), Refused> {
        let path = |variable| {
            let value = environment(variable).filter(|value| !value.is_empty());
            value.map(PathBuf::from)
        };
        let roots = match roots {
            Some(system) if system == "system" => Roots::System(path("SSL_CERT_FILE")),
            Some(file) => Roots::File(PathBuf::from(file)),
            None => Roots::Usual(path("HOME").map(|home| home.join(".postgresql/root.crt"))),
        };
        let system = matches!(roots, Roots::System(_));
        let mode = match mode {
            Some("disable") => TlsMode::Disable,
            Some("allow") => TlsMode::Allow,
            Some("prefer") => TlsMode::Prefer,
            Some("require") => TlsMode::Require,
            Some("verify-ca") => TlsMode::VerifyCa,
            Some("verify-full") => TlsMode::VerifyFull,
            None if system => TlsMode::VerifyFull,
            None => TlsMode::Prefer,
            Some(_) => {
                return Err(Refused::new(
                    "sslmode is disable, allow, prefer, require, verify-ca or verify-full; correct it in the URL or the environment"
                        .to_owned(),
                ));
            }
        };
        // Anybody can have a certificate of theirs, so without its name it says nothing.
        if system && mode != TlsMode::VerifyFull {
            return Err(Refused::new(
                "sslrootcert=system needs sslmode=verify-full".to_owned(),
            ));
        }
        Ok((mode, roots))
    }
}

/// Shakes hands over a connected socket. `host` is what the certificate has to be for.
pub fn handshake(
    mut socket: Socket,
    host: &str,
    mode: TlsMode,
    roots: &Roots,
    peer: &str,
) -> Result<StreamOwned<ClientConnection, Socket>, PgError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier {
        provider: Arc::clone(&provider),
        trust: trust(mode, roots)?,
        check_name: mode == TlsMode::VerifyFull,
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| tell(&error, peer))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    let name = match ServerName::try_from(host.to_owned()) {
        Ok(name) => name,
        Err(_) if mode == TlsMode::VerifyFull => {
            return Err(PgError::Tls(format!(
                "{peer} cannot be verified: its name is none that a certificate can have"
            )));
        }
        // Nobody looks at it.
        Err(_) => {
            config.enable_sni = false;
            ServerName::from(IpAddr::from([127, 0, 0, 1]))
        }
    };
    let mut connection =
        ClientConnection::new(Arc::new(config), name).map_err(|error| tell(&error, peer))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).map_err(|error| {
            match PgError::from_io(&error, peer) {
                PgError::Closed(text) => {
                    PgError::Tls(format!("no TLS connection came about: {text}"))
                }
                other => other,
            }
        })?;
    }
    Ok(StreamOwned::new(connection, socket))
}

/// Tells a failure of TLS, and for what it is known, what to do.
pub fn tell(error: &Error, peer: &str) -> PgError {
    let Error::InvalidCertificate(certificate) = error else {
        return PgError::Tls(format!(
            "TLS with {peer} failed: {}",
            one_line(error.to_string().as_bytes())
        ));
    };
    let why = match certificate {
        CertificateError::UnknownIssuer => {
            "it is not signed by a certificate of sslrootcert; give the file of the right authority"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name; connect by a name that is among its subject alternative names, or use sslmode=verify-ca"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired; look at the server's certificate and at this machine's clock".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; look at the server's certificate and at this machine's clock"
                .to_owned()
        }
        // Errors of the library below have no type here.
        other => match format!("{other:?}") {
            name if name.contains("CaUsedAsEndEntity") => {
                "it is not signed by a certificate of sslrootcert but by itself; to trust it, put a copy of it into sslrootcert"
                    .to_owned()
            }
            name if name.contains("UnsupportedCertVersion") => {
                "it is of an old form (X.509 version 1); make a new one, with a subject alternative name"
                    .to_owned()
            }
            name => one_line(name.as_bytes()),
        },
    };
    PgError::Tls(format!("the certificate of {peer} is refused: {why}"))
}

/// What is trusted in this mode; nothing where the certificate does not matter.
fn trust(mode: TlsMode, roots: &Roots) -> Result<Option<Trust>, PgError> {
    let file = match roots {
        _ if mode < TlsMode::Require => return Ok(None),
        Roots::File(file) => file,
        // As with libpq: the file alone makes `require` mean `verify-ca`.
        Roots::Usual(Some(file)) if mode > TlsMode::Require || file.exists() => file,
        Roots::Usual(_) if mode == TlsMode::Require => return Ok(None),
        Roots::Usual(_) => {
            return Err(PgError::Tls(
                "there is no certificate to verify the server with; set sslrootcert to a file or to system"
                    .to_owned(),
            ));
        }
        Roots::System(named) => return system_trust(named.as_deref()).map(Some),
    };
    Trust::read(file).map(Some)
}

fn system_trust(named: Option<&Path>) -> Result<Trust, PgError> {
    let present = || SYSTEM_BUNDLES.iter().map(Path::new).find(|f| f.exists());
    match named.or_else(present) {
        Some(file) => Trust::read(file),
        None => Err(PgError::Tls(
            "this system has no file of trusted certificates; install ca-certificates or set sslrootcert to a file"
                .to_owned(),
        )),
    }
}

/// Certificates that are trusted.
#[derive(Debug)]
struct Trust {
    roots: RootCertStore,
    certificates: Vec<CertificateDer<'static>>,
}

impl Trust {
    fn read(file: &Path) -> Result<Trust, PgError> {
        let shown = file.display();
        let pem = std::fs::read(file).map_err(|error| {
            PgError::Tls(format!(
                "the file of trusted certificates {shown} cannot be read: {}; correct sslrootcert",
                reason(&error)
            ))
        })?;
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .filter_map(Result::ok)
            .collect();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        if certificates.is_empty() {
            return Err(PgError::Tls(format!(
                "{shown} has no certificate in PEM form; correct sslrootcert"
            )));
        }
        Ok(Trust {
            roots,
            certificates,
        })
    }
}

/// Looks at as much of a certificate as the mode says.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    trust: Option<Trust>,
    check_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trust) = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let parsed = ParsedCertificate::try_from(end_entity)?;
        // The server's own certificate in the file is trust in itself. As a root it would be refused
        // for being one, which is what a server with a self-signed certificate has.
        if !trust.certificates.contains(end_entity) {
            verify_server_cert_signed_by_trust_anchor(
                &parsed,
                &trust.roots,
                intermediates,
                now,
                self.provider.signature_verification_algorithms.all,
            )?;
        }
        if self.check_name {
            verify_server_name(&parsed, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.trust.is_none() {
            // Anybody can sign with a certificate of their own, and old ones cannot be parsed.
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.trust.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
