/** Whether the TLS error says that the server requires a client certificate, which proves that a server is running. */
export function isClientCertificateRequired(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED';
}
