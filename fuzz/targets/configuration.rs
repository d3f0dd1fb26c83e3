//! Configuration files.

#![no_main]

use idem::cli::config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(config) = Config::parse("config.toml".into(), text, None, None) {
        for profile in config.profiles() {
            let _ = Config::parse("config.toml".into(), text, None, Some(profile.to_owned()));
        }
    }
});
