# shellcheck shell=bash
# Certificates for the encrypted ports of the services: an authority of this directory, a server of 127.0.0.1, a
# client. They are made once, by openssl, and are good for nothing else.

CERTIFICATES_DIR=$SERVICES_DIR/certificates
# Who may use the ports that ask, and by which password.
TEST_USER=tidemill
TEST_PASSWORD=correct-horse

certificates_packages() { need openssl openssl; }

# signed_by_authority NAME EXTENSION: NAME.key and NAME.pem, in the directory it is called in.
signed_by_authority() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1 for development" \
    -keyout "$1.key" -out "$1.csr" &&
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -set_serial "0x$(openssl rand -hex 8)" -days 3650 \
      -extfile <(printf '%s\n' "$2") -out "$1.pem"
}

# Kafka takes a key and its certificate from one file.
make_certificates() {
  cd "$1" &&
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
      -subj '/CN=authority for development' -keyout ca.key -out ca.pem &&
    signed_by_authority server subjectAltName=IP:127.0.0.1,DNS:localhost &&
    signed_by_authority client extendedKeyUsage=clientAuth &&
    cat server.key server.pem >server.keystore
}

# Beside their place first: what was cut is never used.
certificates_install() {
  [[ ! -e $CERTIFICATES_DIR/server.keystore ]] || return 0
  rm -rf "$CERTIFICATES_DIR" "$CERTIFICATES_DIR.partial"
  (umask 077 && mkdir -p "$CERTIFICATES_DIR.partial")
  if ! (umask 077 && make_certificates "$CERTIFICATES_DIR.partial") >"$(log_file certificates)" 2>&1; then
    show_log certificates
    die "certificates: openssl could not make them"
  fi
  mv "$CERTIFICATES_DIR.partial" "$CERTIFICATES_DIR"
}
