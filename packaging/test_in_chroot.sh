#!/bin/sh
# The life of the package, in a clean Debian: installed, configured, trained, served, upgraded, downgraded, removed, purged.
# packaging/test_package.py runs it in a chroot with /packages/before.deb and /packages/now.deb.
set -eu

step() { printf '\n== %s\n' "$1"; }
as_user() { runuser -u surebayes -- "$@"; }
settings=/etc/surebayes/config.toml
check() { # spam and ham through spamc
    spamc -U /run/surebayes/spamd.sock -c < /tmp/spam.eml && { echo "spam was missed"; exit 1; }
    spamc -U /run/surebayes/spamd.sock -c < /tmp/ham.eml || { echo "a false alarm"; exit 1; }
}
serve() { # as the unit does
    install -d -o surebayes -g surebayes /run/surebayes
    command=$(sed -n 's/^ExecStart=//p' /lib/systemd/system/surebayes.service)
    HOME=/var/lib/surebayes setpriv --reuid surebayes --regid surebayes --init-groups $command 2> /tmp/serve.log &
    server=$!
    for _ in $(seq 600); do
        if grep -q '"event":"ready"' /tmp/serve.log; then return; fi
        if ! kill -0 $server 2> /dev/null; then break; fi
        sleep 0.1
    done
    cat /tmp/serve.log
    exit 1
}
stop() { kill -TERM $server; wait $server; }

step "install"
dpkg -i /packages/before.deb
getent passwd surebayes
test "$(stat -c '%U %G %a' /etc/surebayes)" = "root surebayes 750"
test "$(stat -c '%U %a' /var/lib/surebayes)" = "surebayes 750"
/opt/surebayes/bin/python - << 'SBOM'
import importlib.metadata, json
listed = json.load(open("/usr/share/doc/surebayes/sbom.cdx.json"))
assert listed["bomFormat"] == "CycloneDX", listed["bomFormat"]
bill = {(part["name"].lower(), part["version"]) for part in listed["components"]}
there = {(found.name.lower(), found.version) for found in importlib.metadata.distributions()}
assert bill == there, f"the SBOM differs from what is installed: {bill ^ there}"
SBOM
test ! -e /opt/surebayes/bin/pip
if grep -rIl "/tmp/tmp\." /opt/surebayes; then echo "paths of the build are left"; exit 1; fi
surebayes doctor
surebayes --version

step "configure and train"
sed -i 's/^workers = 2/workers = 1/' $settings
as_user surebayes demo --mails 600 --out /var/lib/surebayes/demo > /tmp/demo.log
as_user mv /var/lib/surebayes/demo/filter /var/lib/surebayes/filter
printf 'From: a@example.org\nSubject: cheap pills\nMessage-ID: <spam@test>\n\ncheap pills, order now\n' > /tmp/spam.eml
printf 'From: b@example.org\nSubject: lunch\nMessage-ID: <ham@test>\n\nlunch on Thursday? the minutes are attached\n' > /tmp/ham.eml
for label in spam ham; do as_user surebayes learn -m /var/lib/surebayes/filter --as $label - < /tmp/$label.eml; done

step "serve"
serve
check
as_user surebayes doctor -m /var/lib/surebayes/filter --mail --spamd unix:/run/surebayes/spamd.sock \
    --http 127.0.0.1:8025 --milter 127.0.0.1:8026
spamc -U /run/surebayes/spamd.sock -L ham < /tmp/ham.eml
stop
as_user surebayes classify -m /var/lib/surebayes/filter --json - < /tmp/spam.eml > /tmp/verdict.before

step "upgrade"
dpkg -i /packages/now.deb
grep -q '^workers = 1' $settings
as_user surebayes classify -m /var/lib/surebayes/filter --json - < /tmp/spam.eml > /tmp/verdict.now
cmp /tmp/verdict.before /tmp/verdict.now
serve
check
stop

step "back to the package before"
dpkg -i /packages/before.deb
grep -q '^workers = 1' $settings
serve
check
stop

step "remove, and install again"
dpkg -r surebayes
test ! -e /opt/surebayes
test -d /var/lib/surebayes/filter
grep -q '^workers = 1' $settings
dpkg -i /packages/now.deb
surebayes doctor -m /var/lib/surebayes/filter

step "purge"
rm -rf /run/surebayes
dpkg -P surebayes
if getent passwd surebayes; then exit 1; fi
left=$(find / -xdev -name '*surebayes*' ! -path '/proc/*' ! -path '/packages*' ! -path '/var/log/*' ! -path '/tmp/*')
test -z "$left" || { echo "left behind: $left"; exit 1; }
printf '\n== passed\n'
