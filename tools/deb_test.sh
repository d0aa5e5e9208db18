#!/usr/bin/env bash
# Installs a Debian package of etrace on a clean Debian 12 and uses it there: first without a compiler, then with one.
#
#     tools/deb_test.sh PACKAGE.deb FOLDER        FOLDER keeps the bare system from run to run; needs root and mmdebstrap
set -euo pipefail
package=$(readlink -f "${1:?usage: deb_test.sh PACKAGE.deb FOLDER}")
folder=$(mkdir -p "${2:?usage: deb_test.sh PACKAGE.deb FOLDER}" && cd "$2" && pwd)
root=$folder/root
version=$(dpkg-deb -f "$package" Version)
((EUID == 0)) || { echo "deb_test: a clean system is a chroot, which needs root" >&2; exit 1; }

if [[ ! -f $folder/bookworm.tar ]]; then
  echo "--> a bare Debian 12"
  mmdebstrap --quiet --variant=apt bookworm "$folder/bookworm.new.tar" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
  mv "$folder/bookworm.new.tar" "$folder/bookworm.tar"
fi
rm -rf --one-file-system "$root"
mkdir -p "$root"
tar -C "$root" -xf "$folder/bookworm.tar"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/hosts "$root/etc/hosts"
cp "$package" "$root/root/etrace.deb"

# `inside TEXT` runs commands in the chroot, in a process space of its own, with nothing of this system's environment.
inside() {
  echo "--> $1"
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} \
    unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" bash -euo pipefail -c "cd /root; $2"
}

apt='apt-get -qq -o Dpkg::Use-Pty=0'
inside "installing it, with nothing but its dependencies" "$apt update; $apt install -y --no-install-recommends ./etrace.deb >/dev/null 2>&1 ||
  $apt install -y --no-install-recommends ./etrace.deb; dpkg -s etrace | grep ^Status; ldconfig -p | grep libetrace"
inside "the program, without a compiler" "test \"\$(etrace --version)\" = '$version' || etrace --version | grep -F '$version'
  etrace verify gru | tail -n 3
  etrace train delayed_xor --updates 50 --quiet
  zcat /usr/share/man/man1/etrace.1.gz | grep -c '^.SS' | sed 's/\$/ verbs in the manual/'"
inside "compiler, CMake and pkg-config" "$apt install -y --no-install-recommends g++ cmake make pkg-config >/dev/null"
inside "native code" "etrace train delayed_xor --updates 50 --quiet --backend native; etrace doctor | head -n 12"
inside "a program by pkg-config" "test \"\$(pkg-config --modversion etrace)\" = '$version'
  g++ /usr/share/doc/etrace/examples/02_gru_relations.cpp -o relations \$(pkg-config --cflags --libs etrace)
  ./relations | tail -n 2"
inside "a program by CMake" "mkdir -p project && cd project
  cp /usr/share/doc/etrace/examples/05_train_copying.cpp main.cpp
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(mine LANGUAGES CXX)' 'find_package(etrace ${version%.*} REQUIRED)' \
    'add_executable(mine main.cpp)' 'target_link_libraries(mine PRIVATE etrace::etrace)' >CMakeLists.txt
  cmake -S . -B build >/dev/null && cmake --build build >/dev/null && ./build/mine | tail -n 1"
inside "removing it" "$apt purge -y etrace >/dev/null; ! command -v etrace; ! find /usr -path '*etrace*' -not -path '*/doc/*' | grep ."
rm -rf --one-file-system "$root"
echo "deb_test: $(basename "$package") installs, runs, is compiled against and goes away again"
