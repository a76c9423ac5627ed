"""TLS of the HTTP door: a certificate and its key from PEM files."""

import ssl

from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import HttpTls


def tls_context(settings: HttpTls) -> ssl.SSLContext:
    """The context of the server. ConfigError if a file is missing or is no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"http.tls.cert_file = {settings.cert_file} and http.tls.key_file ="
            f" {settings.key_file} cannot be used: {error}"
        ) from None
    return context
