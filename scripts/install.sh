#!/usr/bin/env bash
# Copies the files that make has built: scripts/install.sh install|uninstall, with PREFIX, UNITDIR and DESTDIR of the Makefile.
# It builds nothing and writes nothing to the source tree, so that root can install from the checkout of another user.
#
# The list of the installed files and of the directories that did not exist before is PREFIX/share/candor/files. uninstall
# removes these files, and the directories that are empty then. install removes the files of an earlier version that the new
# version does not have.
set -euo pipefail
export LC_ALL=C

: "${PREFIX:?}" "${UNITDIR:?}"
root=${DESTDIR:-}
root=${root%/}
list=$PREFIX/share/candor/files
fail() { echo "make $action: $*" >&2; exit 1; }

action=${1:-}
cd "$(dirname "$0")/.."
for path in "$PREFIX" "$UNITDIR"; do
	case $path/ in
	*/../* | *$'\n'*) fail "$path: PREFIX and UNITDIR must be absolute paths without .." ;;
	/*) ;;
	*) fail "$path: PREFIX and UNITDIR must be absolute paths without .." ;;
	esac
done

# files prints the installed files as lines "MODE SOURCE TARGET", and links as "link TARGET-OF-LINK TARGET".
files() {
	echo "755 bin/candor $PREFIX/bin/candor"
	echo "link candor $PREFIX/bin/candor-runc"
	echo "link candor $PREFIX/bin/candor-flexible-runc"
	echo "unit deploy/systemd/candor-nri.service $UNITDIR/candor-nri.service"
	(cd bin/share && find . -type f ! -name .built | sort) | while read -r file; do
		echo "644 bin/share/${file#./} $PREFIX/share/${file#./}"
	done
}

# missing_directories prints the directories above a path that do not exist, from the top.
missing_directories() {
	local directory
	directory=$(dirname "$1")
	[ ! -d "$root$directory" ] || return 0
	[ "$directory" = / ] || missing_directories "$directory"
	echo "directory $directory"
}

# check_list fails if the list of an installation has lines that install has not written.
check_list() {
	! grep -qvE '^(file|directory) /' "$root$list" && ! grep -qE '/\.\.(/|$)' "$root$list" ||
		fail "$root$list is damaged: must have lines such as file $PREFIX/bin/candor"
}

write_list() {
	sed '/^$/d' | sort -u >"$root$list.new"
	mv "$root$list.new" "$root$list"
}

install_all() {
	[ -x bin/candor ] && [ -e bin/share/.built ] || fail "bin/candor or bin/share is missing: run make first, as the owner of the source tree"
	[[ $PREFIX$UNITDIR != *[[:space:]]* ]] || fail "PREFIX and UNITDIR must have no spaces"
	local old= new stale
	if [ -e "$root$list" ]; then
		check_list
		old=$(cat "$root$list")
	fi
	new=$(
		missing_directories "$list"
		files | while read -r _ _ target; do
			missing_directories "$target"
			echo "file $target"
		done
		echo "file $list"
	)
	# The list has the old and the new files until the end, so that uninstall can remove an interrupted installation.
	mkdir -p "$root$(dirname "$list")"
	write_list <<<"$old"$'\n'"$new"
	copy_files
	stale=$(comm -23 <(grep '^file ' <<<"$old" | sort -u) <(sort -u <<<"$new"))
	remove_files <<<"$stale"
	{ grep '^directory ' <<<"$old" || true; echo "$new"; } | write_list
}

copy_files() {
	files | while read -r mode source target; do
		mkdir -p "$root$(dirname "$target")"
		case $mode in
		link) ln -sfn "$source" "$root$target" ;;
		unit)
			sed "s:/usr/local/bin:$PREFIX/bin:" "$source" >"$root$target.new"
			chmod 644 "$root$target.new"
			mv "$root$target.new" "$root$target"
			;;
		*) install -m "$mode" "$source" "$root$target" ;;
		esac
	done
}

# remove_files removes the files of the lines of a list.
remove_files() {
	sed -n 's/^file //p' | while read -r path; do
		rm -f "$root$path"
	done
}

uninstall_all() {
	[ -e "$root$list" ] || fail "no $root$list: set PREFIX and DESTDIR as in make install"
	check_list
	local entries
	entries=$(cat "$root$list")
	remove_files <<<"$entries"
	# The longest paths first: a directory after its content.
	sed -n 's/^directory //p' <<<"$entries" | sort -r | while read -r path; do
		[ ! -d "$root$path" ] || rmdir --ignore-fail-on-non-empty "$root$path/"
	done
}

umask 022
case $action in
install) install_all ;;
uninstall) uninstall_all ;;
*) action=install fail "argument \"${1:-}\": must be install or uninstall" ;;
esac
