//! The verbs, one a file. Each returns the process's exit code; only here and in `main` errors are `anyhow`'s.
