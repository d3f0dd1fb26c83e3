# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_idem_global_optspecs
    string join \n store= config= profile= h/help V/version
end

function __fish_idem_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_idem_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_idem_using_subcommand
    set -l cmd (__fish_idem_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c idem -n "__fish_idem_needs_command" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_needs_command" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_needs_command" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_needs_command" -s V -l version -d 'Print version'
complete -c idem -n "__fish_idem_needs_command" -f -a "run" -d 'Run a command once: replay it on a repeat'
complete -c idem -n "__fish_idem_needs_command" -f -a "status" -d 'Show operations, or one of them in full with what to do next'
complete -c idem -n "__fish_idem_needs_command" -f -a "log" -d 'Show the timeline of decisions'
complete -c idem -n "__fish_idem_needs_command" -f -a "output" -d 'Print a stored output without running anything'
complete -c idem -n "__fish_idem_needs_command" -f -a "wait" -d 'Wait until an operation is settled, then end like a waiter'
complete -c idem -n "__fish_idem_needs_command" -f -a "resolve" -d 'Settle an operation whose outcome is unknown'
complete -c idem -n "__fish_idem_needs_command" -f -a "approve" -d 'Let a held command run once'
complete -c idem -n "__fish_idem_needs_command" -f -a "reject" -d 'Keep a held command from running'
complete -c idem -n "__fish_idem_needs_command" -f -a "forget" -d 'Delete records'
complete -c idem -n "__fish_idem_needs_command" -f -a "key" -d 'Print the key that run would use for the same options'
complete -c idem -n "__fish_idem_needs_command" -f -a "batch" -d 'Print a batch\'s persistent random name'
complete -c idem -n "__fish_idem_needs_command" -f -a "task" -d 'Open, show or end a task, whose steps share retries and time'
complete -c idem -n "__fish_idem_needs_command" -f -a "breaker" -d 'Show breakers, or move one'
complete -c idem -n "__fish_idem_needs_command" -f -a "explain" -d 'Show what is known about a tool, and how to ask for its effect'
complete -c idem -n "__fish_idem_needs_command" -f -a "stats" -d 'Show counts, how long commands take, and suggested timeouts'
complete -c idem -n "__fish_idem_needs_command" -f -a "gc" -d 'Delete what has expired and what is left over'
complete -c idem -n "__fish_idem_needs_command" -f -a "doctor" -d 'Look for trouble with the store, and say what to do about it'
complete -c idem -n "__fish_idem_needs_command" -f -a "init" -d 'Make the tables of a store on a PostgreSQL server'
complete -c idem -n "__fish_idem_needs_command" -f -a "sync" -d 'Deliver results that a server has missed while it was away'
complete -c idem -n "__fish_idem_needs_command" -f -a "export" -d 'Print records with their outputs as JSON lines'
complete -c idem -n "__fish_idem_needs_command" -f -a "import" -d 'Read the records of an export from stdin'
complete -c idem -n "__fish_idem_needs_command" -f -a "completions" -d 'Print shell completions'
complete -c idem -n "__fish_idem_needs_command" -f -a "man" -d 'Print the manual page of idem or of a verb'
complete -c idem -n "__fish_idem_using_subcommand run" -s k -l key -d 'The operation\'s name, e.g. backup-{day} [env: IDEM_KEY]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l key-file -d 'Read the key from a file (one final newline is dropped)' -r -F
complete -c idem -n "__fish_idem_using_subcommand run" -l key-from -d 'Derive the key from parts, e.g. argv,cwd or file:PATH,git:head' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l per -d 'Once per local hour, day, week, month or e.g. 15m' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l scope -d 'Name space of the key [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l task -d 'The task that this is a step of [env: IDEM_TASK]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l step -d 'The step of the task' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l call -d 'The call within the step' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l fingerprint -d 'What a repeat must have the same: parts or none [default: argv]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l ttl -d 'How long a result is replayed, or forever [default: 24h]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l failed-ttl -d 'The same for a final failure [default: as --ttl]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l if-running -d 'While it runs elsewhere [default: wait]' -r -f -a "wait\t''
refuse\t''
skip\t''"
complete -c idem -n "__fish_idem_using_subcommand run" -l wait -d 'Longest wait for another caller, a permit or an approval' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l if-unknown -d 'When nobody knows whether it happened [default: refuse]' -r -f -a "refuse\t''
rerun\t''"
complete -c idem -n "__fish_idem_using_subcommand run" -l if-failed -d 'About a final failure of before [default: replay]' -r -f -a "replay\t''
rerun\t''"
complete -c idem -n "__fish_idem_using_subcommand run" -l probe -d 'Ask whether it happened: exit 0 yes, 1 no' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l settle -d 'A probe\'s no counts only this long after the attempt\'s end' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l cleanup -d 'Undo a half-done attempt before the next one; must exit 0' -r
complete -c idem -n "__fish_idem_using_subcommand run" -s t -l timeout -d 'End an attempt after this long: its outcome is unknown' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l deadline -d 'End the whole call after this long, or at this RFC 3339 time' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l kill-after -d 'From SIGTERM to SIGKILL at a timeout [default: 10s]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -s r -l retries -d 'Try a failure again, at most N times [default: 0]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l backoff -d 'Pauses: exp, linear or const [default: exp:1s..60s]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l jitter -d 'full, equal, decorrelated, none, e.g. 20% or +2s [default: full]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l retry-on -d 'What may be tried again, e.g. exit:75,http:5xx,timeout' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l stop-on -d 'What is final, in the words of --retry-on' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l success-codes -d 'Exit codes that mean success [default: 0]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l classifier -d 'Whose errors it reads: auto, none or a tool\'s name [default: auto]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l budget -d 'Retries of all calls with this name together, e.g. api=10/1m' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l breaker -d 'Refuse while calls under this name keep failing' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l bulkhead -d 'At most N at once under this name [alias: --limit]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l fallback -d 'Answer with this when a guard refuses or the last try failed' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l preview -d 'What shows the person who decides what would happen' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l stdin -d 'What the command reads [default: inherit]' -r -f -a "inherit\t''
null\t''
buffer\t''"
complete -c idem -n "__fish_idem_using_subcommand run" -l max-output -d 'Store at most this much output [default: 16MiB]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l on-replay -d 'Whether a replay prints the output [default: print]' -r -f -a "print\t''
silent\t''"
complete -c idem -n "__fish_idem_using_subcommand run" -l on-caller-loss -d 'What to do when the caller goes away [default: finish]' -r -f -a "finish\t''
kill\t''"
complete -c idem -n "__fish_idem_using_subcommand run" -l lease -d 'On a server: how long a silent owner counts as alive [default: 60s]' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l report -d 'Write that object to a file, without the streams' -r -F
complete -c idem -n "__fish_idem_using_subcommand run" -l log -d 'Append one JSON line about the decision to a file' -r -F
complete -c idem -n "__fish_idem_using_subcommand run" -l on-unknown -d 'Run this when an outcome has become unknown' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand run" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand run" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand run" -l probe-first -d 'Ask the probe even when there is no record'
complete -c idem -n "__fish_idem_using_subcommand run" -l idempotent -d 'The command is safe to repeat (implies --if-unknown rerun)'
complete -c idem -n "__fish_idem_using_subcommand run" -l retry-layer -d 'Retry although an outer idem already does'
complete -c idem -n "__fish_idem_using_subcommand run" -l hold -d 'Record a proposal; run only what a person has approved'
complete -c idem -n "__fish_idem_using_subcommand run" -l auxiliary -d 'A nice-to-have: no retries, no breaker\'s test, gives way to others'
complete -c idem -n "__fish_idem_using_subcommand run" -l no-store-output -d 'Store no output at all'
complete -c idem -n "__fish_idem_using_subcommand run" -l redact-args -d 'Store the arguments only as a digest'
complete -c idem -n "__fish_idem_using_subcommand run" -l detach -d 'Return once the claim is on disk'
complete -c idem -n "__fish_idem_using_subcommand run" -l tty -d 'Give the command a terminal for its output'
complete -c idem -n "__fish_idem_using_subcommand run" -l expand -d 'Fill {token}, {key} and {attempt} in the arguments'
complete -c idem -n "__fish_idem_using_subcommand run" -l json -d 'Print one JSON object instead of the streams'
complete -c idem -n "__fish_idem_using_subcommand run" -s q -l quiet -d 'Say nothing but refusals'
complete -c idem -n "__fish_idem_using_subcommand run" -s v -l verbose -d 'Say every decision'
complete -c idem -n "__fish_idem_using_subcommand run" -l dry-run -d 'Explain what would be done, and do nothing'
complete -c idem -n "__fish_idem_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand status" -l scope -d 'Name space of the key [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand status" -l state -d 'Only these states, with commas: running,unknown,…' -r
complete -c idem -n "__fish_idem_using_subcommand status" -l task -d 'Only the steps of this task' -r
complete -c idem -n "__fish_idem_using_subcommand status" -l since -d 'Only what changed since then' -r
complete -c idem -n "__fish_idem_using_subcommand status" -l limit -d 'At most this many [default: 50, with --json all]' -r
complete -c idem -n "__fish_idem_using_subcommand status" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand status" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand status" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand status" -l watch -d 'Show it anew whenever something changes'
complete -c idem -n "__fish_idem_using_subcommand status" -l problems -d 'Only what a person must look at'
complete -c idem -n "__fish_idem_using_subcommand status" -l exit-code -d 'End with 1 where there is any'
complete -c idem -n "__fish_idem_using_subcommand status" -l json -d 'Print JSON'
complete -c idem -n "__fish_idem_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand log" -l scope -d 'Name space of the key [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand log" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand log" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand log" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand log" -l follow -d 'Then print new events as they come'
complete -c idem -n "__fish_idem_using_subcommand log" -l json -d 'Print JSON'
complete -c idem -n "__fish_idem_using_subcommand log" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand output" -l scope -d 'Name space of the key [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand output" -l attempt -d 'Attempt N of the latest generation, or of G' -r
complete -c idem -n "__fish_idem_using_subcommand output" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand output" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand output" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand output" -l stderr -d 'The standard error instead'
complete -c idem -n "__fish_idem_using_subcommand output" -l both -d 'Both streams, each where it belongs'
complete -c idem -n "__fish_idem_using_subcommand output" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand wait" -l scope -d 'Name space of the key [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand wait" -l wait -d 'Wait at most this long, then end with 120' -r
complete -c idem -n "__fish_idem_using_subcommand wait" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand wait" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand wait" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand wait" -l json -d 'Print one JSON object instead of the streams'
complete -c idem -n "__fish_idem_using_subcommand wait" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand resolve" -l scope -d 'Name space of the key [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand resolve" -l stdout -d 'What a replay prints; - for stdin' -r -F
complete -c idem -n "__fish_idem_using_subcommand resolve" -l exit-code -d 'What a replay ends with [default: 0, with --failed 1]' -r
complete -c idem -n "__fish_idem_using_subcommand resolve" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand resolve" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand resolve" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand resolve" -l succeeded -d 'It happened: replay it from now on'
complete -c idem -n "__fish_idem_using_subcommand resolve" -l failed -d 'It did not, and it is final: replay the failure'
complete -c idem -n "__fish_idem_using_subcommand resolve" -l not-done -d 'It did not: the next call runs it'
complete -c idem -n "__fish_idem_using_subcommand resolve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand approve" -l scope -d 'Name space of the key [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand approve" -l note -d 'Why, for the ledger' -r
complete -c idem -n "__fish_idem_using_subcommand approve" -l generation -d 'Only this proposal, by the generation that status shows' -r
complete -c idem -n "__fish_idem_using_subcommand approve" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand approve" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand approve" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand approve" -l yes -d 'Do not ask: it has been looked at'
complete -c idem -n "__fish_idem_using_subcommand approve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand reject" -l scope -d 'Name space of the key [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand reject" -l note -d 'Why, for the ledger' -r
complete -c idem -n "__fish_idem_using_subcommand reject" -l generation -d 'Only this proposal, by the generation that status shows' -r
complete -c idem -n "__fish_idem_using_subcommand reject" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand reject" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand reject" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand reject" -l yes -d 'Do not ask: it has been looked at'
complete -c idem -n "__fish_idem_using_subcommand reject" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand forget" -l scope -d 'Name space of the key [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand forget" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand forget" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand forget" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand forget" -l force -d 'Also those that are running, unknown or held'
complete -c idem -n "__fish_idem_using_subcommand forget" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand key" -s k -l key -d 'The operation\'s name, e.g. backup-{day} [env: IDEM_KEY]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l key-file -d 'Read the key from a file (one final newline is dropped)' -r -F
complete -c idem -n "__fish_idem_using_subcommand key" -l key-from -d 'Derive the key from parts, e.g. argv,cwd or file:PATH,git:head' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l per -d 'Once per local hour, day, week, month or e.g. 15m' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l scope -d 'Name space of the key [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l task -d 'The task that this is a step of [env: IDEM_TASK]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l step -d 'The step of the task' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l call -d 'The call within the step' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l fingerprint -d 'What a repeat must have the same: parts or none [default: argv]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l ttl -d 'How long a result is replayed, or forever [default: 24h]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l failed-ttl -d 'The same for a final failure [default: as --ttl]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l if-running -d 'While it runs elsewhere [default: wait]' -r -f -a "wait\t''
refuse\t''
skip\t''"
complete -c idem -n "__fish_idem_using_subcommand key" -l wait -d 'Longest wait for another caller, a permit or an approval' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l if-unknown -d 'When nobody knows whether it happened [default: refuse]' -r -f -a "refuse\t''
rerun\t''"
complete -c idem -n "__fish_idem_using_subcommand key" -l if-failed -d 'About a final failure of before [default: replay]' -r -f -a "replay\t''
rerun\t''"
complete -c idem -n "__fish_idem_using_subcommand key" -l probe -d 'Ask whether it happened: exit 0 yes, 1 no' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l settle -d 'A probe\'s no counts only this long after the attempt\'s end' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l cleanup -d 'Undo a half-done attempt before the next one; must exit 0' -r
complete -c idem -n "__fish_idem_using_subcommand key" -s t -l timeout -d 'End an attempt after this long: its outcome is unknown' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l deadline -d 'End the whole call after this long, or at this RFC 3339 time' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l kill-after -d 'From SIGTERM to SIGKILL at a timeout [default: 10s]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -s r -l retries -d 'Try a failure again, at most N times [default: 0]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l backoff -d 'Pauses: exp, linear or const [default: exp:1s..60s]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l jitter -d 'full, equal, decorrelated, none, e.g. 20% or +2s [default: full]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l retry-on -d 'What may be tried again, e.g. exit:75,http:5xx,timeout' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l stop-on -d 'What is final, in the words of --retry-on' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l success-codes -d 'Exit codes that mean success [default: 0]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l classifier -d 'Whose errors it reads: auto, none or a tool\'s name [default: auto]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l budget -d 'Retries of all calls with this name together, e.g. api=10/1m' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l breaker -d 'Refuse while calls under this name keep failing' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l bulkhead -d 'At most N at once under this name [alias: --limit]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l fallback -d 'Answer with this when a guard refuses or the last try failed' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l preview -d 'What shows the person who decides what would happen' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l stdin -d 'What the command reads [default: inherit]' -r -f -a "inherit\t''
null\t''
buffer\t''"
complete -c idem -n "__fish_idem_using_subcommand key" -l max-output -d 'Store at most this much output [default: 16MiB]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l on-replay -d 'Whether a replay prints the output [default: print]' -r -f -a "print\t''
silent\t''"
complete -c idem -n "__fish_idem_using_subcommand key" -l on-caller-loss -d 'What to do when the caller goes away [default: finish]' -r -f -a "finish\t''
kill\t''"
complete -c idem -n "__fish_idem_using_subcommand key" -l lease -d 'On a server: how long a silent owner counts as alive [default: 60s]' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l report -d 'Write that object to a file, without the streams' -r -F
complete -c idem -n "__fish_idem_using_subcommand key" -l log -d 'Append one JSON line about the decision to a file' -r -F
complete -c idem -n "__fish_idem_using_subcommand key" -l on-unknown -d 'Run this when an outcome has become unknown' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand key" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand key" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand key" -l probe-first -d 'Ask the probe even when there is no record'
complete -c idem -n "__fish_idem_using_subcommand key" -l idempotent -d 'The command is safe to repeat (implies --if-unknown rerun)'
complete -c idem -n "__fish_idem_using_subcommand key" -l retry-layer -d 'Retry although an outer idem already does'
complete -c idem -n "__fish_idem_using_subcommand key" -l hold -d 'Record a proposal; run only what a person has approved'
complete -c idem -n "__fish_idem_using_subcommand key" -l auxiliary -d 'A nice-to-have: no retries, no breaker\'s test, gives way to others'
complete -c idem -n "__fish_idem_using_subcommand key" -l no-store-output -d 'Store no output at all'
complete -c idem -n "__fish_idem_using_subcommand key" -l redact-args -d 'Store the arguments only as a digest'
complete -c idem -n "__fish_idem_using_subcommand key" -l detach -d 'Return once the claim is on disk'
complete -c idem -n "__fish_idem_using_subcommand key" -l tty -d 'Give the command a terminal for its output'
complete -c idem -n "__fish_idem_using_subcommand key" -l expand -d 'Fill {token}, {key} and {attempt} in the arguments'
complete -c idem -n "__fish_idem_using_subcommand key" -l json -d 'Print one JSON object instead of the streams'
complete -c idem -n "__fish_idem_using_subcommand key" -s q -l quiet -d 'Say nothing but refusals'
complete -c idem -n "__fish_idem_using_subcommand key" -s v -l verbose -d 'Say every decision'
complete -c idem -n "__fish_idem_using_subcommand key" -l dry-run -d 'Explain what would be done, and do nothing'
complete -c idem -n "__fish_idem_using_subcommand key" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand batch" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand batch" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand batch" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand batch" -l rotate -d 'Mint a new random name'
complete -c idem -n "__fish_idem_using_subcommand batch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand task" -l scope -d 'Name space of the key [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand task" -l retries -d 'With open: retries of all its steps together' -r
complete -c idem -n "__fish_idem_using_subcommand task" -l deadline -d 'With open: when all of it must be over' -r
complete -c idem -n "__fish_idem_using_subcommand task" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand task" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand task" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand task" -l json -d 'With show: print JSON'
complete -c idem -n "__fish_idem_using_subcommand task" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand breaker" -l cooldown -d 'How long it then stays open [default: 30s]' -r
complete -c idem -n "__fish_idem_using_subcommand breaker" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand breaker" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand breaker" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand breaker" -l reset -d 'Close it: let everyone in'
complete -c idem -n "__fish_idem_using_subcommand breaker" -l trip -d 'Open it: let nobody in for a while'
complete -c idem -n "__fish_idem_using_subcommand breaker" -l json -d 'Print JSON'
complete -c idem -n "__fish_idem_using_subcommand breaker" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand explain" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand explain" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand explain" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand explain" -l json -d 'Print JSON'
complete -c idem -n "__fish_idem_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand stats" -l scope -d 'Only this scope [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand stats" -l since -d 'Only since then, by the hour, 31 days back at most' -r
complete -c idem -n "__fish_idem_using_subcommand stats" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand stats" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand stats" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand stats" -l json -d 'Print JSON'
complete -c idem -n "__fish_idem_using_subcommand stats" -l prometheus -d 'Print metrics in the text format of Prometheus'
complete -c idem -n "__fish_idem_using_subcommand stats" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand gc" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand gc" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand gc" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand gc" -l json -d 'Print JSON'
complete -c idem -n "__fish_idem_using_subcommand gc" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand doctor" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand doctor" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand doctor" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand doctor" -l json -d 'Print JSON'
complete -c idem -n "__fish_idem_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand init" -l role -d 'With --print-sql: also let this role use the tables' -r
complete -c idem -n "__fish_idem_using_subcommand init" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand init" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand init" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand init" -l print-sql -d 'Print the statements instead, for whoever may execute them'
complete -c idem -n "__fish_idem_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand sync" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand sync" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand sync" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand sync" -l json -d 'Print JSON'
complete -c idem -n "__fish_idem_using_subcommand sync" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand export" -l scope -d 'Only this scope [env: IDEM_SCOPE]' -r
complete -c idem -n "__fish_idem_using_subcommand export" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand export" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand export" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand import" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand import" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand import" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand import" -l overwrite -d 'Replace records that are there, unless they are running'
complete -c idem -n "__fish_idem_using_subcommand import" -l json -d 'Print JSON'
complete -c idem -n "__fish_idem_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand completions" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand completions" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand completions" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c idem -n "__fish_idem_using_subcommand man" -l store -d 'The store\'s file, or postgres://… [env: IDEM_STORE]' -r -F
complete -c idem -n "__fish_idem_using_subcommand man" -l config -d 'The configuration, or /dev/null for none' -r -F
complete -c idem -n "__fish_idem_using_subcommand man" -l profile -d 'Use this profile of the configuration' -r
complete -c idem -n "__fish_idem_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'

function __fish_idem_live
    set -l words (commandline -opc)
    set -l typed (commandline -ct | string replace -r -- '^--[a-z-]+=' '')
    command idem __complete $argv[1] "=$typed" $words[2..-1] 2>/dev/null
end
complete -c idem -n "not __fish_seen_subcommand_from run status log output wait resolve approve reject forget key batch task breaker explain stats gc doctor init sync export import completions man" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand run" -s k -l key -x -a "(__fish_idem_live keys)"
complete -c idem -n "__fish_idem_using_subcommand run" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand run" -l task -x -a "(__fish_idem_live tasks)"
complete -c idem -n "__fish_idem_using_subcommand run" -l breaker -x -a "(__fish_idem_live breakers)"
complete -c idem -n "__fish_idem_using_subcommand run" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand status" -f -a "(__fish_idem_live here)"
complete -c idem -n "__fish_idem_using_subcommand status" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand status" -l task -x -a "(__fish_idem_live tasks)"
complete -c idem -n "__fish_idem_using_subcommand status" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand log" -f -a "(__fish_idem_live here)"
complete -c idem -n "__fish_idem_using_subcommand log" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand log" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand output" -f -a "(__fish_idem_live here)"
complete -c idem -n "__fish_idem_using_subcommand output" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand output" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand wait" -f -a "(__fish_idem_live here)"
complete -c idem -n "__fish_idem_using_subcommand wait" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand wait" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand resolve" -f -a "(__fish_idem_live here)"
complete -c idem -n "__fish_idem_using_subcommand resolve" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand resolve" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand approve" -f -a "(__fish_idem_live here)"
complete -c idem -n "__fish_idem_using_subcommand approve" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand approve" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand reject" -f -a "(__fish_idem_live here)"
complete -c idem -n "__fish_idem_using_subcommand reject" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand reject" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand forget" -f -a "(__fish_idem_live here)"
complete -c idem -n "__fish_idem_using_subcommand forget" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand forget" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand key" -s k -l key -x -a "(__fish_idem_live keys)"
complete -c idem -n "__fish_idem_using_subcommand key" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand key" -l task -x -a "(__fish_idem_live tasks)"
complete -c idem -n "__fish_idem_using_subcommand key" -l breaker -x -a "(__fish_idem_live breakers)"
complete -c idem -n "__fish_idem_using_subcommand key" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand batch" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand task" -f -a "(__fish_idem_live here)"
complete -c idem -n "__fish_idem_using_subcommand task" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand task" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand breaker" -f -a "(__fish_idem_live here)"
complete -c idem -n "__fish_idem_using_subcommand breaker" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand explain" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand stats" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand stats" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand gc" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand doctor" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand init" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand sync" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand export" -f -a "(__fish_idem_live here)"
complete -c idem -n "__fish_idem_using_subcommand export" -l scope -x -a "(__fish_idem_live scopes)"
complete -c idem -n "__fish_idem_using_subcommand export" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand import" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand completions" -l profile -x -a "(__fish_idem_live profiles)"
complete -c idem -n "__fish_idem_using_subcommand man" -l profile -x -a "(__fish_idem_live profiles)"
