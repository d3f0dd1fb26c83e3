
use builtin;
use str;

set edit:completion:arg-completer[idem] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'idem'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'idem'= {
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
            cand run 'Run a command once: replay it on a repeat'
            cand status 'Show operations, or one of them in full with what to do next'
            cand log 'Show the timeline of decisions'
            cand output 'Print a stored output without running anything'
            cand wait 'Wait until an operation is settled, then end like a waiter'
            cand resolve 'Settle an operation whose outcome is unknown'
            cand forget 'Delete records'
            cand key 'Print the key that run would use for the same options'
            cand batch 'Print a batch''s persistent random name'
            cand stats 'Show what was counted, how long commands take, and which timeouts that suggests'
            cand gc 'Delete what has expired and what is left over'
            cand doctor 'Look for trouble with the store, and say what to do about it'
            cand export 'Print records with their outputs as JSON lines'
            cand import 'Read the records of an export from stdin'
            cand completions 'Print shell completions'
            cand man 'Print the manual page of idem or of a verb'
        }
        &'idem;run'= {
            cand -k 'The operation''s name, e.g. backup-{day} [env: IDEM_KEY]'
            cand --key 'The operation''s name, e.g. backup-{day} [env: IDEM_KEY]'
            cand --key-file 'Read the key from a file (one final newline is dropped)'
            cand --key-from 'Derive the key: argv,cwd,stdin,env:NAME,file:PATH,window:1d,git:head,host'
            cand --per 'Once per local hour, day, week, month or e.g. 15m'
            cand --scope 'Name space of the key [env: IDEM_SCOPE]'
            cand --task 'The task that this is a step of [env: IDEM_TASK]'
            cand --step 'The step of the task'
            cand --call 'The call within the step'
            cand --fingerprint 'What must be the same on a repeat: parts as for --key-from, or none [default: argv]'
            cand --ttl 'How long a result is replayed, from completion; or forever [default: 24h]'
            cand --failed-ttl 'The same for a final failure [default: as --ttl]'
            cand --if-running 'What to do while it runs elsewhere [default: wait]'
            cand --wait 'Longest wait for another caller or a permit'
            cand --if-unknown 'What to do when nobody knows whether it happened [default: refuse]'
            cand --if-failed 'What to do about a final failure [default: replay]'
            cand --probe 'Ask whether it happened: exit 0 yes, 1 (silent) no, 75 still under way'
            cand --settle 'A probe''s no counts only this long after the attempt''s end'
            cand --cleanup 'Undo a half-done attempt before the next one; must exit 0'
            cand -t 'End an attempt after this long; its outcome is then unknown'
            cand --timeout 'End an attempt after this long; its outcome is then unknown'
            cand --deadline 'End the whole call after this long, or at this RFC 3339 time'
            cand --kill-after 'From SIGTERM to SIGKILL at a timeout [default: 10s]'
            cand -r 'Try a failure again, at most N times [default: 0]'
            cand --retries 'Try a failure again, at most N times [default: 0]'
            cand --backoff 'exp:1s..60s, exp:1s..60s*3, linear:1s..30s or const:5s [default: exp:1s..60s]'
            cand --jitter 'full, equal, decorrelated, none, a percentage or +DUR [default: full]'
            cand --retry-on 'What may be tried again: exit:75, exit:100-110, http:5xx, timeout, signal:SEGV, stderr:/RE/, any'
            cand --stop-on 'What is final, in the same words'
            cand --success-codes 'Exit codes that mean success [default: 0]'
            cand --classifier 'How to read the tool''s errors: auto, none or a tool''s name [default: auto]'
            cand --budget 'Retries of all calls with this name together, e.g. api=10/1m'
            cand --breaker 'Refuse while it keeps failing: NAME[:failures=5|ratio=50%/20/1m,cooldown=30s,probes=1]'
            cand --bulkhead 'At most N at once under this name [alias: --limit]'
            cand --fallback 'Answer with this instead when a guard refuses or the last try failed'
            cand --preview 'What shows the person who decides what would happen'
            cand --stdin 'What the command reads [default: inherit]'
            cand --max-output 'Store at most this much output [default: 16MiB]'
            cand --on-replay 'Whether a replay prints the output [default: print]'
            cand --on-caller-loss 'What to do when the caller goes away [default: finish]'
            cand --report 'Write that object to a file, without the streams'
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --probe-first 'Ask the probe even when there is no record'
            cand --idempotent 'The command is safe to repeat (implies --if-unknown rerun)'
            cand --retry-layer 'Retry although an outer idem already does'
            cand --hold 'Record a proposal; run only what a person has approved'
            cand --auxiliary 'A nice-to-have call: no retries, never a breaker''s test, gives way to others'
            cand --no-store-output 'Store no output at all'
            cand --redact-args 'Store the arguments only as a digest'
            cand --detach 'Return once the claim is on disk'
            cand --tty 'Give the command a terminal for its output'
            cand --expand 'Fill {token}, {key} and {attempt} in the arguments'
            cand --json 'Print one JSON object instead of the streams'
            cand -q 'Say nothing but refusals'
            cand --quiet 'Say nothing but refusals'
            cand -v 'Say every decision'
            cand --verbose 'Say every decision'
            cand --dry-run 'Explain what would be done, and do nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;status'= {
            cand --scope 'Name space of the key [env: IDEM_SCOPE]'
            cand --state 'Only these states, with commas: running,unknown,…'
            cand --task 'Only the steps of this task'
            cand --since 'Only what changed since then'
            cand --limit 'At most this many [default: 50, with --json all]'
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --json 'Print JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;log'= {
            cand --scope 'Name space of the key [env: IDEM_SCOPE]'
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --json 'Print JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;output'= {
            cand --scope 'Name space of the key [env: IDEM_SCOPE]'
            cand --attempt 'The output of attempt N: of the latest generation that has any, or of generation G'
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --stderr 'The standard error instead'
            cand --both 'Both streams, each where it belongs'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;wait'= {
            cand --scope 'Name space of the key [env: IDEM_SCOPE]'
            cand --wait 'Wait at most this long, then end with 120'
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --json 'Print one JSON object instead of the streams'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;resolve'= {
            cand --scope 'Name space of the key [env: IDEM_SCOPE]'
            cand --stdout 'What a replay prints; - for stdin'
            cand --exit-code 'What a replay ends with [default: 0, with --failed 1]'
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --succeeded 'It happened: replay it from now on'
            cand --failed 'It did not, and it is final: replay the failure'
            cand --not-done 'It did not: the next call runs it'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;forget'= {
            cand --scope 'Name space of the key [env: IDEM_SCOPE]'
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --force 'Also those that are running, unknown or held'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;key'= {
            cand -k 'The operation''s name, e.g. backup-{day} [env: IDEM_KEY]'
            cand --key 'The operation''s name, e.g. backup-{day} [env: IDEM_KEY]'
            cand --key-file 'Read the key from a file (one final newline is dropped)'
            cand --key-from 'Derive the key: argv,cwd,stdin,env:NAME,file:PATH,window:1d,git:head,host'
            cand --per 'Once per local hour, day, week, month or e.g. 15m'
            cand --scope 'Name space of the key [env: IDEM_SCOPE]'
            cand --task 'The task that this is a step of [env: IDEM_TASK]'
            cand --step 'The step of the task'
            cand --call 'The call within the step'
            cand --fingerprint 'What must be the same on a repeat: parts as for --key-from, or none [default: argv]'
            cand --ttl 'How long a result is replayed, from completion; or forever [default: 24h]'
            cand --failed-ttl 'The same for a final failure [default: as --ttl]'
            cand --if-running 'What to do while it runs elsewhere [default: wait]'
            cand --wait 'Longest wait for another caller or a permit'
            cand --if-unknown 'What to do when nobody knows whether it happened [default: refuse]'
            cand --if-failed 'What to do about a final failure [default: replay]'
            cand --probe 'Ask whether it happened: exit 0 yes, 1 (silent) no, 75 still under way'
            cand --settle 'A probe''s no counts only this long after the attempt''s end'
            cand --cleanup 'Undo a half-done attempt before the next one; must exit 0'
            cand -t 'End an attempt after this long; its outcome is then unknown'
            cand --timeout 'End an attempt after this long; its outcome is then unknown'
            cand --deadline 'End the whole call after this long, or at this RFC 3339 time'
            cand --kill-after 'From SIGTERM to SIGKILL at a timeout [default: 10s]'
            cand -r 'Try a failure again, at most N times [default: 0]'
            cand --retries 'Try a failure again, at most N times [default: 0]'
            cand --backoff 'exp:1s..60s, exp:1s..60s*3, linear:1s..30s or const:5s [default: exp:1s..60s]'
            cand --jitter 'full, equal, decorrelated, none, a percentage or +DUR [default: full]'
            cand --retry-on 'What may be tried again: exit:75, exit:100-110, http:5xx, timeout, signal:SEGV, stderr:/RE/, any'
            cand --stop-on 'What is final, in the same words'
            cand --success-codes 'Exit codes that mean success [default: 0]'
            cand --classifier 'How to read the tool''s errors: auto, none or a tool''s name [default: auto]'
            cand --budget 'Retries of all calls with this name together, e.g. api=10/1m'
            cand --breaker 'Refuse while it keeps failing: NAME[:failures=5|ratio=50%/20/1m,cooldown=30s,probes=1]'
            cand --bulkhead 'At most N at once under this name [alias: --limit]'
            cand --fallback 'Answer with this instead when a guard refuses or the last try failed'
            cand --preview 'What shows the person who decides what would happen'
            cand --stdin 'What the command reads [default: inherit]'
            cand --max-output 'Store at most this much output [default: 16MiB]'
            cand --on-replay 'Whether a replay prints the output [default: print]'
            cand --on-caller-loss 'What to do when the caller goes away [default: finish]'
            cand --report 'Write that object to a file, without the streams'
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --probe-first 'Ask the probe even when there is no record'
            cand --idempotent 'The command is safe to repeat (implies --if-unknown rerun)'
            cand --retry-layer 'Retry although an outer idem already does'
            cand --hold 'Record a proposal; run only what a person has approved'
            cand --auxiliary 'A nice-to-have call: no retries, never a breaker''s test, gives way to others'
            cand --no-store-output 'Store no output at all'
            cand --redact-args 'Store the arguments only as a digest'
            cand --detach 'Return once the claim is on disk'
            cand --tty 'Give the command a terminal for its output'
            cand --expand 'Fill {token}, {key} and {attempt} in the arguments'
            cand --json 'Print one JSON object instead of the streams'
            cand -q 'Say nothing but refusals'
            cand --quiet 'Say nothing but refusals'
            cand -v 'Say every decision'
            cand --verbose 'Say every decision'
            cand --dry-run 'Explain what would be done, and do nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'idem;batch'= {
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --rotate 'Mint a new random name'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;stats'= {
            cand --scope 'Only this scope [env: IDEM_SCOPE]'
            cand --since 'Only what happened since then, by the hour, 31 days back at most'
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --json 'Print JSON'
            cand --prometheus 'Print metrics in the text format of Prometheus'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;gc'= {
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --json 'Print JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;doctor'= {
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --json 'Print JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;export'= {
            cand --scope 'Only this scope [env: IDEM_SCOPE]'
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;import'= {
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand --overwrite 'Replace records that are there, unless they are running'
            cand --json 'Print JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;completions'= {
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'idem;man'= {
            cand --store 'The store''s file [env: IDEM_STORE] [default: $XDG_STATE_HOME/idem/idem.db]'
            cand -h 'Print help'
            cand --help 'Print help'
        }
    ]
    if (and (> (count $words) 2) (has-value [status log output wait resolve forget] $words[1]) (not (str:has-prefix $words[-1] '-'))) {
        try {
            (external idem) __complete keys '='$words[-1] (all $words[1..-1]) 2>/dev/null | from-lines
        } catch { }
    }
    if (has-key $completions $command) {
        $completions[$command]
    }
}
