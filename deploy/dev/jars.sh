# shellcheck shell=bash
# Services that run from Maven's jars: what their pom.xml names is copied to the directory `lib` of the service.

jars_of() { printf '%s/%s/lib' "$INSTALL_DIR" "$1"; }

# need_jars SERVICE: notes Maven where the jars are not there.
need_jars() { [[ -e $(jars_of "$1")/complete ]] || need mvn maven; }

# fetch_jars SERVICE [MAVEN OPTION…]: again where its pom.xml has changed. The jars
# are copied beside their place first: a cut download is never used.
fetch_jars() {
  local name=$1 lib pom
  shift
  lib=$(jars_of "$name")
  pom=$DEV_DIR/$name/pom.xml
  mkdir -p "$SERVICES_DIR/$name"
  [[ ! -e $lib/complete ]] || cmp -s "$pom" "$lib/complete" || rm -rf "$lib"
  [[ ! -e $lib/complete ]] || return 0
  say "$name: fetching the jars"
  rm -rf "$lib" "$lib.partial"
  mkdir -p "$lib.partial"
  if ! fetch mvn -q -B -f "$pom" -Dmaven.repo.local="$DOWNLOADS/maven" dependency:copy-dependencies "$@" \
    -DoutputDirectory="$lib.partial" >"$(log_file maven)" 2>&1; then
    show_log maven
    die "$name: Maven could not fetch the jars"
  fi
  cp "$pom" "$lib.partial/complete"
  mv "$lib.partial" "$lib"
}
