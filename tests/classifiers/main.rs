//! The classifiers against the real tools: each is run by `idem run` into a server on the loopback that
//! refuses, hangs, resets, cuts or answers with an error. The attempt's class has to be right, and so
//! has the number of requests that arrived.

mod coverage;
mod curl;
mod git;
mod http;
mod needs;
mod npm;
mod pip;
mod psql;
mod python;
mod redis;
mod rsync;
mod server;
mod ssh;
mod sshd;
mod system;
mod tls;
mod wget;
mod world;

/// Makes tests of functions, and a list of the rows of the table that they prove.
macro_rules! proofs {
    ($tool:literal, needs $needs:expr; $($test:ident: $rows:expr;)+) => {
        /// What the tests below have to show.
        pub const PROVED: crate::coverage::Proved = crate::coverage::Proved {
            tool: $tool,
            rows: &[$(&$rows),+],
        };

        mod tests {
            $(#[test]
            fn $test() {
                crate::world::prove($tool, &$needs, &$rows, super::$test);
            })+
        }
    };
}
use proofs;
