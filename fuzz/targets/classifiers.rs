//! Classifiers on any output: nothing panics, and what is fed in other pieces is judged the same.

#![no_main]

use idem::domain::outcome::Exit;
use idem::domain::time::UnixMs;
use idem::policy::classify::{Classifier, TOOLS};
use idem::policy::conditions::Stream;
use idem::policy::outcome::Rules;
use idem::policy::patterns::Scanner;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [tool, exit, cut, output @ ..] = bytes else {
        return;
    };
    let Some(tool) = TOOLS.get(usize::from(*tool) % TOOLS.len()) else {
        return;
    };
    let (command, output) = match output.iter().position(|byte| *byte == 0) {
        Some(at) => output.split_at(at),
        None => (&b""[..], output),
    };
    let mut argv = vec![tool.commands.first().unwrap_or(&"x").as_bytes().to_vec()];
    argv.extend(command.split(|byte| *byte == b' ').map(<[u8]>::to_vec));
    let selection = tool.name.parse().expect("a tool's own name");
    let Some(classifier) = Classifier::choose(selection, &argv) else {
        return;
    };
    let _ = classifier.believed(&|_| None);
    let _ = classifier.warning(&|_| None);
    let judge = |pieces: &[&[u8]]| {
        let mut scanner = Scanner::new(&Rules::default(), Some(classifier.collector()));
        for piece in pieces {
            scanner.feed(Stream::Stderr, piece);
        }
        let seen = scanner.finish();
        let evidence = seen.evidence.expect("a collector was given");
        let (exit, now) = (Exit::Code(i32::from(*exit)), UnixMs(0));
        let verdict = classifier.verdict(exit, &evidence, &|_| None, now);
        format!("{verdict:?}")
    };
    let (first, second) = output.split_at(usize::from(*cut).min(output.len()));
    assert_eq!(judge(&[output]), judge(&[first, second]));
});
