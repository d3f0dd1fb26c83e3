//! What a careful user does about a tool besides reading its endings: how its own retries are switched
//! off, and what asks for its effect. By the tools' own documentation.

use super::Tool;

/// Advice about one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// The tool's name in the table.
    pub tool: &'static str,
    /// What it repeats by itself, as a fragment.
    pub retries: Option<&'static str>,
    /// What switches that off; none where nothing does.
    pub switch_off: Option<&'static str>,
    /// A probe for the shell; words in capitals are to be replaced.
    pub probe: Option<&'static str>,
    /// A cleanup for the shell, likewise.
    pub cleanup: Option<&'static str>,
}

impl Tool {
    /// The advice about it, if there is any.
    pub fn advice(&self) -> Option<&'static Advice> {
        ADVICE.iter().find(|advice| advice.tool == self.name)
    }
}

/// Nothing to say.
const NONE: Advice = Advice {
    tool: "",
    retries: None,
    switch_off: None,
    probe: None,
    cleanup: None,
};

/// Asks by the status of an address: 404 is a no, anything else but 200 tells nothing.
const BY_STATUS: Option<&str> = Some(
    r#"case $(curl -s -o /dev/null -w "%{http_code}" URL) in 200) ;; 404) exit 1 ;; *) exit 2 ;; esac"#,
);

