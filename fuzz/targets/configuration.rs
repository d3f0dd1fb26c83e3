//! Configuration files.

#![no_main]

use idem::cli::config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(config) = Config::of_text("config.toml", text, None) {
        for profile in config.profiles() {
            let _ = Config::of_text("config.toml", text, Some(profile.to_owned()));
        }
    }
});
