#!/bin/sh
# Build the Debian package of this system's release and architecture: sh packaging/build_deb.sh WHEEL FOLDER
#
# The package has a virtual environment in /opt/surebayes with the versions of packaging/requirements.lock, each checked by
# its hash. It needs the Python that it was built with. TOOLS is a virtual environment with cyclonedx-bom.
set -eu

wheel=$1 target=$2
version=$(basename "$wheel" | cut -d- -f2 | sed 's/\.dev/~dev/')  # ~ sorts before the release
here=$(cd "$(dirname "$0")" && pwd)
tools=${TOOLS:-$here/../build/package-tools}
python=${SYSTEM_PYTHON:-/usr/bin/python3}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH PIP_DISABLE_PIP_VERSION_CHECK=1

# ---- the virtual environment
"$python" -m venv "$root/opt/surebayes"
environment=$root/opt/surebayes
"$environment/bin/pip" install --quiet --no-compile --require-hashes --only-binary :all: -r "$here/requirements.lock"
"$environment/bin/pip" install --quiet --no-compile --no-deps --no-index "$wheel"
"$environment/bin/pip" check
"$environment/bin/pip" uninstall --quiet --yes pip setuptools
mkdir -p "$root/usr/share/doc/surebayes"
"$tools/bin/cyclonedx-py" environment --output-reproducible --of JSON -o "$root/usr/share/doc/surebayes/sbom.cdx.json" \
    "$environment/bin/python"
find "$environment" -name __pycache__ -type d -prune -exec rm -rf {} +
rm -f "$environment/bin/activate" "$environment"/bin/activate.* "$environment/bin/Activate.ps1"
grep -rlI "$root" "$environment" --include='*' 2>/dev/null | xargs -r sed -i "s|$root||g"
"$python" -m compileall -q -s "$root" -p / "$environment/lib"

# ---- the system's files
install -d "$root/usr/bin" "$root/lib/systemd/system" "$root/usr/lib/sysusers.d" "$root/etc/surebayes" "$root/DEBIAN"
ln -s /opt/surebayes/bin/surebayes "$root/usr/bin/surebayes"
install -m 644 "$here/debian/surebayes.service" "$root/lib/systemd/system/surebayes.service"
install -m 644 "$here/debian/sysusers.conf" "$root/usr/lib/sysusers.d/surebayes.conf"
install -m 644 "$here/debian/config.toml" "$root/etc/surebayes/config.toml"
install -m 644 "$here/../docs/operations.md" "$here/../LICENSE" "$root/usr/share/doc/surebayes/"
install -m 644 "$here/../LICENSE" "$root/usr/share/doc/surebayes/copyright"
cp -r "$here/../examples/mail" "$here/prometheus" "$root/usr/share/doc/surebayes/"
for folder in man bash-completion zsh fish; do
    if [ -d "$environment/share/$folder" ]; then
        install -d "$root/usr/share/$folder"
        cp -r "$environment/share/$folder/." "$root/usr/share/$folder/"
    fi
done

# ---- the control files
series=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
after=$("$python" -c 'import sys; print("%d.%d" % (sys.version_info[0], sys.version_info[1] + 1))')
architecture=$(dpkg --print-architecture)
cat > "$root/DEBIAN/control" <<CONTROL
Package: surebayes
Version: $version
Architecture: $architecture
Maintainer: The surebayes developers <surebayes@localhost>
Installed-Size: $(du -sk --apparent-size "$root" | cut -f1)
Depends: python3 (>= $series), python3 (<< $after), adduser, libc6
Suggests: postfix, dovecot-sieve, spamc
Section: mail
Priority: optional
Description: mail filter with few false alarms, and sure of it
 A Naive Bayes filter that learns from its users, with a guarantee on its rate
 of false alarms. It speaks SPAMD, milter and HTTP, and has a layer of lessons
 for each person.
CONTROL
echo /etc/surebayes/config.toml > "$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 "$here/debian/$script" "$root/DEBIAN/$script"
done
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$target"
dpkg-deb --root-owner-group -Zzstd -z6 --build "$root" "$target/surebayes_${version}_$architecture.deb"
