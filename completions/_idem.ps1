
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'idem' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'idem'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'idem' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run a command once: replay it on a repeat')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show operations, or one of them in full with what to do next')
            [CompletionResult]::new('log', 'log', [CompletionResultType]::ParameterValue, 'Show the timeline of decisions')
            [CompletionResult]::new('output', 'output', [CompletionResultType]::ParameterValue, 'Print a stored output without running anything')
            [CompletionResult]::new('wait', 'wait', [CompletionResultType]::ParameterValue, 'Wait until an operation is settled, then end like a waiter')
            [CompletionResult]::new('resolve', 'resolve', [CompletionResultType]::ParameterValue, 'Settle an operation whose outcome is unknown')
            [CompletionResult]::new('approve', 'approve', [CompletionResultType]::ParameterValue, 'Let a held command run once')
            [CompletionResult]::new('reject', 'reject', [CompletionResultType]::ParameterValue, 'Keep a held command from running')
            [CompletionResult]::new('forget', 'forget', [CompletionResultType]::ParameterValue, 'Delete records')
            [CompletionResult]::new('key', 'key', [CompletionResultType]::ParameterValue, 'Print the key that run would use for the same options')
            [CompletionResult]::new('batch', 'batch', [CompletionResultType]::ParameterValue, 'Print a batch''s persistent random name')
            [CompletionResult]::new('task', 'task', [CompletionResultType]::ParameterValue, 'Open, show or end a task, whose steps share retries and time')
            [CompletionResult]::new('breaker', 'breaker', [CompletionResultType]::ParameterValue, 'Show breakers, or move one')
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'Show what is known about a tool, and how to ask for its effect')
            [CompletionResult]::new('stats', 'stats', [CompletionResultType]::ParameterValue, 'Show counts, how long commands take, and suggested timeouts')
            [CompletionResult]::new('gc', 'gc', [CompletionResultType]::ParameterValue, 'Delete what has expired and what is left over')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Look for trouble with the store, and say what to do about it')
            [CompletionResult]::new('init', 'init', [CompletionResultType]::ParameterValue, 'Make the tables of a store on a PostgreSQL server')
            [CompletionResult]::new('sync', 'sync', [CompletionResultType]::ParameterValue, 'Deliver results that a server has missed while it was away')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Print records with their outputs as JSON lines')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Read the records of an export from stdin')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print shell completions')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print the manual page of idem or of a verb')
            break
        }
        'idem;run' {
            [CompletionResult]::new('-k', '-k', [CompletionResultType]::ParameterName, 'The operation''s name, e.g. backup-{day} [env: IDEM_KEY]')
            [CompletionResult]::new('--key', '--key', [CompletionResultType]::ParameterName, 'The operation''s name, e.g. backup-{day} [env: IDEM_KEY]')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Read the key from a file (one final newline is dropped)')
            [CompletionResult]::new('--key-from', '--key-from', [CompletionResultType]::ParameterName, 'Derive the key from parts, e.g. argv,cwd or file:PATH,git:head')
            [CompletionResult]::new('--per', '--per', [CompletionResultType]::ParameterName, 'Once per local hour, day, week, month or e.g. 15m')
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Name space of the key [env: IDEM_SCOPE]')
            [CompletionResult]::new('--task', '--task', [CompletionResultType]::ParameterName, 'The task that this is a step of [env: IDEM_TASK]')
            [CompletionResult]::new('--step', '--step', [CompletionResultType]::ParameterName, 'The step of the task')
            [CompletionResult]::new('--call', '--call', [CompletionResultType]::ParameterName, 'The call within the step')
            [CompletionResult]::new('--fingerprint', '--fingerprint', [CompletionResultType]::ParameterName, 'What a repeat must have the same: parts or none [default: argv]')
            [CompletionResult]::new('--ttl', '--ttl', [CompletionResultType]::ParameterName, 'How long a result is replayed, or forever [default: 24h]')
            [CompletionResult]::new('--failed-ttl', '--failed-ttl', [CompletionResultType]::ParameterName, 'The same for a final failure [default: as --ttl]')
            [CompletionResult]::new('--if-running', '--if-running', [CompletionResultType]::ParameterName, 'While it runs elsewhere [default: wait]')
            [CompletionResult]::new('--wait', '--wait', [CompletionResultType]::ParameterName, 'Longest wait for another caller, a permit or an approval')
            [CompletionResult]::new('--if-unknown', '--if-unknown', [CompletionResultType]::ParameterName, 'When nobody knows whether it happened [default: refuse]')
            [CompletionResult]::new('--if-failed', '--if-failed', [CompletionResultType]::ParameterName, 'About a final failure of before [default: replay]')
            [CompletionResult]::new('--probe', '--probe', [CompletionResultType]::ParameterName, 'Ask whether it happened: exit 0 yes, 1 no')
            [CompletionResult]::new('--settle', '--settle', [CompletionResultType]::ParameterName, 'A probe''s no counts only this long after the attempt''s end')
            [CompletionResult]::new('--cleanup', '--cleanup', [CompletionResultType]::ParameterName, 'Undo a half-done attempt before the next one; must exit 0')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'End an attempt after this long: its outcome is unknown')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'End an attempt after this long: its outcome is unknown')
            [CompletionResult]::new('--deadline', '--deadline', [CompletionResultType]::ParameterName, 'End the whole call after this long, or at this RFC 3339 time')
            [CompletionResult]::new('--kill-after', '--kill-after', [CompletionResultType]::ParameterName, 'From SIGTERM to SIGKILL at a timeout [default: 10s]')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Try a failure again, at most N times [default: 0]')
            [CompletionResult]::new('--retries', '--retries', [CompletionResultType]::ParameterName, 'Try a failure again, at most N times [default: 0]')
            [CompletionResult]::new('--backoff', '--backoff', [CompletionResultType]::ParameterName, 'Pauses: exp, linear or const [default: exp:1s..60s]')
            [CompletionResult]::new('--jitter', '--jitter', [CompletionResultType]::ParameterName, 'full, equal, decorrelated, none, e.g. 20% or +2s [default: full]')
            [CompletionResult]::new('--retry-on', '--retry-on', [CompletionResultType]::ParameterName, 'What may be tried again, e.g. exit:75,http:5xx,timeout')
            [CompletionResult]::new('--stop-on', '--stop-on', [CompletionResultType]::ParameterName, 'What is final, in the words of --retry-on')
            [CompletionResult]::new('--success-codes', '--success-codes', [CompletionResultType]::ParameterName, 'Exit codes that mean success [default: 0]')
            [CompletionResult]::new('--classifier', '--classifier', [CompletionResultType]::ParameterName, 'Whose errors it reads: auto, none or a tool''s name [default: auto]')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'Retries of all calls with this name together, e.g. api=10/1m')
            [CompletionResult]::new('--breaker', '--breaker', [CompletionResultType]::ParameterName, 'Refuse while calls under this name keep failing')
            [CompletionResult]::new('--bulkhead', '--bulkhead', [CompletionResultType]::ParameterName, 'At most N at once under this name [alias: --limit]')
            [CompletionResult]::new('--fallback', '--fallback', [CompletionResultType]::ParameterName, 'Answer with this when a guard refuses or the last try failed')
            [CompletionResult]::new('--preview', '--preview', [CompletionResultType]::ParameterName, 'What shows the person who decides what would happen')
            [CompletionResult]::new('--stdin', '--stdin', [CompletionResultType]::ParameterName, 'What the command reads [default: inherit]')
            [CompletionResult]::new('--max-output', '--max-output', [CompletionResultType]::ParameterName, 'Store at most this much output [default: 16MiB]')
            [CompletionResult]::new('--on-replay', '--on-replay', [CompletionResultType]::ParameterName, 'Whether a replay prints the output [default: print]')
            [CompletionResult]::new('--on-caller-loss', '--on-caller-loss', [CompletionResultType]::ParameterName, 'What to do when the caller goes away [default: finish]')
            [CompletionResult]::new('--lease', '--lease', [CompletionResultType]::ParameterName, 'On a server: how long a silent owner counts as alive [default: 60s]')
            [CompletionResult]::new('--report', '--report', [CompletionResultType]::ParameterName, 'Write that object to a file, without the streams')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Append one JSON line about the decision to a file')
            [CompletionResult]::new('--on-unknown', '--on-unknown', [CompletionResultType]::ParameterName, 'Run this when an outcome has become unknown')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--probe-first', '--probe-first', [CompletionResultType]::ParameterName, 'Ask the probe even when there is no record')
            [CompletionResult]::new('--idempotent', '--idempotent', [CompletionResultType]::ParameterName, 'The command is safe to repeat (implies --if-unknown rerun)')
            [CompletionResult]::new('--retry-layer', '--retry-layer', [CompletionResultType]::ParameterName, 'Retry although an outer idem already does')
            [CompletionResult]::new('--hold', '--hold', [CompletionResultType]::ParameterName, 'Record a proposal; run only what a person has approved')
            [CompletionResult]::new('--auxiliary', '--auxiliary', [CompletionResultType]::ParameterName, 'A nice-to-have: no retries, no breaker''s test, gives way to others')
            [CompletionResult]::new('--no-store-output', '--no-store-output', [CompletionResultType]::ParameterName, 'Store no output at all')
            [CompletionResult]::new('--redact-args', '--redact-args', [CompletionResultType]::ParameterName, 'Store the arguments only as a digest')
            [CompletionResult]::new('--detach', '--detach', [CompletionResultType]::ParameterName, 'Return once the claim is on disk')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Give the command a terminal for its output')
            [CompletionResult]::new('--expand', '--expand', [CompletionResultType]::ParameterName, 'Fill {token}, {key} and {attempt} in the arguments')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object instead of the streams')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but refusals')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but refusals')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say every decision')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say every decision')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Explain what would be done, and do nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;status' {
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Name space of the key [env: IDEM_SCOPE]')
            [CompletionResult]::new('--state', '--state', [CompletionResultType]::ParameterName, 'Only these states, with commas: running,unknown,…')
            [CompletionResult]::new('--task', '--task', [CompletionResultType]::ParameterName, 'Only the steps of this task')
            [CompletionResult]::new('--since', '--since', [CompletionResultType]::ParameterName, 'Only what changed since then')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'At most this many [default: 50, with --json all]')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--watch', '--watch', [CompletionResultType]::ParameterName, 'Show it anew whenever something changes')
            [CompletionResult]::new('--problems', '--problems', [CompletionResultType]::ParameterName, 'Only what a person must look at')
            [CompletionResult]::new('--exit-code', '--exit-code', [CompletionResultType]::ParameterName, 'End with 1 where there is any')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;log' {
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Name space of the key [env: IDEM_SCOPE]')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--follow', '--follow', [CompletionResultType]::ParameterName, 'Then print new events as they come')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;output' {
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Name space of the key [env: IDEM_SCOPE]')
            [CompletionResult]::new('--attempt', '--attempt', [CompletionResultType]::ParameterName, 'Attempt N of the latest generation, or of G')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--stderr', '--stderr', [CompletionResultType]::ParameterName, 'The standard error instead')
            [CompletionResult]::new('--both', '--both', [CompletionResultType]::ParameterName, 'Both streams, each where it belongs')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;wait' {
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Name space of the key [env: IDEM_SCOPE]')
            [CompletionResult]::new('--wait', '--wait', [CompletionResultType]::ParameterName, 'Wait at most this long, then end with 120')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object instead of the streams')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;resolve' {
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Name space of the key [env: IDEM_SCOPE]')
            [CompletionResult]::new('--stdout', '--stdout', [CompletionResultType]::ParameterName, 'What a replay prints; - for stdin')
            [CompletionResult]::new('--exit-code', '--exit-code', [CompletionResultType]::ParameterName, 'What a replay ends with [default: 0, with --failed 1]')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--succeeded', '--succeeded', [CompletionResultType]::ParameterName, 'It happened: replay it from now on')
            [CompletionResult]::new('--failed', '--failed', [CompletionResultType]::ParameterName, 'It did not, and it is final: replay the failure')
            [CompletionResult]::new('--not-done', '--not-done', [CompletionResultType]::ParameterName, 'It did not: the next call runs it')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;approve' {
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Name space of the key [env: IDEM_SCOPE]')
            [CompletionResult]::new('--note', '--note', [CompletionResultType]::ParameterName, 'Why, for the ledger')
            [CompletionResult]::new('--generation', '--generation', [CompletionResultType]::ParameterName, 'Only this proposal, by the generation that status shows')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Do not ask: it has been looked at')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;reject' {
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Name space of the key [env: IDEM_SCOPE]')
            [CompletionResult]::new('--note', '--note', [CompletionResultType]::ParameterName, 'Why, for the ledger')
            [CompletionResult]::new('--generation', '--generation', [CompletionResultType]::ParameterName, 'Only this proposal, by the generation that status shows')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Do not ask: it has been looked at')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;forget' {
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Name space of the key [env: IDEM_SCOPE]')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Also those that are running, unknown or held')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;key' {
            [CompletionResult]::new('-k', '-k', [CompletionResultType]::ParameterName, 'The operation''s name, e.g. backup-{day} [env: IDEM_KEY]')
            [CompletionResult]::new('--key', '--key', [CompletionResultType]::ParameterName, 'The operation''s name, e.g. backup-{day} [env: IDEM_KEY]')
            [CompletionResult]::new('--key-file', '--key-file', [CompletionResultType]::ParameterName, 'Read the key from a file (one final newline is dropped)')
            [CompletionResult]::new('--key-from', '--key-from', [CompletionResultType]::ParameterName, 'Derive the key from parts, e.g. argv,cwd or file:PATH,git:head')
            [CompletionResult]::new('--per', '--per', [CompletionResultType]::ParameterName, 'Once per local hour, day, week, month or e.g. 15m')
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Name space of the key [env: IDEM_SCOPE]')
            [CompletionResult]::new('--task', '--task', [CompletionResultType]::ParameterName, 'The task that this is a step of [env: IDEM_TASK]')
            [CompletionResult]::new('--step', '--step', [CompletionResultType]::ParameterName, 'The step of the task')
            [CompletionResult]::new('--call', '--call', [CompletionResultType]::ParameterName, 'The call within the step')
            [CompletionResult]::new('--fingerprint', '--fingerprint', [CompletionResultType]::ParameterName, 'What a repeat must have the same: parts or none [default: argv]')
            [CompletionResult]::new('--ttl', '--ttl', [CompletionResultType]::ParameterName, 'How long a result is replayed, or forever [default: 24h]')
            [CompletionResult]::new('--failed-ttl', '--failed-ttl', [CompletionResultType]::ParameterName, 'The same for a final failure [default: as --ttl]')
            [CompletionResult]::new('--if-running', '--if-running', [CompletionResultType]::ParameterName, 'While it runs elsewhere [default: wait]')
            [CompletionResult]::new('--wait', '--wait', [CompletionResultType]::ParameterName, 'Longest wait for another caller, a permit or an approval')
            [CompletionResult]::new('--if-unknown', '--if-unknown', [CompletionResultType]::ParameterName, 'When nobody knows whether it happened [default: refuse]')
            [CompletionResult]::new('--if-failed', '--if-failed', [CompletionResultType]::ParameterName, 'About a final failure of before [default: replay]')
            [CompletionResult]::new('--probe', '--probe', [CompletionResultType]::ParameterName, 'Ask whether it happened: exit 0 yes, 1 no')
            [CompletionResult]::new('--settle', '--settle', [CompletionResultType]::ParameterName, 'A probe''s no counts only this long after the attempt''s end')
            [CompletionResult]::new('--cleanup', '--cleanup', [CompletionResultType]::ParameterName, 'Undo a half-done attempt before the next one; must exit 0')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'End an attempt after this long: its outcome is unknown')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'End an attempt after this long: its outcome is unknown')
            [CompletionResult]::new('--deadline', '--deadline', [CompletionResultType]::ParameterName, 'End the whole call after this long, or at this RFC 3339 time')
            [CompletionResult]::new('--kill-after', '--kill-after', [CompletionResultType]::ParameterName, 'From SIGTERM to SIGKILL at a timeout [default: 10s]')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Try a failure again, at most N times [default: 0]')
            [CompletionResult]::new('--retries', '--retries', [CompletionResultType]::ParameterName, 'Try a failure again, at most N times [default: 0]')
            [CompletionResult]::new('--backoff', '--backoff', [CompletionResultType]::ParameterName, 'Pauses: exp, linear or const [default: exp:1s..60s]')
            [CompletionResult]::new('--jitter', '--jitter', [CompletionResultType]::ParameterName, 'full, equal, decorrelated, none, e.g. 20% or +2s [default: full]')
            [CompletionResult]::new('--retry-on', '--retry-on', [CompletionResultType]::ParameterName, 'What may be tried again, e.g. exit:75,http:5xx,timeout')
            [CompletionResult]::new('--stop-on', '--stop-on', [CompletionResultType]::ParameterName, 'What is final, in the words of --retry-on')
            [CompletionResult]::new('--success-codes', '--success-codes', [CompletionResultType]::ParameterName, 'Exit codes that mean success [default: 0]')
            [CompletionResult]::new('--classifier', '--classifier', [CompletionResultType]::ParameterName, 'Whose errors it reads: auto, none or a tool''s name [default: auto]')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'Retries of all calls with this name together, e.g. api=10/1m')
            [CompletionResult]::new('--breaker', '--breaker', [CompletionResultType]::ParameterName, 'Refuse while calls under this name keep failing')
            [CompletionResult]::new('--bulkhead', '--bulkhead', [CompletionResultType]::ParameterName, 'At most N at once under this name [alias: --limit]')
            [CompletionResult]::new('--fallback', '--fallback', [CompletionResultType]::ParameterName, 'Answer with this when a guard refuses or the last try failed')
            [CompletionResult]::new('--preview', '--preview', [CompletionResultType]::ParameterName, 'What shows the person who decides what would happen')
            [CompletionResult]::new('--stdin', '--stdin', [CompletionResultType]::ParameterName, 'What the command reads [default: inherit]')
            [CompletionResult]::new('--max-output', '--max-output', [CompletionResultType]::ParameterName, 'Store at most this much output [default: 16MiB]')
            [CompletionResult]::new('--on-replay', '--on-replay', [CompletionResultType]::ParameterName, 'Whether a replay prints the output [default: print]')
            [CompletionResult]::new('--on-caller-loss', '--on-caller-loss', [CompletionResultType]::ParameterName, 'What to do when the caller goes away [default: finish]')
            [CompletionResult]::new('--lease', '--lease', [CompletionResultType]::ParameterName, 'On a server: how long a silent owner counts as alive [default: 60s]')
            [CompletionResult]::new('--report', '--report', [CompletionResultType]::ParameterName, 'Write that object to a file, without the streams')
            [CompletionResult]::new('--log', '--log', [CompletionResultType]::ParameterName, 'Append one JSON line about the decision to a file')
            [CompletionResult]::new('--on-unknown', '--on-unknown', [CompletionResultType]::ParameterName, 'Run this when an outcome has become unknown')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--probe-first', '--probe-first', [CompletionResultType]::ParameterName, 'Ask the probe even when there is no record')
            [CompletionResult]::new('--idempotent', '--idempotent', [CompletionResultType]::ParameterName, 'The command is safe to repeat (implies --if-unknown rerun)')
            [CompletionResult]::new('--retry-layer', '--retry-layer', [CompletionResultType]::ParameterName, 'Retry although an outer idem already does')
            [CompletionResult]::new('--hold', '--hold', [CompletionResultType]::ParameterName, 'Record a proposal; run only what a person has approved')
            [CompletionResult]::new('--auxiliary', '--auxiliary', [CompletionResultType]::ParameterName, 'A nice-to-have: no retries, no breaker''s test, gives way to others')
            [CompletionResult]::new('--no-store-output', '--no-store-output', [CompletionResultType]::ParameterName, 'Store no output at all')
            [CompletionResult]::new('--redact-args', '--redact-args', [CompletionResultType]::ParameterName, 'Store the arguments only as a digest')
            [CompletionResult]::new('--detach', '--detach', [CompletionResultType]::ParameterName, 'Return once the claim is on disk')
            [CompletionResult]::new('--tty', '--tty', [CompletionResultType]::ParameterName, 'Give the command a terminal for its output')
            [CompletionResult]::new('--expand', '--expand', [CompletionResultType]::ParameterName, 'Fill {token}, {key} and {attempt} in the arguments')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object instead of the streams')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Say nothing but refusals')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Say nothing but refusals')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Say every decision')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Say every decision')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Explain what would be done, and do nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;batch' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--rotate', '--rotate', [CompletionResultType]::ParameterName, 'Mint a new random name')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;task' {
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Name space of the key [env: IDEM_SCOPE]')
            [CompletionResult]::new('--retries', '--retries', [CompletionResultType]::ParameterName, 'With open: retries of all its steps together')
            [CompletionResult]::new('--deadline', '--deadline', [CompletionResultType]::ParameterName, 'With open: when all of it must be over')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'With show: print JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;breaker' {
            [CompletionResult]::new('--cooldown', '--cooldown', [CompletionResultType]::ParameterName, 'How long it then stays open [default: 30s]')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--reset', '--reset', [CompletionResultType]::ParameterName, 'Close it: let everyone in')
            [CompletionResult]::new('--trip', '--trip', [CompletionResultType]::ParameterName, 'Open it: let nobody in for a while')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;explain' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;stats' {
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Only this scope [env: IDEM_SCOPE]')
            [CompletionResult]::new('--since', '--since', [CompletionResultType]::ParameterName, 'Only since then, by the hour, 31 days back at most')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON')
            [CompletionResult]::new('--prometheus', '--prometheus', [CompletionResultType]::ParameterName, 'Print metrics in the text format of Prometheus')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;gc' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;doctor' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;init' {
            [CompletionResult]::new('--role', '--role', [CompletionResultType]::ParameterName, 'With --print-sql: also let this role use the tables')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--print-sql', '--print-sql', [CompletionResultType]::ParameterName, 'Print the statements instead, for whoever may execute them')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;sync' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;export' {
            [CompletionResult]::new('--scope', '--scope', [CompletionResultType]::ParameterName, 'Only this scope [env: IDEM_SCOPE]')
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;import' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('--overwrite', '--overwrite', [CompletionResultType]::ParameterName, 'Replace records that are there, unless they are running')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;completions' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'idem;man' {
            [CompletionResult]::new('--store', '--store', [CompletionResultType]::ParameterName, 'The store''s file, or postgres://… [env: IDEM_STORE]')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The configuration, or /dev/null for none')
            [CompletionResult]::new('--profile', '--profile', [CompletionResultType]::ParameterName, 'Use this profile of the configuration')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
    })

    $words = @($commandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
    if ($wordToComplete -ne '') { $words = @($words | Select-Object -SkipLast 1) }
    $completions += @(& idem __complete here "=$wordToComplete" @words 2>$null | ForEach-Object {
        $text = if ($_ -match '^[\w./:+=-]+$') { $_ } else { "'" + $_.Replace("'", "''") + "'" }
        [CompletionResult]::new($text, $_, [CompletionResultType]::ParameterValue, $_)
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
