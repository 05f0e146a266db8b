set -e
export PGOPTIONS='-c client_min_messages=warning'
U=postgres://postgres@127.0.0.1:5499
psql $U/postgres -qc "drop database if exists f with (force)" -c "create database f"
DATABASE_URL=$U/f ${TIDEGATE:?the program of main} migrate >/dev/null
DATABASE_URL=$U/f ${TIDEGATE:?the program of main} init --example relayer >/dev/null 2>&1
cd "$(dirname "$0")/../.."
psql $U/f -v ON_ERROR_STOP=1 -q -c "set check_function_bodies = off" -f migrations/V25__fair_queues.sql
( echo "set check_function_bodies = off;"; echo "set search_path = pg_catalog, pg_temp;"; for f in $(git diff --name-only main -- sql | grep -v -e tables.sql -e queries) sql/storage/queue_storage.sql; do echo "\\echo $f"; cat $f; echo ";"; done ) > "${TMPDIR:-/tmp}/fair.sql"
psql $U/f -v ON_ERROR_STOP=1 -q -1 -f "${TMPDIR:-/tmp}/fair.sql" | tail -3
