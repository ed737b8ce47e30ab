import { createPrivateKey, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config';
import { fail, ok, warn, type Finding } from './check';

const MONTH_MS = 30 * 86_400_000;

/** Checks that certificates are readable, valid and match their keys, and that other users cannot read the keys. */
export function checkCertificates({ tls, data }: Config): Finding[] {
  if (tls.mode === 'off')
    return [
      warn(
        'TLS',
        'disabled: API keys and values are sent over the network in plain text',
        'set PLANTROOM_TLS_MODE=auto',
      ),
    ];
  const client =
    tls.clientCaFile === ''
      ? []
      : checkCertificate(
          'client CA',
          tls.clientCaFile,
          'set PLANTROOM_TLS_CLIENT_CA_FILE to the CA that signs your client certificates',
        );
  const renewFiles = 'renew the certificate; a running server loads the new files automatically';
  if (tls.mode === 'files') return [...checkPair('certificate', tls.certFile, tls.keyFile, renewFiles), ...client];
  const folder = join(data.dir, 'tls');
  if (!existsSync(join(folder, 'ca.pem')))
    return [ok('TLS', 'no certificates yet; the first start creates them'), ...client];
  const startServer = 'start the server: it renews its certificate automatically';
  return [
    ...checkPair(
      'CA',
      join(folder, 'ca.pem'),
      join(folder, 'ca-key.pem'),
      'delete the files of the CA and restart: the server creates a new CA (valid 10 years), which every client must then trust',
    ),
    ...checkPair('certificate', join(folder, 'server.pem'), join(folder, 'server-key.pem'), startServer),
    ...client,
  ];
}

/** Checks a certificate and its private key. */
function checkPair(check: string, certFile: string, keyFile: string, fix: string): Finding[] {
  const findings = checkCertificate(check, certFile, fix);
  if (findings.some((finding) => finding.state === 'fail')) return findings;
  try {
    if (!new X509Certificate(readFileSync(certFile)).checkPrivateKey(createPrivateKey(readFileSync(keyFile))))
      return [
        ...findings,
        fail(`${check} key`, `${keyFile} is not the key of ${certFile}`, 'configure a certificate and its own key'),
      ];
  } catch (error) {
    return [
      ...findings,
      fail(
        `${check} key`,
        `${keyFile} cannot be used (${(error as Error).message})`,
        'configure a readable private key in PEM format without a passphrase',
      ),
    ];
  }
  return [...findings, checkKeyMode(check, keyFile)];
}

/** Checks that a certificate is readable and valid now; warns a month before it expires. */
function checkCertificate(check: string, file: string, fix: string): Finding[] {
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(readFileSync(file));
  } catch (error) {
    return [
      fail(
        check,
        `${file} cannot be used (${(error as Error).message})`,
        'configure a readable certificate in PEM format',
      ),
    ];
  }
  const expiresAt = certificate.validToDate.getTime();
  const found = `valid until ${certificate.validToDate.toISOString().slice(0, 10)}${certificate.subjectAltName ? `, for ${certificate.subjectAltName.replaceAll(/DNS:|IP Address:/g, '')}` : ''}`;
  if (expiresAt < Date.now())
    return [fail(check, `expired on ${certificate.validToDate.toISOString().slice(0, 10)}`, fix)];
  if (certificate.validFromDate.getTime() > Date.now())
    return [
      fail(
        check,
        `not valid before ${certificate.validFromDate.toISOString().slice(0, 10)}`,
        'check the clock of this machine, or wait until the certificate is valid',
      ),
    ];
  return [expiresAt < Date.now() + MONTH_MS ? warn(check, found, fix) : ok(check, found)];
}

/**
 * Warns if users other than the owner and the group have any access to the private key: the last octal digit of the
 * mode is theirs.
 */
function checkKeyMode(check: string, keyFile: string): Finding {
  const mode = statSync(keyFile).mode & 0o777;
  const isAccessibleToEveryone = process.platform !== 'win32' && (mode & 0o007) !== 0;
  return isAccessibleToEveryone
    ? warn(`${check} key`, `every user of this machine can read it (mode ${mode.toString(8)})`, `chmod 600 ${keyFile}`)
    : ok(`${check} key`, keyFile);
}
