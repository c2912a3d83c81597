#!/bin/sh
# Make what the brokers of deploy/compose.yaml need and nobody else may know, unless it is there already:
# the secret of their links, and two users with random passwords, "admin" and "prometheus".
#   prepare.sh SECRETS SCRAPE
# SECRETS is for the brokers, SCRAPE for Prometheus, which may read its password and nothing else.
set -eu
umask 077
secrets=$1
scrape=$2

random() {
    python3 -c 'import secrets; print(secrets.token_urlsafe(32))'
}

[ -s "$secrets/link_secret" ] || random > "$secrets/link_secret"
if [ ! -s "$secrets/users.toml" ]; then
    random > "$secrets/admin_password"
    godwit user add admin --file "$secrets/users.toml" --publish '*' --subscribe '*' --admin < "$secrets/admin_password"
    random > "$scrape/password"
    godwit user add prometheus --file "$secrets/users.toml" --admin < "$scrape/password"
    chmod 0644 "$scrape/password"
fi
