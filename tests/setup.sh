# shellcheck shell=bash
# Sets up this clone and this machine; sourced by tests/run and demo, at the top of the clone.

torch_folder=${FIRSTFAULT_TORCH_VENV:-/opt/firstfault-tests/torch-venv}
cluster_packages="slurmctld slurmd slurmdbd slurm-client munge mariadb-server busybox shellcheck openssl systemd systemd-journal-remote faketime nginx-light"
browser_packages="chromium fonts-dejavu-core"
axe_package="axe-playwright-python==0.1.8"
database_packages="postgresql"

say() {
  printf 'firstfault: %s\n' "$*" >&2
}

may_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

# install_packages NAME...: from Debian, only those that are not there yet.
install_packages() {
  local name missing=()
  for name in "$@"; do
    # the status of a removed package is "deinstall ok config-files"
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing ${missing[*]}"
  {
    apt-get -o DPkg::Lock::Timeout=300 update -q &&
      apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends "${missing[@]}"
  } </dev/null >"$(log_file apt)" 2>&1 || {
    tail -n 5 "$(log_file apt)" >&2
    say "apt-get could not install ${missing[*]} (all of its output: $(log_file apt))"
    return 1
  }
}

log_file() {
  mkdir -p var/log
  printf 'var/log/%s.log' "$1"
}

# set_up_venv EXTRAS: .venv with this clone installed in it, as it stands (editable).
set_up_venv() {
  local python=${PYTHON:-python3} extras=$1 stamp wanted
  export DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1
  if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    say "needs Python 3.11 or newer, and $python is not: set PYTHON to one that is"
    return 1
  fi
  stamp=.venv/firstfault-$extras
  wanted=$(cat setup.cfg pyproject.toml; pwd; "$python" -VV)
  if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] &&
    .venv/bin/python -c 'import firstfault' 2>/dev/null; then
    return 0
  fi
  if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    # Debian's python3 has no ensurepip without python3-venv
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
      { may_install && install_packages python3-venv; } || {
        say "$python cannot make virtual environments: install python3-venv"
        return 1
      }
    fi
    rm -rf .venv
    "$python" -m venv .venv || return 1
  fi
  say "installing firstfault[$extras] into .venv"
  .venv/bin/python -m pip install -q -e ".[$extras]" </dev/null >"$(log_file pip)" 2>&1 || {
    tail -n 5 "$(log_file pip)" >&2
    say "pip could not install firstfault[$extras] (all of its output: $(log_file pip))"
    return 1
  }
  printf '%s\n' "$wanted" >"$stamp"
}

# set_up_cluster: Slurm and torch. What fails is said, and the tests that need it skip (or fail,
# with FIRSTFAULT_REQUIRE_CLUSTER=1).
set_up_cluster() {
  # shellcheck disable=SC2086
  install_packages $cluster_packages
  set_up_torch
}

# set_up_browser: Chromium, and axe, which looks at pages as assistive technology does. What brings
# axe would bring a browser's driver too: it is installed without, and apart.
set_up_browser() {
  # shellcheck disable=SC2086
  install_packages $browser_packages
  [ -f "var/$axe_package/complete" ] && return 0
  say "installing axe into var/$axe_package"
  { .venv/bin/python -m pip install -q --no-deps --upgrade --target "var/$axe_package" "$axe_package" &&
    touch "var/$axe_package/complete"; } </dev/null >"$(log_file axe)" 2>&1 || {
    tail -n 5 "$(log_file axe)" >&2
    say "axe could not be installed (all of the output: $(log_file axe)): its test will skip"
  }
}

# set_up_database: PostgreSQL's programs; the tests start a server of their own.
set_up_database() {
  # shellcheck disable=SC2086
  install_packages $database_packages
}

# set_up_promtool: Prometheus' checker of alert rules, alone: its package would start a server.
set_up_promtool() {
  local tool=.venv/bin/promtool folder=var/promtool
  command -v promtool >/dev/null || [ -x "$tool" ] && return 0
  say "fetching promtool into $tool"
  rm -rf "$folder" && mkdir -p "$folder"
  { (cd "$folder" && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb .) &&
    mv "$folder/usr/bin/promtool" "$tool"; } </dev/null >"$(log_file promtool)" 2>&1 ||
    say "promtool could not be fetched ($(log_file promtool)): its tests will skip"
  rm -rf "$folder"
}

# set_up_torch: a virtual environment with torch that an ordinary user can reach.
set_up_torch() {
  [ -f "$torch_folder/complete" ] && return 0
  local python=/usr/bin/python3
  say "installing torch into $torch_folder"
  mkdir -p "${torch_folder%/*}"
  (
    flock 9
    [ -f "$torch_folder/complete" ] && exit 0
    install_packages python3-venv || exit 1
    { "$python" -m venv "$torch_folder" &&
      "$torch_folder/bin/pip" install -q torch==2.13.0 numpy &&
      touch "$torch_folder/complete"; } </dev/null >"$(log_file torch)" 2>&1
  ) 9>"${torch_folder%/*}/lock" || {
    tail -n 5 "$(log_file torch)" >&2
    say "torch could not be installed (all of the output: $(log_file torch)): cluster tests will skip"
  }
}
