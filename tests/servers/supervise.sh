# Runs a server for a test: "start" starts it, "wait" waits for its end. With the end of the input, which
# is also the end of the test's process, the server ends at once and its directory is deleted.
# $1: the directory; $2: the signal that ends the server at once; the rest: the server's command.
place=$1 signal=$2
# The shell tells of jobs that were killed.
exec 2>>"$place/log"
shift 2
server=
while read -r word; do
    case $word in
    start)
        "$@" </dev/null >>"$place/log" 2>&1 &
        server=$!
        echo "$server"
        ;;
    wait)
        wait "$server"
        echo ended
        ;;
    esac
done
[ -z "$server" ] || kill -s "$signal" "$server" 2>/dev/null
wait
rm -rf "$place"
