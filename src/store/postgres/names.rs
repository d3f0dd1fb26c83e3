//! From the names of hosts to their addresses.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// The addresses of a host, in the order in which the system prefers them. Waits as long as the system's
/// resolver does, resolv.conf(5).
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    keep_to_built_in_sources();
    (host, port).to_socket_addrs().map(Iterator::collect)
}

/// A static program must not load the libraries that nsswitch.conf(5) can name: they belong to the C
/// library of this system, not to the one that is built in, and mixing the two crashes. The hosts file
/// and DNS are built in.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
fn keep_to_built_in_sources() {
    use std::ffi::{c_char, c_int};
    use std::sync::Once;

    unsafe extern "C" {
        /// glibc's: replaces a line of nsswitch.conf for this process.
        fn __nss_configure_lookup(database: *const c_char, sources: *const c_char) -> c_int;
    }
    static ONCE: Once = Once::new();
    // SAFETY: both are strings with a NUL at their end, which the function only reads.
    ONCE.call_once(|| unsafe {
        __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr());
    });
}

#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
fn keep_to_built_in_sources() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stand_for_themselves() {
        for (host, expected) in [("192.0.2.1", "192.0.2.1:5432"), ("::1", "[::1]:5432")] {
            let addresses = resolve(host, 5432).expect("an address");
            assert_eq!(addresses, [expected.parse().expect("an address")]);
        }
    }

    #[test]
    fn names_are_looked_up() {
        let addresses = resolve("localhost", 1).expect("known everywhere");
        assert!(!addresses.is_empty() && addresses.iter().all(|a| a.ip().is_loopback()));
        assert!(resolve("no-such-host.invalid", 1).is_err());
    }
}