/// The table.
pub static ADVICE: &[Advice] = &[
    Advice {
        tool: "curl",
        retries: Some("only with --retry"),
        switch_off: Some("leave out --retry"),
        probe: BY_STATUS,
        ..NONE
    },
    Advice {
        tool: "wget",
        retries: Some("20 tries, also of a POST"),
        switch_off: Some("--tries=1"),
        probe: BY_STATUS,
        ..NONE
    },
    Advice {
        tool: "httpie",
        retries: Some("none"),
        probe: BY_STATUS,
        ..NONE
    },
    Advice {
        tool: "python",
        retries: Some("what the program makes, for instance by an adapter with Retry"),
        switch_off: Some("Retry(0) in the program"),
        ..NONE
    },
    Advice {
        tool: "ssh",
        retries: Some("of the connection, with ConnectionAttempts above 1"),
        switch_off: Some("-o ConnectionAttempts=1"),
        probe: Some("ssh HOST test -e FILE"),
        ..NONE
    },
    Advice {
        tool: "rsync",
        retries: Some("none"),
        probe: Some(r#"left=$(rsync -ain SOURCE TARGET) && test -z "$left""#),
        ..NONE
    },
    Advice {
        tool: "git",
        retries: Some("a lost push can be sent a second time"),
        probe: Some(
            r#"test "$(git ls-remote origin refs/heads/BRANCH | cut -f 1)" = "$(git rev-parse HEAD)""#,
        ),
        ..NONE
    },
    Advice {
        tool: "psql",
        retries: Some("none"),
        probe: Some(r#"psql -XqAtc "select 1 from TABLE where ID = VALUE" | grep -qx 1"#),
        ..NONE
    },
    Advice {
        tool: "mysql",
        retries: Some("reconnects once, and sends the statement again"),
        switch_off: Some("--skip-reconnect"),
        probe: Some(r#"mysql -BNe "select 1 from TABLE where ID = VALUE" | grep -qx 1"#),
        ..NONE
    },
    Advice {
        tool: "redis-cli",
        probe: Some("redis-cli exists KEY | grep -qx 1"),
        ..NONE
    },
    Advice {
        tool: "restic",
        retries: Some("of a lock, with --retry-lock"),
        switch_off: Some("leave out --retry-lock"),
        probe: Some("restic snapshots --json --tag TAG | grep -q short_id"),
        cleanup: Some("restic unlock"),
    },
    Advice {
        tool: "borg",
        probe: Some("borg list --short REPOSITORY | grep -qx ARCHIVE"),
        cleanup: Some("borg break-lock REPOSITORY"),
        ..NONE
    },
    Advice {
        tool: "rclone",
        retries: Some("3 of everything, and 10 of each request"),
        switch_off: Some("--retries 1 --low-level-retries 1"),
        probe: Some("rclone lsf REMOTE:DIRECTORY | grep -qx FILE"),
        ..NONE
    },
    Advice {
        tool: "aws",
        retries: Some("2 to 4 of each request, by its mode"),
        switch_off: Some("AWS_MAX_ATTEMPTS=1"),
        ..NONE
    },
    Advice {
        tool: "gcloud",
        retries: Some("5 tries of each request"),
        ..NONE
    },
    Advice {
        tool: "kubectl",
        retries: Some("what the server throttles"),
        probe: Some("kubectl diff -f FILE >/dev/null"),
        ..NONE
    },
    Advice {
        tool: "helm",
        probe: Some(
            r#"last=$(helm history RELEASE --max 1 -o json) || exit 2; case $last in *\"deployed\"*DESCRIPTION*) ;; *) exit 1 ;; esac"#,
        ),
        cleanup: Some(
            r#"last=$(helm history RELEASE --max 1 -o json) || exit; case $last in *\"pending-*) helm rollback RELEASE --wait ;; esac"#,
        ),
        ..NONE
    },
    Advice {
        tool: "terraform",
        retries: Some("what its providers make"),
        switch_off: Some("the options of each provider, for instance max_retries"),
        probe: Some(
            r#"terraform plan -detailed-exitcode -input=false -lock=false >/dev/null; case $? in 0) ;; 2) exit 1 ;; *) exit 2 ;; esac"#,
        ),
        cleanup: Some("terraform force-unlock -force ID"),
    },
    Advice {
        tool: "docker-push",
        retries: Some("5 of each layer"),
        switch_off: Some("max-upload-attempts of the daemon"),
        probe: Some(
            r#"said=$(docker manifest inspect IMAGE 2>&1) || case $said in *"no such manifest"*) exit 1 ;; *) exit 2 ;; esac"#,
        ),
        ..NONE
    },
    Advice {
        tool: "npm",
        retries: Some("2 of each request, also of the upload"),
        switch_off: Some("--fetch-retries=0, or npm_config_fetch_retries=0"),
        probe: Some(
            r#"said=$(npm view --loglevel=error NAME@VERSION version 2>&1) || case $said in *E404*) exit 1 ;; *) exit 2 ;; esac; test -n "$said""#,
        ),
        ..NONE
    },
    Advice {
        tool: "twine",
        retries: Some("5 of each upload"),
        probe: BY_STATUS,
        ..NONE
    },
    Advice {
        tool: "pip",
        retries: Some("5 of each request"),
        switch_off: Some("--retries 0, or PIP_RETRIES=0"),
        probe: Some("pip show PACKAGE >/dev/null 2>&1"),
        ..NONE
    },
    Advice {
        tool: "cargo",
        retries: Some("3 of each request to the index"),
        switch_off: Some("CARGO_NET_RETRY=0"),
        probe: BY_STATUS,
        ..NONE
    },
    Advice {
        tool: "apt-get",
        retries: Some("3 of each download"),
        switch_off: Some("-o Acquire::Retries=0"),
        probe: Some(
            r#"dpkg-query -W -f '${db:Status-Status}\n' PACKAGE 2>/dev/null | grep -qx installed"#,
        ),
        ..NONE
    },
    Advice {
        tool: "gh",
        probe: Some(
            r#"gh issue list --state all --search "TITLE in:title" --json title --jq ".[].title" | grep -qFx "TITLE""#,
        ),
        ..NONE
    },
    Advice {
        tool: "make",
        retries: Some("what its recipes make"),
        probe: Some("make --question TARGET"),
        ..NONE
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn advice_is_about_tools_and_given_once() {
        let names: BTreeSet<&str> = ADVICE.iter().map(|advice| advice.tool).collect();
        assert_eq!(names.len(), ADVICE.len());
        for advice in ADVICE {
            let tool = Tool::named(advice.tool);
            assert_eq!(tool.and_then(Tool::advice), Some(advice));
            assert!(
                advice.retries.is_some() || advice.probe.is_some(),
                "{advice:?}"
            );
        }
    }

    #[test]
    fn only_retries_are_switched_off() {
        let off = |advice: &&Advice| advice.switch_off.is_some();
        assert!(ADVICE.iter().filter(off).all(|a| a.retries.is_some()));
    }

    #[test]
    fn what_a_shell_runs_is_one_line() {
        let lines = ADVICE.iter().flat_map(|a| [a.probe, a.cleanup]);
        assert!(lines.flatten().all(|line| !line.contains('\n')));
    }
}
